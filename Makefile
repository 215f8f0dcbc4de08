# CMake builds; this file is the short way in. Every variable may be set on the command line.
#
#   make             build/dcpar, build/libdcpar.a and build/libdcpar.so, with what is found; installs nothing
#   make demo        install what is missing, build, run examples/demo/run.sh
#   make test        install what is missing, build, run every test
#   make lint        install what is missing, run cppcheck: no finding passes
#   make bench       install what is missing, build, run every benchmark in turn
#   make install     to $(DESTDIR)$(PREFIX): program, libraries, headers, pkg-config and CMake packages
#   make clean       remove the build folder
#
# SANITIZE=1   build with the address and undefined-behaviour sanitizers, in a folder of its own
# SETUP=0      install nothing: go on with what is here
# OPTIONS=     more options for CMake, such as -DDCPAR_WITH_MPI=OFF
SANITIZE ?= 0
SETUP    ?= 1
PREFIX   ?= /usr/local
DESTDIR  ?=
OPTIONS  ?=
JOBS     ?= $(shell nproc 2>/dev/null || echo 2)
ifeq ($(SANITIZE),1)
BUILD    ?= build-sanitize
OPTIONS  += -DDCPAR_SANITIZE=ON
else
BUILD    ?= build
endif

configure = cmake -S . -B $(BUILD) -DCMAKE_INSTALL_PREFIX=$(PREFIX) $(OPTIONS)
build     = cmake --build $(BUILD) --parallel $(JOBS)
setup     = SETUP=$(SETUP) scripts/setup.sh

all:
	@$(configure)
	@$(build) --target dcpar_libraries dcpar_program

demo:
	@$(setup) build run
	@$(MAKE) --no-print-directory all
	@DCPAR_PROGRAM=$(abspath $(BUILD))/dcpar bash examples/demo/run.sh

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
	@DESTDIR=$(DESTDIR) cmake --install $(BUILD)
	@test -n "$(DESTDIR)" || ldconfig 2>/dev/null || true # the loader learns of a library in its folders; root only

clean:
	rm -rf $(BUILD)

.PHONY: all demo test lint bench install clean
