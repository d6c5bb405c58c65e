// SPDX-License-Identifier: BSD-2-Clause
/*
 * Reads an ELF file by hand from a read-only mapping: three dozen fields, each checked, are less
 * to trust than a general parser. Structures are copied out, for nothing in a hostile file is
 * aligned. Does not know what a symbol means.
 */
#include "symbols/image.h"

#include <stdio.h>
#include <unistd.h>
#include <zlib.h>

#include "base/strbuf.h"
#include "base/vec.h"
#include "symbols/elf_file.h"
#include "symbols/symtab.h"

struct segment {
	uint64_t vaddr, offset, bytes;
	bool exec;
};

struct reloc {
	uint64_t at;
	uint64_t value;
	bool known; /* false: another object provides it */
};

struct image {
	struct elf_file file;
	struct elf_file debug; /* a separate debug file, when its symbols are used */
	VEC(struct segment) segments;
	struct symtab symbols;
	enum symbol_source source;
	const char *flaw;
	VEC(struct reloc) relocs;
	bool relocs_read;
	uint64_t eh_hdr_vaddr, eh_hdr_len;
	char *build_id;
};

/* Every reader returns NULL, or in words what is wrong with the file. */
static const char *read_segments(struct image *img)
{
	Elf64_Phdr ph;

	for (uint32_t i = 0; elf_file__segment(&img->file, i, &ph); i++) {
		struct segment *seg;

		if (ph.p_type == PT_NULL || !ph.p_filesz)
			continue;
		if (!elf_file__holds(&img->file, ph.p_offset, ph.p_filesz) ||
		    ph.p_vaddr + ph.p_filesz < ph.p_vaddr)
			return "corrupt: a segment outside the file";
		if (ph.p_type == PT_GNU_EH_FRAME) {
			img->eh_hdr_vaddr = ph.p_vaddr;
			img->eh_hdr_len = ph.p_filesz;
		}
		if (ph.p_type != PT_LOAD)
			continue;
		seg = vec__push(&img->segments);
		if (!seg)
			return "out of memory";
		*seg = (struct segment){ ph.p_vaddr, ph.p_offset, ph.p_filesz, ph.p_flags & PF_X };
	}
	img->build_id = elf_file__build_id(&img->file);
	return img->segments.cnt ? NULL : "corrupt: nothing to load";
}

static const struct segment *segment_of(const struct image *img, uint64_t vaddr)
{
	for (size_t i = 0; i < img->segments.cnt; i++) {
		const struct segment *seg = &img->segments.data[i];

		if (vaddr >= seg->vaddr && vaddr - seg->vaddr < seg->bytes)
			return seg;
	}
	return NULL;
}

static bool has_functions(const struct symtab *t)
{
	for (size_t i = 0; i < t->cnt; i++)
		if (t->data[i].type >= SYMBOL_FUNC)
			return true;
	return false;
}

/* A .symtab that cannot be inflated is a flaw, not the end: the exported names are still there. */
static const char *read_symbols(struct image *img, int fd)
{
	const char *why = symtab__read(&img->symbols, &img->file, fd, SHT_SYMTAB, img);

	if (why && img->symbols.no_inflate) {
		img->flaw = why;
		why = NULL;
	}
	img->source = SYMBOLS_OWN;
	if (why || has_functions(&img->symbols))
		return why;
	symtab__free(&img->symbols);
	why = symtab__read(&img->symbols, &img->file, fd, SHT_DYNSYM, img);
	img->source = has_functions(&img->symbols) ? SYMBOLS_EXPORTED : SYMBOLS_NONE;
	return why;
}

int image__open(int fd, struct image **out, char **reason)
{
	struct image *img = calloc(1, sizeof(*img));
	const char *why = NULL;
	int err;

	if (!img)
		return -ENOMEM;
	img->symbols.extra = (struct strbuf)STRBUF_INIT;
	why = elf_file__open(fd, &img->file);
	if (!why)
		why = read_segments(img);
	if (!why)
		why = read_symbols(img, fd);
	err = why ? -ENOEXEC : 0;
	if (err) {
		*reason = why ? strdup(why) : NULL;
		image__free(img);
		return err;
	}
	*out = img;
	return 0;
}

/* ---- separate debug files ---- */

static bool next_load(const struct elf_file *f, uint32_t *i, Elf64_Phdr *out)
{
	while (elf_file__segment(f, (*i)++, out))
		if (out->p_type == PT_LOAD)
			return true;
	return false;
}

/* Stripping tools keep the addresses of segments; only what is in the file differs. */
static bool same_layout(const struct elf_file *a, const struct elf_file *b)
{
	uint32_t i = 0, j = 0;
	Elf64_Phdr x, y;

	if (!b->eh.e_phnum)
		return true;
	for (;;) {
		bool more = next_load(a, &i, &x);

		if (next_load(b, &j, &y) != more)
			return false;
		if (!more)
			return true;
		if (x.p_vaddr != y.p_vaddr || x.p_memsz != y.p_memsz || x.p_flags != y.p_flags)
			return false;
	}
}

/* Read, not mapped: a mapping of hundreds of MB would all count as memory in use. */
static uint32_t crc_of(int fd)
{
	uint8_t buf[1 << 16];
	uLong sum = 0;
	off_t at = 0;
	ssize_t n;

	while ((n = pread(fd, buf, sizeof(buf), at)) > 0) {
		sum = crc32_z(sum, buf, (size_t)n);
		at += n;
	}
	return (uint32_t)sum;
}

/* What shows that it is another program's, in words; "" when nothing does. */
static char *mismatch(const struct image *img, const struct elf_file *debug, int fd,
		      const uint32_t *crc)
{
	char *id = elf_file__build_id(debug);
	struct strbuf why = STRBUF_INIT;
	uint32_t sum;

	if (img->build_id && id && strcmp(img->build_id, id))
		strbuf__addf(&why, "its build-id is %s, that of the program is %s", id,
			     img->build_id);
	else if (!same_layout(&img->file, debug))
		strbuf__adds(&why, "its segments are not those of the program");
	else if (!crc && !debug->eh.e_phnum && !(img->build_id && id))
		strbuf__adds(&why, "nothing in it shows that it belongs to the program");
	else if (crc && (sum = crc_of(fd)) != *crc)
		strbuf__addf(&why, "its CRC is %08x, the program's .gnu_debuglink says %08x", sum,
			     *crc);
	free(id);
	return why.len || why.oom ? strbuf__take(&why) : strdup("");
}

static const char *take_symbols(struct image *img, const struct elf_file *debug, int fd)
{
	struct symtab t;
	const char *why = symtab__read(&t, debug, fd, SHT_SYMTAB, img);

	if (!why && has_functions(&t)) {
		symtab__free(&img->symbols);
		img->symbols = t;
		img->source = SYMBOLS_SEPARATE;
		return NULL;
	}
	if (why && t.no_inflate) {
		img->flaw = why;
		why = NULL;
	}
	symtab__free(&t);
	return why;
}

int image__add_debug(struct image *img, int fd, const uint32_t *crc, char **reason)
{
	struct elf_file debug;
	const char *why = elf_file__open(fd, &debug);
	char *wrong = why ? strdup(why) : mismatch(img, &debug, fd, crc);

	if (wrong && !*wrong && img->source != SYMBOLS_OWN) {
		why = take_symbols(img, &debug, fd);
		if (why) {
			free(wrong);
			wrong = strdup(why);
		}
	}
	if (wrong && !*wrong) {
		free(wrong);
		img->debug = debug; /* its strings are in use */
		return 0;
	}
	elf_file__close(&debug);
	*reason = wrong;
	return wrong ? -EBADF : -ENOMEM;
}

enum symbol_source image__source(const struct image *img)
{
	return img->source;
}

const char *image__flaw(const struct image *img)
{
	return img->flaw;
}

static bool has_dwarf(const struct elf_file *f)
{
	Elf64_Shdr sh;

	return elf_file__find(f, ".debug_info", &sh) || elf_file__find(f, ".zdebug_info", &sh);
}

bool image__has_dwarf(const struct image *img)
{
	return has_dwarf(&img->file);
}

void image__free(struct image *img)
{
	if (!img)
		return;
	elf_file__close(&img->file);
	elf_file__close(&img->debug);
	symtab__free(&img->symbols);
	vec__free(&img->segments);
	vec__free(&img->relocs);
	free(img->build_id);
	free(img);
}

const char *image__build_id(const struct image *img)
{
	return img->build_id;
}

const uint8_t *image__bytes(const struct image *img, uint64_t vaddr, size_t *avail)
{
	const struct segment *seg = segment_of(img, vaddr);

	if (!seg)
		return NULL;
	*avail = seg->bytes - (vaddr - seg->vaddr);
	return img->file.base + seg->offset + (vaddr - seg->vaddr);
}

bool image__code_offset(const struct image *img, uint64_t vaddr, uint64_t *offset)
{
	const struct segment *seg = segment_of(img, vaddr);

	if (!seg || !seg->exec)
		return false;
	*offset = seg->offset + (vaddr - seg->vaddr);
	return true;
}

size_t image__code_segments(const struct image *img, struct code_segment *out, size_t max)
{
	size_t n = 0;

	for (size_t i = 0; i < img->segments.cnt && n < max; i++) {
		const struct segment *seg = &img->segments.data[i];

		if (seg->exec)
			out[n++] = (struct code_segment){ seg->offset, seg->vaddr, seg->bytes };
	}
	return n;
}

const uint8_t *image__raw(const struct image *img, size_t *len)
{
	*len = img->file.len;
	return img->file.base;
}

const uint8_t *image__eh_frame(const struct image *img, uint64_t *vaddr, size_t *len)
{
	const uint8_t *p;
	Elf64_Shdr sh;
	size_t avail;

	if (!elf_file__find(&img->file, ".eh_frame", &sh) || !(sh.sh_flags & SHF_ALLOC))
		return NULL;
	p = image__bytes(img, sh.sh_addr, &avail);
	if (!p)
		return NULL;
	*vaddr = sh.sh_addr;
	*len = sh.sh_size < avail ? sh.sh_size : avail;
	return p;
}

const uint8_t *image__eh_frame_hdr(const struct image *img, uint64_t *vaddr, size_t *len)
{
	size_t avail;
	const uint8_t *p = img->eh_hdr_len ? image__bytes(img, img->eh_hdr_vaddr, &avail) : NULL;

	if (!p)
		return NULL;
	*vaddr = img->eh_hdr_vaddr;
	*len = img->eh_hdr_len < avail ? img->eh_hdr_len : avail;
	return p;
}

const struct symbol *image__symbols(const struct image *img, size_t *cnt)
{
	*cnt = img->symbols.cnt;
	return img->symbols.data;
}

const char *image__str(const struct image *img, uint32_t name)
{
	return symtab__str(&img->symbols, name);
}

size_t image__lower_bound(const struct image *img, uint64_t vaddr)
{
	size_t lo = 0, hi = img->symbols.cnt;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (img->symbols.data[mid].addr < vaddr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

const struct symbol *image__function_at(const struct image *img, uint64_t vaddr)
{
	size_t i = image__lower_bound(img, vaddr);

	/* among equals, by_addr puts functions first */
	if (i < img->symbols.cnt && img->symbols.data[i].addr == vaddr &&
	    img->symbols.data[i].type >= SYMBOL_FUNC)
		return &img->symbols.data[i];
	return NULL;
}

static bool dynamic_symbol(const struct image *img, uint32_t link, uint64_t index, Elf64_Sym *out)
{
	Elf64_Shdr sh;

	return elf_file__section(&img->file, link, &sh) && sh.sh_type == SHT_DYNSYM &&
	       index < sh.sh_size / sizeof(*out) &&
	       elf_file__copy(&img->file, sh.sh_offset + index * sizeof(*out), out, sizeof(*out));
}

static void read_rela(struct image *img, const Elf64_Shdr *sh)
{
	Elf64_Rela rela;
	Elf64_Sym sym;

	for (uint64_t i = 0; i < sh->sh_size / sizeof(rela); i++) {
		struct reloc *r;
		uint32_t type;

		if (!elf_file__copy(&img->file, sh->sh_offset + i * sizeof(rela), &rela,
				    sizeof(rela)))
			return;
		type = ELF64_R_TYPE(rela.r_info);
		if (type != R_X86_64_RELATIVE && type != R_X86_64_GLOB_DAT &&
		    type != R_X86_64_JUMP_SLOT && type != R_X86_64_64)
			continue;
		r = vec__push(&img->relocs);
		if (!r)
			return;
		r->at = rela.r_offset;
		r->value = (uint64_t)rela.r_addend;
		r->known = type == R_X86_64_RELATIVE;
		if (!r->known && dynamic_symbol(img, sh->sh_link, ELF64_R_SYM(rela.r_info), &sym) &&
		    sym.st_shndx != SHN_UNDEF) {
			r->value = sym.st_value + (type == R_X86_64_64 ? r->value : 0);
			r->known = true;
		}
	}
}

static int by_place(const void *a, const void *b)
{
	const struct reloc *x = a, *y = b;

	return x->at < y->at ? -1 : x->at > y->at;
}

/* Loaded at the first question, for many plans never ask. (Packed relocations, SHT_RELR, need
 * nothing here: the file itself holds the pointer.) */
static void read_relocs(struct image *img)
{
	Elf64_Shdr sh;

	img->relocs_read = true;
	for (uint32_t i = 1; i < img->file.section_cnt; i++)
		if (elf_file__section(&img->file, i, &sh) && sh.sh_type == SHT_RELA &&
		    sh.sh_flags & SHF_ALLOC)
			read_rela(img, &sh);
	for (size_t i = 1; i < img->relocs.cnt; i++)
		if (img->relocs.data[i - 1].at > img->relocs.data[i].at) {
			qsort(img->relocs.data, img->relocs.cnt, sizeof(*img->relocs.data),
			      by_place);
			break;
		}
}

bool image__pointer(const struct image *img, uint64_t vaddr, uint64_t *value)
{
	const struct reloc *r;
	struct reloc key = { .at = vaddr };
	const uint8_t *p;
	size_t avail;

	if (!img->relocs_read)
		read_relocs((struct image *)img);
	r = img->relocs.cnt
		    ? bsearch(&key, img->relocs.data, img->relocs.cnt, sizeof(key), by_place)
		    : NULL;
	if (r) {
		*value = r->value;
		return r->known;
	}
	p = image__bytes(img, vaddr, &avail);
	if (!p || avail < sizeof(*value))
		return false;
	memcpy(value, p, sizeof(*value));
	return *value != 0;
}
