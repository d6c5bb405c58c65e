// SPDX-License-Identifier: BSD-2-Clause
/*
 * Versions. A library may define one name several times, each for programs linked against another
 * release: foo@V1 is old, foo@@V2 is what new programs get. .symtab spells that out in the name;
 * .dynsym keeps numbers in .gnu.version (one per symbol, bit 15: old) and their names in
 * .gnu.version_d. Where all of a name's versions are one function they mean nothing here.
 */
#include "symbols/symtab.h"

#include "base/vec.h"
#include "symbols/inflate.h"

#define MAX_STRTAB (1u << 31)
#define VERSION_OLD_BIT 0x8000u
#define VERSION_FIRST 2 /* 0 is local, 1 global without a version */

struct reading {
	struct symtab *t;
	const struct elf_file *f;
	const struct image *code;
	const uint8_t *syms;
	size_t sym_cnt;
	/* of .dynsym: */
	Elf64_Shdr numbers; /* .gnu.version */
	uint32_t *names;    /* by number: id of the version's name; 0 for none */
	bool has_numbers;
};

static int type_of(const struct reading *r, const Elf64_Sym *sym)
{
	int type = ELF64_ST_TYPE(sym->st_info);
	uint64_t offset;

	if (sym->st_shndx == SHN_UNDEF || sym->st_shndx == SHN_ABS || sym->st_shndx == SHN_COMMON)
		return -1;
	if (type == STT_FUNC)
		return SYMBOL_FUNC;
	if (type == STT_GNU_IFUNC)
		return SYMBOL_IFUNC;
	if ((type != STT_NOTYPE && type != STT_OBJECT) ||
	    !image__code_offset(r->code, sym->st_value, &offset))
		return -1;
	return type == STT_OBJECT ? SYMBOL_OBJECT : SYMBOL_NOTYPE;
}

/* A string of our own, as an id of the table. */
static uint32_t keep(struct symtab *t, const char *s, size_t len)
{
	uint32_t id = (uint32_t)(t->strtab_len + t->extra.len);

	strbuf__add(&t->extra, s, len);
	strbuf__addc(&t->extra, '\0');
	return id;
}

/* "foo@@V2" in .symtab: the name and its version apart. */
static void split_version(struct symtab *t, struct symbol *sym)
{
	const char *name = t->strtab + sym->name, *at = strchr(name, '@');

	if (!at || at == name)
		return;
	sym->version = keep(t, at, strlen(at));
	sym->name = keep(t, name, (size_t)(at - name));
}

static void number_version(struct reading *r, struct symbol *sym, uint64_t index)
{
	struct symtab *t = r->t;
	const char *name;
	uint16_t nr;

	if (!r->has_numbers ||
	    !elf_file__copy(r->f, r->numbers.sh_offset + index * sizeof(nr), &nr, sizeof(nr)) ||
	    (nr & ~VERSION_OLD_BIT) < VERSION_FIRST || !r->names[nr & ~VERSION_OLD_BIT])
		return;
	name = symtab__str(t, r->names[nr & ~VERSION_OLD_BIT]);
	sym->version = (uint32_t)(t->strtab_len + t->extra.len);
	strbuf__adds(&t->extra, nr & VERSION_OLD_BIT ? "@" : "@@");
	strbuf__adds(&t->extra, name);
	strbuf__addc(&t->extra, '\0');
}

static const char *add(struct reading *r, const Elf64_Sym *sym, uint64_t index, uint32_t file)
{
	int type = type_of(r, sym), bind = ELF64_ST_BIND(sym->st_info);
	struct symtab *t = r->t;
	struct symbol *out;

	if (type < 0 || sym->st_name >= t->strtab_len || !t->strtab[sym->st_name])
		return NULL;
	out = vec__push(t);
	if (!out)
		return "out of memory";
	out->addr = sym->st_value;
	out->size = sym->st_size;
	out->name = sym->st_name;
	out->file = bind == STB_LOCAL ? file : 0;
	out->type = (uint8_t)type;
	out->bind = bind == STB_LOCAL  ? SYMBOL_LOCAL
		    : bind == STB_WEAK ? SYMBOL_WEAK
				       : SYMBOL_GLOBAL;
	if (r->names)
		number_version(r, out, index);
	else if (bind != STB_LOCAL)
		split_version(t, out);
	return t->extra.oom ? "out of memory" : NULL;
}

/* The names of the versions that the file defines, by number. */
static void read_definitions(struct reading *r)
{
	uint64_t at, end;
	Elf64_Shdr sh;
	Elf64_Verdef def;
	Elf64_Verdaux aux;

	r->has_numbers = elf_file__find_type(r->f, SHT_GNU_versym, &r->numbers) != 0;
	if (!elf_file__find_type(r->f, SHT_GNU_verdef, &sh) ||
	    !elf_file__holds(r->f, sh.sh_offset, sh.sh_size))
		return;
	at = sh.sh_offset;
	end = at + sh.sh_size;
	for (uint32_t n = 0; n < VERSION_OLD_BIT && at < end; n++, at += def.vd_next) {
		if (!elf_file__copy(r->f, at, &def, sizeof(def)) ||
		    !elf_file__copy(r->f, at + def.vd_aux, &aux, sizeof(aux)))
			return;
		if (!(def.vd_flags & VER_FLG_BASE) && def.vd_ndx < VERSION_OLD_BIT &&
		    aux.vda_name < r->t->strtab_len)
			r->names[def.vd_ndx] = aux.vda_name;
		if (!def.vd_next)
			return;
	}
}

/* A table's bytes: in the file, or inflated. */
static const char *open_section(struct reading *r, int fd, uint32_t i, const Elf64_Shdr *sh,
				void **inflated, const uint8_t **out, size_t *len)
{
	const char *why = NULL;

	if (sh->sh_type == SHT_NOBITS) {
		*len = 0;
		return NULL;
	}
	if (!elf_file__holds(r->f, sh->sh_offset, sh->sh_size))
		return "corrupt: the symbol table lies outside the file";
	*out = r->f->base + sh->sh_offset;
	*len = sh->sh_size;
	if (sh->sh_flags & SHF_COMPRESSED) {
		*out = *inflated = inflate__section(fd, i, len, &why);
		r->t->no_inflate = why != NULL;
	}
	return why;
}

static const char *open_tables(struct reading *r, int fd, uint32_t i, const Elf64_Shdr *sh)
{
	struct symtab *t = r->t;
	const uint8_t *strings = NULL;
	Elf64_Shdr str;
	size_t bytes;
	const char *why;

	why = open_section(r, fd, i, sh, &t->inflated[0], &r->syms, &bytes);
	if (why || !bytes)
		return why;
	if (!elf_file__section(r->f, sh->sh_link, &str) || str.sh_type != SHT_STRTAB)
		return "corrupt: the symbol table lies outside the file";
	why = open_section(r, fd, sh->sh_link, &str, &t->inflated[1], &strings, &t->strtab_len);
	if (why)
		return why;
	t->strtab = (const char *)strings;
	if (t->strtab_len > MAX_STRTAB)
		t->strtab_len = MAX_STRTAB;
	/* every name ends inside: what follows the last NUL is no name */
	while (t->strtab_len && t->strtab[t->strtab_len - 1])
		t->strtab_len--;
	r->sym_cnt = bytes / sizeof(Elf64_Sym);
	return NULL;
}

static int by_addr(const void *a, const void *b)
{
	const struct symbol *x = a, *y = b;

	if (x->addr != y->addr)
		return x->addr < y->addr ? -1 : 1;
	if (x->type != y->type)
		return y->type - x->type;
	return x->name < y->name ? -1 : x->name > y->name;
}

/* ---- versions that matter ---- */

struct versioned {
	const char *name;
	struct symbol *sym;
};

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct versioned *)a)->name, ((const struct versioned *)b)->name);
}

static bool is_default(const struct symtab *t, const struct symbol *sym)
{
	return !strncmp(symtab__str(t, sym->version), "@@", 2);
}

/* All of one name: which of them does the bare name mean? */
static void settle(const struct symtab *t, struct versioned *v, size_t cnt)
{
	const struct symbol *main = NULL;
	bool several = false;

	for (size_t i = 0; i < cnt; i++) {
		several |= v[i].sym->addr != v[0].sym->addr;
		if (is_default(t, v[i].sym))
			main = v[i].sym;
	}
	for (size_t i = 0; i < cnt; i++) {
		struct symbol *sym = v[i].sym;

		if (!several)
			sym->version = 0;
		else if (main && sym->addr == main->addr)
			sym->version = main->version;
		sym->old = several && main && sym->addr != main->addr;
	}
}

static const char *settle_versions(struct symtab *t)
{
	VEC(struct versioned) all = {};
	const char *why = NULL;
	size_t end;

	for (size_t i = 0; i < t->cnt && !why; i++) {
		struct versioned *v;

		if (!t->data[i].version)
			continue;
		v = vec__push(&all);
		if (!v)
			why = "out of memory";
		else
			*v = (struct versioned){ symtab__str(t, t->data[i].name), &t->data[i] };
	}
	if (all.cnt)
		qsort(all.data, all.cnt, sizeof(*all.data), by_name);
	for (size_t i = 0; i < all.cnt && !why; i = end) {
		for (end = i + 1; end < all.cnt && !by_name(&all.data[i], &all.data[end]);)
			end++;
		settle(t, &all.data[i], end - i);
	}
	vec__free(&all);
	return why;
}

const char *symtab__read(struct symtab *t, const struct elf_file *f, int fd, uint32_t type,
			 const struct image *code)
{
	struct reading r = { .t = t, .f = f, .code = code };
	const char *why;
	uint32_t i, file = 0;
	Elf64_Shdr sh;
	Elf64_Sym sym;

	*t = (struct symtab){ .extra = STRBUF_INIT };
	i = elf_file__find_type(f, type, &sh);
	if (!i)
		return NULL;
	why = open_tables(&r, fd, i, &sh);
	if (!why && type == SHT_DYNSYM) {
		r.names = calloc(VERSION_OLD_BIT, sizeof(*r.names));
		if (!r.names)
			return "out of memory";
		read_definitions(&r);
	}
	for (uint64_t n = 1; n < r.sym_cnt && !why; n++) {
		memcpy(&sym, r.syms + n * sizeof(sym), sizeof(sym));
		if (ELF64_ST_TYPE(sym.st_info) == STT_FILE)
			file = sym.st_name < t->strtab_len ? sym.st_name : 0;
		else
			why = add(&r, &sym, n, file);
	}
	free(r.names);
	if (!why)
		why = settle_versions(t);
	if (t->cnt)
		qsort(t->data, t->cnt, sizeof(*t->data), by_addr);
	return why;
}

void symtab__free(struct symtab *t)
{
	free(t->data);
	free(t->inflated[0]);
	free(t->inflated[1]);
	if (t->extra.cap)
		strbuf__free(&t->extra);
	memset(t, 0, sizeof(*t));
}

const char *symtab__str(const struct symtab *t, uint32_t id)
{
	if (id < t->strtab_len)
		return t->strtab + id;
	return id - t->strtab_len < t->extra.len ? t->extra.s + (id - t->strtab_len) : "";
}
