#!/bin/sh
# cppcheck over every C file; any finding fails. Takes the number of jobs.
set -eu

if ! cppcheck --version; then
    echo "lint: cppcheck is not here" >&2
    exit 1
fi
cppcheck --enable=warning,performance,portability --std=c11 --error-exitcode=1 --inline-suppr --quiet -j "${1:-1}" \
    -Iinclude -Isrc -Itests include src tests bench examples
echo "lint: no findings"
