# CMake builds; this file is the short way in. Every variable may be set on the command line.
#
#   make             build/dcpar, build/libdcpar.a and build/libdcpar.so, with what is found; installs nothing
#   make demo        install what is missing, build, run examples/demo/run.sh
#   make test        install what is missing, build, run every test
#   make lint        install what is missing, run cppcheck: no finding passes
#   make bench       install what is missing, build, run every benchmark in turn
#   make install     to $(DESTDIR)$(PREFIX): program, libraries, headers, pkg-config and CMake packages
#   make clean       remove the build folder
#   make help        print this
#
# SANITIZE=1   build with the address and undefined-behaviour sanitizers, in a folder of its own
# SETUP=0      install nothing: go on with what is here
# OPTIONS=     options for CMake, such as -DDCPAR_WITH_MPI=OFF
# BUILD=       the build folder;  PREFIX=/usr/local  DESTDIR=  where to install;  JOBS=  how much to do at once
SANITIZE ?= 0
SETUP    ?= 1
BUILD    ?= $(if $(filter 1,$(SANITIZE)),build-sanitize,build)
PREFIX   ?= /usr/local
DESTDIR  ?=
OPTIONS  ?=
JOBS     ?= $(shell nproc 2>/dev/null || echo 2)

MAKEFLAGS += --no-print-directory

setup     = SETUP=$(SETUP) scripts/setup.sh
configure = cmake -S . -B $(BUILD) -DCMAKE_INSTALL_PREFIX="$(PREFIX)" -DDCPAR_SANITIZE=$(SANITIZE) $(OPTIONS)
build     = cmake --build $(BUILD) --parallel $(JOBS)

all:
	@SETUP=0 scripts/setup.sh build
	@$(configure)
	@$(build) --target dcpar_libraries dcpar_program

demo:
	@$(setup) build run
	@$(MAKE) all
	@DCPAR_PROGRAM="$(abspath $(BUILD))/dcpar" sh examples/demo/run.sh

test:
	@$(setup) build run test
	@$(configure) -DDCPAR_TESTS=ON -DDCPAR_BENCH=ON
	@$(build)
	@cd $(BUILD) && ctest --output-on-failure --parallel $(JOBS)

lint:
	@$(setup) lint
	@scripts/lint.sh $(JOBS)

bench:
	@$(setup) build run
	@$(configure) -DDCPAR_BENCH=ON
	@$(build)
	@scripts/bench.sh $(BUILD)/bench

install: all
	@DESTDIR="$(DESTDIR)" cmake --install $(BUILD)
	@test -n "$(DESTDIR)" || ldconfig 2>/dev/null || true # the loader learns of a new library; only root can

clean:
	rm -rf $(BUILD)

help:
	@sed -n '/^#/!q; s/^# \{0,1\}//p' Makefile

.PHONY: all demo test lint bench install clean help
