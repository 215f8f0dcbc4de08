/* The two ends of the model: embedding and rotary angles before the layers; last norm, head and loss after them. */
#ifndef DCPAR_NN_ENDS_H
#define DCPAR_NN_ENDS_H

#include "nn/layer.h"

/* Of this rank's tokens the first `live` belong to a sequence; the rest is padding. */
int64_t dcpar_live_tokens(const dcpar_pass *pass, int32_t rank);

/* space.rotation from positions. Zeros in padding. */
void dcpar_rotation_angles(const dcpar_pass *pass, const int32_t *position, int64_t live);

/* x [local, hidden]; rows of padding are zeros, and stay zeros in every layer. */
void dcpar_embedding_forward(const dcpar_pass *pass, const float *embedding, const int32_t *input, int64_t live,
                             float *x);
/* Adds space.stream to the rows of d_embedding. */
void dcpar_embedding_backward(const dcpar_pass *pass, const int32_t *input, int64_t live, float *d_embedding);

/* space.stream, the last layer's output, becomes the gradient of the sum of losses with respect to it; adds to
 * `gradients`; returns that sum. Rows of padding are zeros and stay zeros. A chunk of tokens at a time: tokens x
 * vocabulary numbers are never there at once. */
double dcpar_loss(const dcpar_pass *pass, const dcpar_model_tensors *weights, const dcpar_model_tensors *gradients,
                  const dcpar_tokens *tokens, int64_t live);

#endif
