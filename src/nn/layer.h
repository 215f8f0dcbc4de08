/* One decoder layer, forward and backward:  x += output(attention(norm(x)));  x += down(swiglu(norm(x))). */
#ifndef DCPAR_NN_LAYER_H
#define DCPAR_NN_LAYER_H

#include "nn/memory.h"
#include "nn/tensors.h"

/* What all layers of one micro-batch share. */
typedef struct dcpar_pass {
    const dcpar_device *device;
    dcpar_comm *group; /* NULL when one rank runs it alone */
    dcpar_arena *arena;
    dcpar_sizes shape;
    dcpar_workspace space;
    const int64_t *starts;
    int64_t sequences;
} dcpar_pass;

/* input, output [local, hidden]. `output` NULL: only the activations are wanted again. Collective over the group. */
dcpar_status dcpar_layer_forward(dcpar_pass *pass, const dcpar_layer_tensors *weights, const float *input,
                                 dcpar_layer_activations *kept, float *output, dcpar_error *error);

/* space.stream holds the gradient of the output and then that of the input; adds to `gradients`; overwrites `kept`.
 * Collective over the group. */
dcpar_status dcpar_layer_backward(dcpar_pass *pass, const dcpar_layer_tensors *weights,
                                  const dcpar_layer_tensors *gradients, const float *input,
                                  dcpar_layer_activations *kept, dcpar_error *error);

/* Linear layers: weight [outputs, inputs], x and dx [rows, inputs], y and dy [rows, outputs]. */
void dcpar_linear_forward(const dcpar_pass *pass, int64_t rows, int64_t inputs, int64_t outputs, const float *x,
                          const float *weight, float *y, bool add);
void dcpar_linear_input_gradient(const dcpar_pass *pass, int64_t rows, int64_t inputs, int64_t outputs, const float *dy,
                                 const float *weight, float *dx);
/* Adds. */
void dcpar_linear_weight_gradient(const dcpar_pass *pass, int64_t rows, int64_t inputs, int64_t outputs,
                                  const float *dy, const float *x, float *d_weight);

#endif
