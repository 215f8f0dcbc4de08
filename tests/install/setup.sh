#!/bin/sh
# What scripts/setup.sh does on machines that have much, little, a package manager or none. The machines are folders of
# stand-ins, the only folder in PATH; nothing is installed.
set -eu

setup=$(cd "$(dirname "$0")/../../scripts" && pwd)/setup.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
machine=$work/bin
wanted=1 # SETUP
failed=0

# command_is NAME SCRIPT: a stand-in
command_is() {
    printf '#!/bin/sh\n%s\n' "$2" >"$machine/$1"
    chmod +x "$machine/$1"
}

# new_machine USER: has a shell's own tools, a compiler and CMake, which print, and nothing else
new_machine() {
    rm -rf "$machine" && mkdir "$machine"
    for tool in sh env cat rm mktemp; do
        ln -s "$(command -v $tool)" "$machine/$tool"
    done
    command_is id "echo $1"
    command_is cc "cat >/dev/null"
    command_is cmake "echo cmake"
    : >"$work/apt"
}

# run NAME STATUS WORDS PURPOSE...: setup ends with the status and its text holds the words; no words: no text
run() {
    name=$1
    status=$2
    words=$3
    shift 3
    got=0
    text=$(env -u CC -u CXX PATH="$machine" SETUP="$wanted" "$setup" "$@" 2>&1 </dev/null) || got=$?
    case "$text" in
    *"$words"*) ;;
    *) got="$got, with other words" ;;
    esac
    if [ "$got" = "$status" ] && { [ -n "$words" ] || [ -z "$text" ]; }; then
        echo "ok  $name"
    else
        echo "FAILED: $name: ends with $got and says: $text" >&2
        failed=1
    fi
}

same() { # same NAME WANTED GOT
    if [ "$2" = "$3" ]; then
        echo "ok  $1"
    else
        printf 'FAILED: %s: wanted\n%s\ngot\n%s\n' "$1" "$2" "$3" >&2
        failed=1
    fi
}

apt_works="echo \"\$*\" >>'$work/apt'"
apt_needs_lists="$apt_works; case \$* in *update*) : >'$work/lists';; *) [ -e '$work/lists' ];; esac"
packages="pkg-config libjansson-dev"
install="install -y --no-install-recommends $packages"

new_machine 0
command_is pkg-config "exit 0"
command_is apt-get "$apt_works"
run "where all is here it says nothing" 0 "" build
same "and calls no package manager" "" "$(cat "$work/apt")"
run "an unknown purpose is refused" 2 "'nonsense' is not one of" nonsense

new_machine 0
run "without apt-get it names what is missing and goes on" 0 "Not found: pkg-config, jansson" build

new_machine 0
command_is apt-get "$apt_works"
run "root installs what is missing" 0 "Installing: $packages" build
same "in one call" "$install" "$(cat "$work/apt")"

new_machine 0
command_is apt-get "$apt_needs_lists"
run "root without lists of packages fetches them" 0 "Installing: $packages" build
same "once, and tries again" "$install
update
$install" "$(cat "$work/apt")"

new_machine 0
command_is apt-get "echo no such package; exit 100"
run "what cannot be installed ends it with the reason" 1 "no such package" build

new_machine 1000
command_is apt-get "$apt_works"
run "without root and sudo it prints the line to type" 1 \
    "    sudo apt-get install --no-install-recommends $packages" build
same "and installs nothing" "" "$(cat "$work/apt")"
wanted=0
run "unless it was told to go on" 0 "Going on without (Debian: apt-get install $packages)" build
wanted=1

command_is sudo "exit 1"
run "a sudo that asks for a password is not used" 1 "sudo apt-get install" build
# shellcheck disable=SC2016 # expanded by the stand-in
command_is sudo '[ "$1" != -n ] || shift; exec "$@"'
command_is true "exit 0"
run "a sudo that works is" 0 "Installing: $packages" build
same "for the same call" "$install" "$(cat "$work/apt")"

exit $failed
