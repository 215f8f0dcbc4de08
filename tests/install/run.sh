#!/bin/sh
# Installs a build under a prefix of its own and uses it as other projects do: through pkg-config and CMake, from C and
# C++, shared and static; builds and runs the examples with it.
#
#     tests/install/run.sh BUILD      CC, CXX and CFLAGS are taken from the environment
set -eu

build=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cc=${CC:-cc}
cxx=${CXX:-c++}
flags=${CFLAGS:-}
export CXXFLAGS="$flags"
unset DESTDIR

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

# check WHAT COMMAND...: the program prints what it must
check() {
    what=$1
    shift
    text=$("$@") || fail "$what: does not run"
    [ "$text" = "dcpar $version buddy 1 1" ] || fail "$what: prints '$text'"
    echo "ok  $what"
}

# ------------------------------------------------------------------------------------------------ two installations
prefix=$work/prefix
cmake --install "$build" --prefix "$prefix" >"$work/log" || fail "cmake --install: $(cat "$work/log")"
DESTDIR=$work/staged cmake --install "$build" --prefix /opt/dcpar >"$work/log" || fail "DESTDIR: $(cat "$work/log")"

library=$(dirname "$(find "$prefix" -name libdcpar.a)")
PKG_CONFIG_PATH=$library/pkgconfig
export PKG_CONFIG_PATH
version=$(pkg-config --modversion dcpar)

[ -x "$prefix/bin/dcpar" ] || fail "no program in $prefix/bin"
"$prefix/bin/dcpar" --version | grep -q -F "$version" || fail "the program's --version is not $version"
[ -f "$work/staged/opt/dcpar/include/dcpar_run.h" ] || fail "nothing under DESTDIR"
grep -q '^prefix=/opt/dcpar$' "$(find "$work/staged" -name dcpar.pc)" || fail "dcpar.pc does not name the prefix"
! grep -r -l -F "$work" "$work/staged" || fail "what was installed names DESTDIR"
echo "ok  prefix and DESTDIR"

# ------------------------------------------------------------------------------------------------ exported symbols
[ -h "$library/libdcpar.so.${version%%.*}" ] || fail "no libdcpar.so.${version%%.*}"
# the address sanitizer adds symbols of its own
foreign=$(nm -D --defined-only "$library/libdcpar.so" | awk '$3 !~ /^(dcpar_|__odr_asan)/ {print $3}')
[ -z "$foreign" ] || fail "libdcpar.so exports more than dcpar_*: $foreign"
declared=$(cat "$prefix"/include/dcpar*.h | sed '/^#/d' | tr '\n' ' ' | grep -o 'DCPAR_API [^;(]*(' |
    grep -o 'dcpar_[a-z0-9_]*($' | tr -d '(' | sort -u)
exported=$(nm -D --defined-only "$library/libdcpar.so" | awk '$3 ~ /^dcpar_/ {print $3}' | sort -u)
[ "$declared" = "$exported" ] || fail "declared or exported, but not both:
$(printf '%s\n' "$declared" "$exported" | sort | uniq -u)"
echo "ok  $(echo "$exported" | wc -l) symbols, all of them public"

# ------------------------------------------------------------------------------------------------ pkg-config
# shellcheck disable=SC2046,SC2086 # pkg-config prints lists of words
{
    export LD_LIBRARY_PATH="$library${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
    $cc -std=c11 -Wall -Wextra -Werror -pedantic $flags "$here/use.c" -o "$work/c" $(pkg-config --cflags --libs dcpar)
    check "C, shared" "$work/c"
    if command -v "$cxx" >/dev/null; then
        $cxx -x c++ -Wall -Wextra -Werror -pedantic $flags "$here/use.c" -x none -o "$work/cxx" \
            $(pkg-config --cflags --libs dcpar)
        check "C++, shared" "$work/cxx"
    else
        echo "no C++ compiler: not tried"
    fi
    for example in "$here"/../../examples/*.c; do
        $cc -std=c11 -O2 -Wall -Wextra -Werror $flags "$example" -o "$work/example" \
            $(pkg-config --cflags --libs dcpar) -lm
        (cd "$work" && ./example >example.log 2>&1) || fail "$(basename "$example"): $(cat "$work/example.log")"
        echo "ok  example $(basename "$example")"
    done
    unset LD_LIBRARY_PATH
    # both libraries lie in one folder, where -ldcpar would take the shared one
    $cc -std=c11 $flags "$here/use.c" -o "$work/c_static" \
        $(pkg-config --static --cflags --libs dcpar | sed 's/-ldcpar/-l:libdcpar.a/')
    check "C, static" "$work/c_static"
}

# ------------------------------------------------------------------------------------------------ CMake
{
    cmake -S "$here" -B "$work/project" -DCMAKE_PREFIX_PATH="$prefix" && cmake --build "$work/project"
} >"$work/log" 2>&1 || fail "find_package: $(cat "$work/log")"
check "CMake, dcpar::dcpar" "$work/project/use_shared"
check "CMake, dcpar::static" "$work/project/use_static"
