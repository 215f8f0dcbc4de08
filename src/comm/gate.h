/* A gate where threads meet: each waits until all have come. It can be broken, so that nobody waits for ever.
 *
 * Written for more threads than cores: a thread looks a few times, lets others run a few times, and then sleeps in
 * the kernel until it is woken. Linux only (futex). */
#ifndef DCPAR_COMM_GATE_H
#define DCPAR_COMM_GATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* All zeros is a new gate. */
typedef struct dcpar_gate {
    _Atomic uint32_t turn; /* bit 0: broken; the rest counts how often the gate has opened */
    _Atomic uint32_t arrived;
    _Atomic uint32_t sleepers;
} dcpar_gate;

/* Waits until `threads` threads have called. All of them get true, or all of them false when the gate was broken
 * before the last one came. */
bool dcpar_gate_pass(dcpar_gate *gate, uint32_t threads);

/* From now on nobody passes; those who wait are woken. */
void dcpar_gate_break(dcpar_gate *gate);

#endif
