#include "nn/matmul.h"

#ifdef DCPAR_HAVE_ONEDNN

#include <dnnl.h>
#include <omp.h>

void dcpar_matmul_library(const dcpar_product *x) {
    dnnl_sgemm(x->a_transposed ? 'T' : 'N', x->b_transposed ? 'T' : 'N', x->m, x->n, x->k, 1.0f, x->a, x->lda, x->b,
               x->ldb, x->add ? 1.0f : 0.0f, x->c, x->ldc);
}

/* The number of threads belongs to the calling thread alone (OpenMP's nthreads-var), so ranks do not disturb others. */
int dcpar_device_threads(int threads) {
    const int before = omp_get_max_threads();
    omp_set_num_threads(threads);
    return before;
}

#else

int dcpar_device_threads(int threads) {
    (void)threads;
    return 1;
}

#endif
