/* Matrix products by a library; nothing else in dcpar knows its name. Only there with DCPAR_HAVE_ONEDNN. */
#ifndef DCPAR_NN_MATMUL_H
#define DCPAR_NN_MATMUL_H

#include "nn/device.h"

void dcpar_matmul_library(const dcpar_product *product);

#endif
