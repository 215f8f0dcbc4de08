#ifdef DCPAR_HAVE_MPI

#include "comm/mpi_board.h"

/* One word says it all, so that it cannot be read half-written: the width (0: in no call), then the count of calls. */
#define COUNT_BITS 40
#define COUNT_MASK ((INT64_C(1) << COUNT_BITS) - 1)

void dcpar_mpi_board_open(dcpar_mpi_board *board, MPI_Comm world) {
    *board = (dcpar_mpi_board){.window = MPI_WIN_NULL, .mine = &board->unread};
    MPI_Win window;
    int64_t *word = NULL;
    if (MPI_Win_allocate(sizeof *word, sizeof *word, MPI_INFO_NULL, world, &word, &window) != MPI_SUCCESS) return;
    MPI_Win_set_errhandler(window, MPI_ERRORS_RETURN);
    *word = 0;
    board->window = window;
    board->mine = word;
    MPI_Win_lock_all(MPI_MODE_NOCHECK, window);
    MPI_Barrier(world); /* nobody reads what has not been zeroed */
}

void dcpar_mpi_board_close(dcpar_mpi_board *board) {
    if (board->window == MPI_WIN_NULL) return;
    MPI_Win_unlock_all(board->window);
    MPI_Win_free(&board->window);
}

static void write_word(dcpar_mpi_board *board, int64_t word) { __atomic_store_n(board->mine, word, __ATOMIC_RELEASE); }

void dcpar_mpi_board_enter(dcpar_mpi_board *board, int32_t width, int64_t calls) {
    write_word(board, (int64_t)width << COUNT_BITS | (calls & COUNT_MASK));
}

void dcpar_mpi_board_leave(dcpar_mpi_board *board) { write_word(board, 0); }

bool dcpar_mpi_board_read(dcpar_mpi_board *board, int32_t rank, int32_t *width, int64_t *calls) {
    int64_t word = 0;
    if (board->window == MPI_WIN_NULL ||
        MPI_Fetch_and_op(NULL, &word, MPI_INT64_T, rank, 0, MPI_NO_OP, board->window) != MPI_SUCCESS ||
        MPI_Win_flush(rank, board->window) != MPI_SUCCESS || word == 0)
        return false;
    *width = (int32_t)(word >> COUNT_BITS);
    *calls = word & COUNT_MASK;
    return true;
}

#endif
