#!/bin/sh
# Installs what the named purposes need and what is not here yet; says nothing when all is here.
#
#     scripts/setup.sh PURPOSE ...      build: compile;  run: MPI and oneDNN too;  test;  lint
#
# Packages are those of Debian and its kin. Elsewhere, and with SETUP=0, the missing things are named and the work goes
# on: CMake may find what this script does not, and says what it cannot do without.
set -eu

missing="" # packages
things=""  # what people call them

need() { # need PACKAGES THING COMMAND...: the command succeeds when the thing is here
    packages=$1
    thing=$2
    shift 2
    if ! "$@" >/dev/null 2>&1; then
        missing="$missing $packages"
        things="$things${things:+, }$thing"
    fi
}

have() { command -v "$1"; }
have_header() { echo "#include <$1>" | "${CC:-cc}" -E -; }
have_module() { have pkg-config && pkg-config --exists "$1"; }
have_mpi() { have mpicc && have mpiexec; }

for purpose in "$@"; do
    case $purpose in
    build)
        need "gcc libc6-dev" "a C compiler" have "${CC:-cc}"
        need cmake "CMake" have cmake
        need pkg-config "pkg-config" have pkg-config
        need libjansson-dev "jansson 2.13 or later" have_module "jansson >= 2.13"
        ;;
    run)
        need "libopenmpi-dev openmpi-bin" "MPI" have_mpi
        need libdnnl-dev "oneDNN" have_header dnnl.h
        ;;
    test)
        need libcmocka-dev "cmocka" have_module cmocka
        need g++ "a C++ compiler" have "${CXX:-c++}"
        ;;
    lint)
        need cppcheck "cppcheck" have cppcheck
        ;;
    *)
        echo "setup.sh: '$purpose' is not one of: build, run, test, lint" >&2
        exit 2
        ;;
    esac
done

if [ -z "$missing" ]; then
    exit 0
fi
if [ "${SETUP:-1}" = 0 ] || ! have apt-get >/dev/null; then
    echo "Not found: $things. Going on without (Debian: apt-get install$missing)"
    exit 0
fi

if [ "$(id -u)" = 0 ]; then
    as_root=""
elif have sudo >/dev/null && sudo -n true 2>/dev/null; then
    as_root="sudo"
else
    echo "Not found: $things. Please type" >&2
    echo "    sudo apt-get install --no-install-recommends$missing" >&2
    echo "and try again, or go on without: make SETUP=0 ..." >&2
    exit 1
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
install() {
    # shellcheck disable=SC2086 # $missing and $as_root are lists of words
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing \
        </dev/null >"$log" 2>&1
}
echo "Not found: $things. Installing:$missing"
if ! install; then # lists of packages that are old or were never fetched
    if ! { $as_root apt-get update </dev/null >"$log" 2>&1 && install; }; then
        cat "$log" >&2
        echo "The packages could not be installed; go on without: make SETUP=0 ..." >&2
        exit 1
    fi
fi
