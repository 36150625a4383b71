# Makefile -- builds gen, and everything gen has emitted into out/; no configure step.
#
# make            gen, then every out/NAME            make quickstart  trains a model on this machine's CPU
# make test       all tests                           make bench       timings beside PyTorch
# make deps       installs the system packages        make install     puts gen into PREFIX/bin

SHELL  := /bin/bash
PREFIX ?= /usr/local
CC     := gcc
GEN    := out/.gen/gen

CFLAGS   := -std=c11 -O2 -g -Wall -Wextra -Wshadow -Wvla -Werror=date-time -Werror=implicit-function-declaration -ffile-prefix-map=$(CURDIR)=.
CPPFLAGS := -I. -I/usr/include/lua5.4
LIBS     := -llua5.4 -lcjson -lpcre2-8 -lutf8proc -lcrypto -lm
# what gen and the training binaries share
SHARED   := runtime/base.c runtime/crc32c.c runtime/json.c runtime/safetensors.c runtime/safetensors_write.c runtime/tokenizer.c runtime/bpe.c
SOURCES  := $(sort $(wildcard gen/*.c)) $(filter $(SHARED),$(wildcard runtime/*.c))
OBJECTS  := $(SOURCES:%.c=out/.obj/%.o)
EMITTED   = $(sort $(wildcard out/*/Makefile))

.PHONY: all gen emitted
all: gen emitted
gen: $(GEN)

$(GEN): $(OBJECTS)
	@mkdir -p $(@D)
	$(CC) -o $@ $^ $(LIBS)

out/.obj/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(CPPFLAGS) -MMD -MP -c $< -o $@

-include $(OBJECTS:.o=.d)

emitted: gen
	@for f in $(EMITTED); do $(MAKE) --no-print-directory -C $$(dirname $$f) || exit 1; done
