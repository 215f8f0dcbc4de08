/* The reference model as something that the profiler can measure. */
#ifndef DCPAR_TRAIN_PROBE_H
#define DCPAR_TRAIN_PROBE_H

#include "dcpar_run.h"
#include "train/model_file.h"

/* What this processor is, for the fingerprint: "cpu NAME, avx512". */
void dcpar_device_text(char text[DCPAR_TEXT]);

/* The fingerprint and the facts of a profile of `model` on `world` ranks of `memory` bytes each; step_seconds is 0. */
dcpar_profile_info dcpar_model_info(const dcpar_model *model, int32_t world, int64_t memory);

/* Profiles `model` on all ranks up to the length of `longest` tokens (options->longest; 0: what fits, at most the
 * model's limit), its optimizer step included. Collective over `world`. */
dcpar_status dcpar_model_profile(dcpar_comm *world, const dcpar_model *model, int64_t memory,
                                 const dcpar_measure_options *options, dcpar_profile **out, dcpar_error *error);

/* DCPAR_MISMATCH, saying what differs, when a profile is not of this model, device, method, version and number of
 * ranks. */
dcpar_status dcpar_profile_belongs(const dcpar_profile *profile, const dcpar_profile_info *wanted, dcpar_error *error);

#endif
