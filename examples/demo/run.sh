#!/bin/sh
# The demo: C headers as text, lengths from a few bytes to the limit of the model, two ranks whose memory is too small
# for the longest sequences, four policies in turn over the same sample of the data: all of them do the same work.
set -eu

cd "$(dirname "$0")/../.."
exec "${DCPAR_PROGRAM:-build/dcpar}" train "${1:-/usr/include}" \
    --model examples/demo/model.json --truncate 4096 --ranks 2 --memory 26M \
    --policy bucket,inter,intra,buddy --tokens-per-iteration 25000 --sample 400000 \
    --learning-rate 3e-3 --warmup 2 --out build/demo
