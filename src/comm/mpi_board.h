/* A board on which every MPI process says which collective call it is in. Another can read it without being answered:
 * that is how a rank which has left finds out that somebody still waits for it, in a call that will never return. */
#ifndef DCPAR_COMM_MPI_BOARD_H
#define DCPAR_COMM_MPI_BOARD_H

#include <stdbool.h>
#include <stdint.h>

#include <mpi.h>

typedef struct dcpar_mpi_board {
    MPI_Win window; /* MPI_WIN_NULL: this MPI has none, and nothing is ever read */
    int64_t *mine;
    int64_t unread; /* where `mine` points without a window */
} dcpar_mpi_board;

/* Collective. The board must stay where it is until it is closed. */
void dcpar_mpi_board_open(dcpar_mpi_board *board, MPI_Comm world);
void dcpar_mpi_board_close(dcpar_mpi_board *board);

/* Local: this rank enters its `calls`-th call (0 to 2^40 - 1, where counting starts again) in its group of `width`; it
 * is in none any more. */
void dcpar_mpi_board_enter(dcpar_mpi_board *board, int32_t width, int64_t calls);
void dcpar_mpi_board_leave(dcpar_mpi_board *board);

/* Local. True when `rank` is within its *calls-th call in its group of *width. */
bool dcpar_mpi_board_read(dcpar_mpi_board *board, int32_t rank, int32_t *width, int64_t *calls);

#endif
