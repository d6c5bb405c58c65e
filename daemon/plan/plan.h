/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The plan: which functions, which instructions of each, what each costs, what is refused and why.
 * Made from ELF files alone: no root, no target touched, no libbpf. Immutable once made; attach/
 * arms it, collect/ names its rows by it, `list` prints it.
 *
 * A plan is about the executable (object 0) and the libraries that a --function 'LIB:GLOB' names;
 * functions and sites are grouped by object, in their order.
 */
#ifndef PLAN_PLAN_H
#define PLAN_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/jail.h"
#include "plan/allocators.h"
#include "roletrace/abi.h"

enum plan_exit {
	PLAN_EXIT_AUTO,	     /* edges where they are proven, sites elsewhere */
	PLAN_EXIT_SITES,     /* a probe on every ret and tail jump */
	PLAN_EXIT_URETPROBE, /* return probes: a panic through one kills the target */
};

/* What the user asked for. Strings are borrowed for the time of plan__new. */
struct plan_request {
	const char *const *crates; /* globs on crate names; empty with no functions = the default */
	size_t crate_cnt;
	const char *const
		*functions; /* globs on whole demangled names, "LIB:" before them perhaps */
	size_t function_cnt;
	const char *const *excludes;
	size_t exclude_cnt;
	const char *profile;	 /* --profile NAME, or NULL: chosen by executable name */
	const char *profile_dir; /* NULL: the built-in search path */
	const char *exe_name;	 /* the real executable's path or name, for crates and profiles */
	enum plan_exit exit;
	enum plan_memory memory;
	enum plan_layer layer; /* of allocators */
	size_t max_probes;     /* no more of them can be attached; 0: no limit */
	bool exe_only;	       /* functions of libraries cannot be probed */
	bool library;	       /* the file is no executable */
	bool no_default;       /* without a crate and a function nothing is meant */
	bool want_inlined;     /* inlined_only, files and lines too: reads all debug information */
};

/* A file to plan for, open for reading. */
struct plan_source {
	int fd;
	const char *path; /* as the target sees it; LIB means its last part, or its soname */
};

/* What there is to plan for. All borrowed. */
struct plan_input {
	const struct plan_source *sources; /* the executable first, then what else is mapped */
	size_t source_cnt;
	const char *root;	/* the target's root folder, for its debug files; NULL: "/" */
	const char *debug_file; /* of the executable, as the user named it; NULL: looked for */
	struct jail_meanwhile meanwhile; /* while the files are read in isolation */
};

enum plan_kind {
	PLAN_FN,    /* an ordinary function */
	PLAN_ASYNC, /* a coroutine's poll function: its calls are polls */
};

/* Why a function or a site is not probed. plan_refusal_text gives the words. */
enum plan_refusal {
	PLAN_OK = 0,
	PLAN_NO_SIZE,	     /* symbol of size 0: where it ends is unknown */
	PLAN_NOT_CODE,	     /* outside every executable segment */
	PLAN_DATA_INSIDE,    /* another symbol says there is data within */
	PLAN_UNDECODABLE,    /* bytes that are no instruction */
	PLAN_BAD_BOUNDARY,   /* a branch into the middle of an instruction: data is suspected */
	PLAN_UNPROBEABLE,    /* the kernel refuses that instruction (lock prefix, int3, ...) */
	PLAN_UNKNOWN_JUMP,   /* an indirect jump that is neither a table nor a tail jump */
	PLAN_FALLS_THROUGH,  /* runs on into the next symbol */
	PLAN_ENTERED_MIDWAY, /* its entry is also a loop head: an entry would count twice */
	PLAN_IFUNC,	     /* an IFUNC resolver, not the function */
	PLAN_TOO_MANY,	     /* beyond RT_MAX_FUNCTIONS */
	PLAN_THUNK,	     /* only a jump or a ret: entry and exit are one instruction */
	PLAN_UNREACHED,	     /* holds a way out that no path leads to: data, or a path was missed */
	PLAN_TOO_FEW_PROBES, /* beyond max_probes */
	PLAN_EXE_ONLY,	     /* of a library, and exe_only */
	PLAN_REFUSED_BY_KERNEL, /* said no at attach time (set by attach/) */
	PLAN_REFUSAL_CNT,
};
const char *plan_refusal_text(enum plan_refusal why);
const char *plan_exit_text(enum plan_exit exit); /* as --exit names it */

/* A moved entry site lies at most this far behind the function's first byte. */
#define PLAN_ENTRY_BLOCK_BYTES 128u

struct plan_site {
	uint64_t offset; /* in the file: what the kernel wants */
	uint64_t vaddr;	 /* as linked: what verification wants */
	uint32_t fn;	 /* index into plan->fns; of a catch site: RT_FN of none, 0 */
	uint32_t object; /* index into plan->objects: the file it is in */
	enum rt_site_kind kind;
	enum rt_insn_class insn;
	uint8_t cond;	   /* RT_SITE_JCC: the condition code, low 4 bits of its opcode */
	uint16_t sp_words; /* 8-byte words the stack pointer is below its value at the entry */
};

struct plan_fn {
	char *name;	/* demangled, no hash; made unique by file:line or " #hash" where needed */
	char *symbol;	/* mangled, of the first address */
	char **aliases; /* other symbols at the same address(es), mangled */
	size_t alias_cnt;
	char *crate; /* "" when it has none (C) */
	char *file;  /* NULL without DWARF */
	uint32_t line;
	enum plan_kind kind;
	uint32_t addresses; /* entry addresses joined in this row (contract: sites) */
	uint32_t entry_sites, exit_sites;
	bool has_edges;		       /* some of its exits are edges */
	enum rt_insn_class entry_insn; /* the dearest of its entries */
	enum rt_insn_class exit_insn;  /* the dearest of its exits */
	bool never_returns;	       /* no exit at all: it only ends by unwinding */
	uint32_t object;	       /* index into plan->objects */
};

/* A file that functions are in. */
struct plan_object {
	char *name;	  /* base name; of a library, its functions' names begin with it and ":" */
	uint32_t source;  /* index into plan_input.sources */
	char *build_id;	  /* hex, NULL when the file has none */
	char *debug_file; /* where symbols or lines were read instead; NULL: the file itself */
};

struct plan_skip {
	char *name;
	enum plan_refusal why;
};

struct plan {
	struct plan_fn *fns;
	size_t fn_cnt;
	struct plan_site *sites; /* grouped by function, entries before exits */
	size_t site_cnt;
	struct plan_site *catches; /* where a runtime has just caught a panic, or a jump begins */
	size_t catch_cnt;
	struct plan_object *objects; /* [0] the executable */
	size_t object_cnt;
	struct plan_skip *skipped;
	size_t skip_cnt;
	struct plan_allocator *allocators; /* all that were found */
	size_t allocator_cnt;
	struct plan_mem_site *mem_sites; /* of all of them, grouped by allocator */
	size_t mem_site_cnt;
	enum plan_memory memory;
	char *memory_why; /* asked for, and no allocator can be traced: why */
	char *late_why;	  /* allocators that came later are not traced: why */
	char *uret_why;	  /* return probes may kill the process: why; NULL: nothing speaks for it */
	bool unswept;	  /* calls may be left in ways that no site of catches sees */
	char **notes;	  /* one line each: debug files used and rejected, what could not be read */
	size_t note_cnt;
	char **inlined_only; /* own functions that DWARF knows only as inlined copies */
	size_t inlined_cnt;
	char *build_id;	   /* of the executable: hex, NULL when the file has none */
	char *profile;	   /* name of the role profile that applied, or NULL */
	size_t symbol_cnt; /* function symbols in the file */
	bool no_symbols;   /* stripped: nothing to choose from */
	char *hint;	   /* one line to say, e.g. the crates with the most functions; or NULL */
	enum plan_exit exit;
};

/*
 * Makes the plan for the ELF file open at fd (borrowed). 0, or -errno with one line in *reason
 * (malloc'd, the caller frees): -ENOENT a --function that matches nothing (or only inlined copies),
 * -ENOEXEC not an ELF file that can be read (corrupt, other machine), -EINVAL a bad profile.
 */
int plan__new(int fd, const struct plan_request *req, struct plan **out, char **reason);
void plan__free(struct plan *plan);
/*
 * Takes over the allocators of another plan, of a file that was mapped later (source: its place in
 * plan_input.sources, had it been there). Those of the layer that is traced are chosen. 0 or
 * -errno: -ENOSPC when that were too many.
 */
int plan__adopt(struct plan *plan, struct plan *late, uint32_t source);
/* How a function's exits are seen, in the words of the snapshot file. */
const char *plan__exit_of(const struct plan *plan, const struct plan_fn *fn);

#endif
