/* Products of small matrices that lie in cache, and a plain product of large ones made of them. */

/* c[rows, vectors * LANES] (+)= a b, all in registers. a(i, k) = a[i * a_row + k * a_column]: any operand may be read
 * transposed. `rows` and `vectors` are constants where this is inlined. */
ALWAYS_INLINE void multiply_tile(const int rows, const int vectors, int64_t depth, const float *a, int64_t a_row,
                                 int64_t a_column, const float *b, int64_t ldb, float *c, int64_t ldc, bool add) {
    vector sum[DCPAR_TILE_ROWS][DCPAR_TILE_VECTORS];
#pragma GCC unroll 8
    for (int i = 0; i < rows; ++i)
#pragma GCC unroll 8
        for (int j = 0; j < vectors; ++j) sum[i][j] = add ? load(c + i * ldc + j * LANES) : zeros();
    for (int64_t k = 0; k < depth; ++k) {
        vector row[DCPAR_TILE_VECTORS];
#pragma GCC unroll 8
        for (int j = 0; j < vectors; ++j) row[j] = load(b + k * ldb + j * LANES);
#pragma GCC unroll 8
        for (int i = 0; i < rows; ++i) {
            const float factor = a[i * a_row + k * a_column];
#pragma GCC unroll 8
            for (int j = 0; j < vectors; ++j) sum[i][j] += factor * row[j];
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < rows; ++i)
#pragma GCC unroll 8
        for (int j = 0; j < vectors; ++j) store(c + i * ldc + j * LANES, sum[i][j]);
}

ALWAYS_INLINE void multiply_strip(const int vectors, int64_t m, int64_t depth, const float *a, int64_t a_row,
                                  int64_t a_column, const float *b, int64_t ldb, float *c, int64_t ldc, bool add) {
    int64_t i = 0;
    for (; i + DCPAR_TILE_ROWS <= m; i += DCPAR_TILE_ROWS)
        multiply_tile(DCPAR_TILE_ROWS, vectors, depth, a + i * a_row, a_row, a_column, b, ldb, c + i * ldc, ldc, add);
    a += i * a_row;
    c += i * ldc;
    switch (m - i) {
    case 1: multiply_tile(1, vectors, depth, a, a_row, a_column, b, ldb, c, ldc, add); break;
    case 2: multiply_tile(2, vectors, depth, a, a_row, a_column, b, ldb, c, ldc, add); break;
    case 3: multiply_tile(3, vectors, depth, a, a_row, a_column, b, ldb, c, ldc, add); break;
    case 4: multiply_tile(4, vectors, depth, a, a_row, a_column, b, ldb, c, ldc, add); break;
    case 5: multiply_tile(5, vectors, depth, a, a_row, a_column, b, ldb, c, ldc, add); break;
    default: break;
    }
}

/* c[m, n] (+)= a[m, depth] b[depth, n]; n is a multiple of LANES. */
static void multiply_block(int64_t m, int64_t n, int64_t depth, const float *a, int64_t a_row, int64_t a_column,
                           const float *b, int64_t ldb, float *c, int64_t ldc, bool add) {
    int64_t j = 0;
    for (; j + DCPAR_TILE_VECTORS * LANES <= n; j += DCPAR_TILE_VECTORS * LANES)
        multiply_strip(DCPAR_TILE_VECTORS, m, depth, a, a_row, a_column, b + j, ldb, c + j, ldc, add);
    for (; j < n; j += LANES) multiply_strip(1, m, depth, a, a_row, a_column, b + j, ldb, c + j, ldc, add);
}

/* Blocks of `depth` by `columns` of b are copied side by side so that they stay in the cache, zeros beyond the edge. */
enum { PLAIN_DEPTH = 128, PLAIN_COLUMNS = 64, PLAIN_ROWS = 96 };

static void multiply_plain_block(const dcpar_product *x, int64_t first_column, int64_t columns, int64_t first_depth,
                                 int64_t depth) {
    _Alignas(64) float packed[PLAIN_DEPTH * PLAIN_COLUMNS];
    _Alignas(64) float result[PLAIN_ROWS * PLAIN_COLUMNS];
    const int64_t b_row = x->b_transposed ? 1 : x->ldb, b_column = x->b_transposed ? x->ldb : 1;
    const int64_t a_row = x->a_transposed ? 1 : x->lda, a_column = x->a_transposed ? x->lda : 1;
    const float *b = x->b + first_depth * b_row + first_column * b_column;
    for (int64_t k = 0; k < depth; ++k)
        for (int64_t j = 0; j < PLAIN_COLUMNS; ++j)
            packed[k * PLAIN_COLUMNS + j] = j < columns ? b[k * b_row + j * b_column] : 0.0f;

    const bool add = x->add || first_depth > 0;
    for (int64_t i = 0; i < x->m; i += PLAIN_ROWS) {
        const int64_t rows = x->m - i < PLAIN_ROWS ? x->m - i : PLAIN_ROWS;
        multiply_block(rows, PLAIN_COLUMNS, depth, x->a + i * a_row + first_depth * a_column, a_row, a_column, packed,
                       PLAIN_COLUMNS, result, PLAIN_COLUMNS, false);
        for (int64_t row = 0; row < rows; ++row) {
            float *c = x->c + (i + row) * x->ldc + first_column;
            for (int64_t j = 0; j < columns; ++j) c[j] = (add ? c[j] : 0.0f) + result[row * PLAIN_COLUMNS + j];
        }
    }
}

static void multiply_plain(const dcpar_product *x) {
    for (int64_t column = 0; column < x->n; column += PLAIN_COLUMNS)
        for (int64_t k = 0; k < x->k; k += PLAIN_DEPTH)
            multiply_plain_block(x, column, x->n - column < PLAIN_COLUMNS ? x->n - column : PLAIN_COLUMNS, k,
                                 x->k - k < PLAIN_DEPTH ? x->k - k : PLAIN_DEPTH);
}
