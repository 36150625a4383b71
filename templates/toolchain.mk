# TOOLCHAIN=locked builds with the tools and libraries of toolchain.lock.json, or of LOCK=FILE, or not at all
ifneq ($(TOOLCHAIN),)
ifneq ($(TOOLCHAIN),locked)
$(error TOOLCHAIN=$(TOOLCHAIN): must be locked, or empty)
endif
LOCK ?= toolchain.lock.json
SAID := $(shell $(LOCK_TOOLS) runtime/toolchain.sh check '$(LOCK)' $(LOCK_PARTS) 2>&1)
ifneq ($(SAID),)
$(error $(SAID))
endif
LOCKED := $(shell sed -n 's/^  "cluster": "\(.*\)",$$/\1/p; s/^  "sum": "\(.*\)"$$/\1/p' '$(LOCK)')
# rebuilds everything that was built without this lock
$(OBJECTS): .obj/toolchain.lock.json
.obj/toolchain.lock.json: always
	mkdir -p $(@D)
	cmp -s '$(LOCK)' $@ || cp '$(LOCK)' $@
.PHONY: always
else ifneq ($(wildcard .obj/toolchain.lock.json),)
$(shell rm -f .obj/toolchain.lock.json)
endif
