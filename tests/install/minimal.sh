#!/bin/sh
# Builds without MPI and oneDNN, in a folder of its own: the program plans with nothing but the C library and jansson.
#
#     tests/install/minimal.sh        CC and CFLAGS are taken from the environment
set -eu

source=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

{
    cmake -S "$source" -B "$work" -DCMAKE_BUILD_TYPE=Debug -DDCPAR_TESTS=OFF -DDCPAR_WITH_MPI=OFF \
        -DDCPAR_WITH_ONEDNN=OFF && cmake --build "$work" --parallel 2
} >"$work/log" 2>&1 || {
    cat "$work/log" >&2
    exit 1
}
"$work/dcpar" --version

needs=$(ldd "$work/dcpar" | awk '{print $1}' | grep -v -E '^(linux-vdso|/lib|ld-|lib(c|m|pthread|jansson)\.)' || true)
if [ -n "$needs" ]; then
    echo "FAILED: the minimal program needs more than libc, libm and jansson: $needs" >&2
    exit 1
fi
