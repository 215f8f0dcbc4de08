#!/bin/sh
# Runs every *_bench of the given folder in turn.
set -eu

export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}" # figures are of one core, as they are with one rank per core
for bench in "$1"/*_bench; do
    printf '\n== %s ==\n' "$(basename "$bench")"
    "$bench"
done
