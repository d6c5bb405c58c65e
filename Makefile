# SPDX-License-Identifier: BSD-2-Clause
#
# make            build/roletrace            make check         set-up, build, all tests
# make demo       the main job on a demo     make check-roles   the real Stratum roles under load
# make bench      ratios against the peers   make install       PREFIX=/usr/local, DESTDIR
# O=DIR build folder   V=1 show commands   DEBUG=1 -O0   SAN=1 address and UB sanitizers

O ?= build
PREFIX ?= /usr/local
V ?= 0
Q = $(if $(filter 1,$(V)),,@)
say = $(if $(filter 1,$(V)),,@printf '  %-8s %s\n' '$(1)' '$(2)';)
export PATH := $(PATH):/usr/sbin

CC = gcc
CLANG = clang
BPFTOOL = bpftool
VERSION := 0.1.0$(shell git rev-parse --short HEAD 2>/dev/null | sed 's/^/+/')

CFLAGS += -std=gnu17 -Wall -Wextra -Wmissing-field-initializers -Wstrict-prototypes -Wno-unused-parameter
CFLAGS += $(if $(DEBUG),-O0,-O2) -g $(if $(CI),-Werror)
CFLAGS += -D_GNU_SOURCE -DPROFILE_DIR='"$(PREFIX)/share/roletrace/profiles"'
CFLAGS += -Iinclude -Idaemon -I$(O)/bpf -I$(O)/proto -I$(O)/gen
ifneq ($(SAN),)
CFLAGS += -fsanitize=address,undefined -fno-omit-frame-pointer
LDFLAGS += -fsanitize=address,undefined
endif
BPF_CFLAGS = -O2 -g -Wall -Werror -target bpf -mcpu=v3 -D__TARGET_ARCH_x86 -Iinclude -Ibpf

# Statically what production hosts lack; zlib, libelf's compressors and libc are there everywhere.
LIBS_BPF = -l:libbpf.a
LIBS_SYM = -l:libdw.a -l:libelf.a -l:libbz2.a -l:liblzma.a -l:libiberty.a -lZydis
LIBS = $(LIBS_BPF) $(LIBS_SYM) -l:libjansson.a -l:libprotobuf-c.a -lz -lpthread -lm

BPF_SRC := $(wildcard bpf/*.bpf.c)
SKELS := $(BPF_SRC:bpf/%.bpf.c=$(O)/bpf/%.skel.h)
# main.c apart: the unit tests link all the rest.
SRC := $(wildcard daemon/*.c daemon/*/*.c)
OBJ := $(SRC:%.c=$(O)/%.o) $(O)/proto/pprof.pb-c.o
LIB_OBJ := $(filter-out $(O)/daemon/main.o,$(OBJ))

all: $(O)/roletrace

$(O)/roletrace: $(OBJ)
	$(call say,LINK,$@)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)

$(O)/proto/%.pb-c.c $(O)/proto/%.pb-c.h: proto/%.proto
	$(call say,PROTO,$<)mkdir -p $(@D) && protoc-c --proto_path=proto --c_out=$(@D) $<

$(O)/proto/%.o: $(O)/proto/%.c
	$(call say,CC,$<)$(CC) $(filter-out -W%,$(CFLAGS)) -MMD -MP -c -o $@ $<

# the page of the flamegraphs is part of the program
FLAME_PAGE := $(wildcard daemon/export/flame/*)
$(O)/daemon/export/flame_page.o: $(FLAME_PAGE)
$(O)/daemon/export/pprof.o: $(O)/proto/pprof.pb-c.h

$(O)/daemon/%.o: daemon/%.c | $(SKELS) $(O)/gen/syscalls.h
	$(call say,CC,$<)mkdir -p $(@D) && $(CC) $(CFLAGS) -MMD -MP -c -o $@ $<

$(O)/bpf/%.tmp.o: bpf/%.bpf.c
	$(call say,BPF,$<)mkdir -p $(@D) && $(CLANG) $(BPF_CFLAGS) -MMD -MP -MT $@ -c -o $@ $<

$(O)/bpf/%.bpf.o: $(O)/bpf/%.tmp.o
	$(call say,GENOBJ,$@)$(BPFTOOL) gen object $@ $<

$(O)/bpf/%.skel.h: $(O)/bpf/%.bpf.o
	$(call say,SKEL,$@)$(BPFTOOL) gen skeleton $< name $*_bpf > $@

# tests/, bench/ and set-up have their own part
-include packaging/*.mk tests/*.mk bench/*.mk

install: $(O)/roletrace
	install -D -m 755 $(O)/roletrace $(DESTDIR)$(PREFIX)/bin/roletrace
	install -d $(DESTDIR)$(PREFIX)/share/roletrace/profiles
	install -m 644 profiles/*.conf $(DESTDIR)$(PREFIX)/share/roletrace/profiles
	install -D -m 644 docs/roletrace.8 $(DESTDIR)$(PREFIX)/share/man/man8/roletrace.8
	install -D -m 644 packaging/completion/roletrace.bash \
		$(DESTDIR)$(PREFIX)/share/bash-completion/completions/roletrace
	install -D -m 644 packaging/completion/_roletrace \
		$(DESTDIR)$(PREFIX)/share/zsh/site-functions/_roletrace
	install -D -m 644 packaging/completion/roletrace.fish \
		$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/roletrace.fish

clean:
	rm -rf $(O)

# written when it differs: what includes it is then built again, and nothing else
$(O)/gen/version.gen.h: FORCE
	@mkdir -p $(@D) && echo '#define VERSION "$(VERSION)"' > $@.new && \
		if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi
$(O)/daemon/base/version.o: $(O)/gen/version.gen.h
FORCE:

# names of system calls by number, for the profile's kernel frames
$(O)/gen/syscalls.h:
	$(call say,GEN,$@)mkdir -p $(@D) && { echo '#define SYSCALL_NAMES { \'; \
		echo '#include <asm/unistd_64.h>' | $(CC) -E -dM - | \
		sed -n 's/^#define __NR_\([a-z0-9_]*\) \([0-9]*\)$$/\t[\2] = "\1", \\/p' | sort; \
		echo '}'; } > $@

-include $(wildcard $(O)/daemon/*.d $(O)/daemon/*/*.d $(O)/bpf/*.d)

.SECONDARY:
.DELETE_ON_ERROR:
.PHONY: all install clean FORCE
