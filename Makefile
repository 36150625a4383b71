# Makefile -- builds gen, and every program gen has emitted into out/. No configure step.
#
# make               gen, then every out/NAME/train   LOCKED=1: only with tuned products
#                    TOOLCHAIN=locked [CLUSTER=NAME]: only with the tools of recipes/clusters/NAME.lock.json
# make lock-toolchain  writes that file: compilers and libraries of this machine   CLUSTER=NAME
# make dist          packs an emitted folder into out/NAME.tar, to build elsewhere   NAME=x
# make quickstart    trains a small model on this machine (DATA=FILE: on your own text)
# make demo-mlm      masked language model, from raw text to probing (DATA=FILE: your own text)
# make demo-dpo      preference optimisation: tunes an initial model, then trains it on pairs of answers
# make result-dpo    the same with other seeds, in a table                SEEDS="1 2 3"
# make demo-prm      process reward model that finds noisy records: learned weights, best of N
# make result-prm    the same with other seeds, in a table                SEEDS="1 2 3 4 5"
# make demo-llada    masked diffusion, from raw text to generated text and filled gaps (DATA=FILE: your own text)
# make result-llada  the same for longer, with required results   SEEDS="1 2 3" STEPS=N
# make demo-ad       algorithm distillation: a small model learns new tasks in context, from PPO histories
# make result-ad     the same at full size, with tables of returns; a stopped run resumes   SEEDS="1 2 3"
# make result-small-states  8-bit moments, remainders, no masters, NF4 against fp32 states  SEEDS="1 2 3 4 5"
# make test          all tests; GROUP="kernels gold": only these groups
# make soak          tests with fresh inputs for a given time: MINUTES=20 SEED=
# make deps          installs the system packages that are missing
# make doctor        checks this machine for gen and its programs; RECIPE=...: for one recipe
# make install       links PREFIX/bin/gen to the gen built here; bash completion in PREFIX/share
# make bench         timings against PyTorch; CASE=ranks: speed-up over one rank and fp32, against the guides  PYTHON=python3
# make oracle-check  recomputes the recorded reference values          PYTHON=python3
# make gold          rewrites tests/gold after an intended change: review the diff
# make docs          rewrites the generated pages of gen/reference after a row changed
# make matrix        emits and builds every recipe, CUDA ones if nvcc is installed
# make verify        builds twice in different folders and compares the bytes
# make sim           runs the CUDA target end to end on a simulated GPU, against PyTorch's values
# make gpu-check     tests the CUDA target on this machine's GPU  FAST=1
# make gpu-bench     timings on that GPU against PyTorch  CASE=... PYTHON=python3
# make gpu-carry     packs the libraries for a GPU machine without a package manager; TARGET=sm_90: and what is run there
# make lint sizes clean
# make help          these lines

SHELL  := /bin/bash
PREFIX ?= /usr/local
CC     := gcc
GEN    := out/.gen/gen

ifeq ($(MAKELEVEL),0)
MAKEFLAGS += -j$(shell env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc)
endif

HERE     := $(subst ','\'',$(CURDIR))
CFLAGS   := -std=c11 -O2 -g -Wall -Wextra -Wshadow -Wvla -Werror=date-time \
            -Werror=implicit-function-declaration '-ffile-prefix-map=$(HERE)=.'
CPPFLAGS := -I. -I/usr/include/lua5.4
LIBS     := -llua5.4 -lyaml -lcjson -lpcre2-8 -lutf8proc -lcrypto -lm
# shared by gen and the training binaries
SHARED   := base host_memory $(addprefix files/,names folder folder_replace crc32c json safetensors safetensors_write sha256) $(addprefix data/,recordfile tokenizer* bpe tokens wordpiece words chars) model/hf_config model/hf_match model/hf_tensors objectives/owners jinja/* pack/* ranks/launch nvml_cuda
SOURCES  := $(sort $(wildcard gen/*.c gen/*/*.c gen/*/*/*.c $(SHARED:%=runtime/%.c)))
OBJECTS  := $(SOURCES:%.c=out/.obj/%.o)
# folders with names as gen makes them; those with a blank as make wants it
EMITTED  := $(shell printf '%s\n' out/*/Makefile | \
            sed -n 's,^\(out/[A-Za-z0-9_.+@ -]*\)/Makefile$$,\1,; T; s/ /\\ /g; p')

all:

# before anything is built
ifneq ($(TOOLCHAIN),)
ifneq ($(TOOLCHAIN),locked)
$(error TOOLCHAIN=$(TOOLCHAIN): must be locked, or empty)
endif
SAID := $(shell CC='$(CC)' gen/toolchain.sh check '$(CLUSTER)' GEN 2>&1)
ifneq ($(SAID),)
$(error $(SAID))
endif
# rebuilds everything that was built without this lock
$(OBJECTS): out/.obj/toolchain.lock.json
out/.obj/toolchain.lock.json: always
	@mkdir -p $(@D)
	@lock=$$(gen/toolchain.sh path '$(CLUSTER)') && { cmp -s "$$lock" $@ || cp "$$lock" $@; }
.PHONY: always
else ifneq ($(wildcard out/.obj/toolchain.lock.json),)
$(shell rm -f out/.obj/toolchain.lock.json)
endif

.PHONY: help all gen lock-toolchain dist deps quickstart demo-mlm demo-dpo result-dpo demo-prm result-prm demo-llada result-llada demo-ad result-ad result-small-states test soak doctor install bench \
        oracle-check gold docs matrix verify sim gpu-check gpu-carry gpu-bench lint sizes clean $(EMITTED)
all: gen $(EMITTED)
gen: $(GEN)
help:
	@sed -n 's/^# \{0,1\}//p; /^$$/q' Makefile

$(GEN): $(OBJECTS)
	@mkdir -p $(@D)
	@echo "  LD  $@"
	@$(CC) -o $@ $^ $(LIBS)

out/.obj/%.o: %.c
	@mkdir -p $(@D)
	@echo "  CC  $<"
	@$(CC) $(CFLAGS) $(CPPFLAGS) -MMD -MP -c $< -o $@

-include $(OBJECTS:.o=.d)

$(EMITTED): gen
	@[ -z "$(LOCKED)" ] || $(GEN) --locked -o '$@'
	@lock=; [ -z "$(TOOLCHAIN)" ] || lock=$$(gen/toolchain.sh of '$@' '$(CLUSTER)') || exit; \
	    $(MAKE) --no-print-directory -C '$@' $${lock:+"LOCK=$$lock"}

dist: gen
	@[ -n "$(NAME)" ] || { echo "make dist: say NAME=x, of which folder out/x" >&2; exit 1; }
	@$(GEN) dist '$(NAME)'

lock-toolchain:
	@gen/toolchain.sh lock '$(CLUSTER)'

deps:
	@gen/deps.sh test

quickstart: text = $(if $(DATA),"$(DATA)")
quickstart:
	@recipes/quickstart.sh --check $(text)
	@gen/deps.sh build
	@$(MAKE) --no-print-directory gen
	@recipes/quickstart.sh $(text)

# demo-NAME, result-NAME: recipes/demos/NAME.sh
demo-mlm demo-llada result-llada: packages = demo
demo-mlm demo-llada: arguments = $(DATA)
result-llada: arguments = --result $(DATA)
result-dpo: arguments = $(or $(SEEDS),1 2 3)
result-prm: arguments = $(or $(SEEDS),1 2 3 4 5)
result-ad: arguments = $(or $(SEEDS),1 2 3)
demo-mlm demo-llada demo-dpo demo-prm demo-ad result-llada result-dpo result-prm result-ad:
	@gen/deps.sh $(or $(packages),build)
	@$(MAKE) --no-print-directory gen
	@recipes/demos/$(lastword $(subst -, ,$@)).sh $(arguments)

# if gen cannot be built or started, packages are missing
doctor:
	@said=$$($(MAKE) --no-print-directory gen 2>&1 && $(GEN) --version 2>&1) || \
	    { tail -n 3 <<<"$$said"; gen/deps.sh check; exit 1; }
	@$(GEN) doctor $(RECIPE)

test:
	@gen/deps.sh test
	@$(MAKE) --no-print-directory gen
	@tests/run.sh $(GROUP)

soak:
	@gen/deps.sh soak
	@$(MAKE) --no-print-directory gen
	@tests/soak.sh $(MINUTES)

install: gen
	mkdir -p "$(DESTDIR)$(PREFIX)/bin"
	ln -sf '$(HERE)/$(GEN)' "$(DESTDIR)$(PREFIX)/bin/gen"
	mkdir -p "$(DESTDIR)$(PREFIX)/share/bash-completion/completions"
	'$(HERE)/$(GEN)' completion bash >"$(DESTDIR)$(PREFIX)/share/bash-completion/completions/gen"

bench: gen
	@tests/bench/run.sh $(CASE)

result-small-states: gen
	@SEEDS='$(SEEDS)' tests/bench/small_states.sh

oracle-check: gen
	@tests/oracle/check.sh; code=$$?; tests/oracle/folders.sh && exit $$code

gold: gen
	@UPDATE=1 tests/gold/run.sh
	@git status --short tests/gold

docs: gen
	@$(GEN) reference -o gen/reference

matrix: gen
	@tests/builds/matrix.sh $(RECIPE)

verify: gen
	@tests/builds/verify.sh $(RECIPE)

sim: gen
	@tests/train/sim.sh

gpu-check: gen
	@tests/gpu/check.sh

gpu-carry: gen
	@tests/gpu/carry.sh

gpu-bench: gen
	@tests/bench/gpu.sh $(CASE)

lint:
	@tests/lint.sh

# lists the longest files and functions, for review
sizes:
	@wc -l gen/*.[ch] gen/*/*.[ch] gen/*/*/*.[ch] | sort -rn | head -6
	@wc -l runtime/*.[ch] runtime/*/*.[ch] | sort -rn | head -6
	@wc -l kernels/*/*.h templates/* templates/*/* 2>/dev/null | sort -rn | head -6

clean:
	rm -rf out/.obj out/.gen out/.test
	@for f in $(EMITTED); do $(MAKE) --no-print-directory -C "$$f" clean; done
