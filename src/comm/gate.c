#define _GNU_SOURCE /* syscall */
#include "comm/gate.h"

#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BROKEN UINT32_C(1)
#define NEXT_TURN UINT32_C(2)

/* Looking costs a core that another rank may need; sleeping costs two switches and a wake. */
#define LOOKS 200
#define YIELDS 50

static void sleep_while(dcpar_gate *gate, uint32_t turn) {
    atomic_fetch_add(&gate->sleepers, 1);
    while (atomic_load(&gate->turn) == turn) syscall(SYS_futex, &gate->turn, FUTEX_WAIT_PRIVATE, turn, NULL, NULL, 0);
    atomic_fetch_sub(&gate->sleepers, 1);
}

/* Called after `turn` has changed: who counted himself as a sleeper before that is woken, who does it later finds the
 * new value and does not sleep. */
static void wake_sleepers(dcpar_gate *gate) {
    if (atomic_load(&gate->sleepers) > 0) syscall(SYS_futex, &gate->turn, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static void wait_while(dcpar_gate *gate, uint32_t turn) {
    for (int look = 0; look < LOOKS; ++look)
        if (atomic_load_explicit(&gate->turn, memory_order_acquire) != turn) return;
    for (int yield = 0; yield < YIELDS; ++yield) {
        sched_yield();
        if (atomic_load_explicit(&gate->turn, memory_order_acquire) != turn) return;
    }
    sleep_while(gate, turn);
}

bool dcpar_gate_pass(dcpar_gate *gate, uint32_t threads) {
    uint32_t turn = atomic_load(&gate->turn); /* cannot open before this thread has come */
    if (turn & BROKEN) return false;
    if (atomic_fetch_add(&gate->arrived, 1) + 1 == threads) {
        atomic_store(&gate->arrived, 0);
        if (!atomic_compare_exchange_strong(&gate->turn, &turn, turn + NEXT_TURN)) return false;
        wake_sleepers(gate);
        return true;
    }
    wait_while(gate, turn);
    return (atomic_load(&gate->turn) & ~BROKEN) != turn; /* it may have opened first and been broken later */
}

void dcpar_gate_break(dcpar_gate *gate) {
    atomic_fetch_or(&gate->turn, BROKEN);
    wake_sleepers(gate);
}
