// SPDX-License-Identifier: BSD-2-Clause
/*
 * Reads an ELF file by hand from a read-only mapping: three dozen fields, each checked, are less
 * to trust than a general parser. Structures are copied out, for nothing in a hostile file is
 * aligned. Does not know what a symbol means.
 */
#include "symbols/image.h"

#include <elf.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/strbuf.h"
#include "base/vec.h"

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
	const uint8_t *base;
	size_t len;
	Elf64_Ehdr eh;
	uint32_t section_cnt;
	VEC(struct segment) segments;
	VEC(struct symbol) symbols;
	const char *strtab;
	size_t strtab_len;
	VEC(struct reloc) relocs;
	bool relocs_read;
	uint64_t eh_hdr_vaddr, eh_hdr_len;
	char *build_id;
};

static bool in_file(const struct image *img, uint64_t offset, uint64_t bytes)
{
	return offset <= img->len && bytes <= img->len - offset;
}

static bool copy(const struct image *img, uint64_t offset, void *out, size_t bytes)
{
	if (!in_file(img, offset, bytes))
		return false;
	memcpy(out, img->base + offset, bytes);
	return true;
}

static bool section(const struct image *img, uint32_t i, Elf64_Shdr *out)
{
	return i < img->section_cnt &&
	       copy(img, img->eh.e_shoff + (uint64_t)i * sizeof(*out), out, sizeof(*out));
}

/* Every reader returns NULL, or in words what is wrong with the file. */
static const char *read_header(struct image *img)
{
	Elf64_Ehdr *eh = &img->eh;
	Elf64_Shdr first;

	if (!copy(img, 0, eh, sizeof(*eh)) || memcmp(eh->e_ident, ELFMAG, SELFMAG))
		return "not an ELF file";
	if (eh->e_ident[EI_CLASS] != ELFCLASS64 || eh->e_ident[EI_DATA] != ELFDATA2LSB ||
	    eh->e_machine != EM_X86_64)
		return "not for x86-64";
	if (eh->e_type != ET_EXEC && eh->e_type != ET_DYN)
		return "neither a program nor a shared object";
	if (eh->e_phentsize != sizeof(Elf64_Phdr) || eh->e_phnum == PN_XNUM ||
	    !in_file(img, eh->e_phoff, (uint64_t)eh->e_phnum * sizeof(Elf64_Phdr)))
		return "corrupt: program headers outside the file";
	if (!eh->e_shoff)
		return NULL;
	if (eh->e_shentsize != sizeof(Elf64_Shdr) || !copy(img, eh->e_shoff, &first, sizeof(first)))
		return "corrupt: section headers outside the file";
	img->section_cnt = eh->e_shnum;
	if (!eh->e_shnum) /* more than 65,279 sections: the count is here */
		img->section_cnt =
			first.sh_size > UINT32_MAX ? UINT32_MAX : (uint32_t)first.sh_size;
	if (!in_file(img, eh->e_shoff, (uint64_t)img->section_cnt * sizeof(first)))
		return "corrupt: section headers outside the file";
	return NULL;
}

static void read_build_id(struct image *img, const Elf64_Phdr *ph)
{
	uint64_t at = ph->p_offset, end = ph->p_offset + ph->p_filesz;
	struct strbuf hex = STRBUF_INIT;
	Elf64_Nhdr note;

	while (!img->build_id && at + sizeof(note) <= end && copy(img, at, &note, sizeof(note))) {
		uint64_t name = at + sizeof(note);
		uint64_t desc = name + (((uint64_t)note.n_namesz + 3) & ~3ull);

		at = desc + (((uint64_t)note.n_descsz + 3) & ~3ull);
		if (at > end || note.n_type != NT_GNU_BUILD_ID || note.n_namesz != 4 ||
		    memcmp(img->base + name, "GNU", 4) || note.n_descsz > 64)
			continue;
		for (uint32_t i = 0; i < note.n_descsz; i++)
			strbuf__addf(&hex, "%02x", img->base[desc + i]);
		img->build_id = strbuf__take(&hex);
	}
}

static const char *read_segments(struct image *img)
{
	Elf64_Phdr ph;

	for (uint32_t i = 0; i < img->eh.e_phnum; i++) {
		struct segment *seg;

		copy(img, img->eh.e_phoff + (uint64_t)i * sizeof(ph), &ph, sizeof(ph));
		if (ph.p_type == PT_NULL || !ph.p_filesz)
			continue;
		if (!in_file(img, ph.p_offset, ph.p_filesz) ||
		    ph.p_vaddr + ph.p_filesz < ph.p_vaddr)
			return "corrupt: a segment outside the file";
		if (ph.p_type == PT_NOTE)
			read_build_id(img, &ph);
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

static int symbol_type(const struct image *img, const Elf64_Sym *sym)
{
	int type = ELF64_ST_TYPE(sym->st_info);
	const struct segment *seg;

	if (sym->st_shndx == SHN_UNDEF || sym->st_shndx == SHN_ABS || sym->st_shndx == SHN_COMMON)
		return -1;
	if (type == STT_FUNC)
		return SYMBOL_FUNC;
	if (type == STT_GNU_IFUNC)
		return SYMBOL_IFUNC;
	if (type != STT_NOTYPE && type != STT_OBJECT)
		return -1;
	seg = segment_of(img, sym->st_value);
	if (!seg || !seg->exec)
		return -1;
	return type == STT_OBJECT ? SYMBOL_OBJECT : SYMBOL_NOTYPE;
}

static const char *add_symbol(struct image *img, const Elf64_Sym *sym, uint32_t file)
{
	int type = symbol_type(img, sym), bind = ELF64_ST_BIND(sym->st_info);
	struct symbol *out;

	if (type < 0 || sym->st_name >= img->strtab_len || !img->strtab[sym->st_name])
		return NULL;
	out = vec__push(&img->symbols);
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
	return NULL;
}

static const char *read_symtab(struct image *img, const Elf64_Shdr *sh)
{
	uint64_t cnt = sh->sh_size / sizeof(Elf64_Sym);
	uint32_t file = 0;
	Elf64_Shdr str;
	Elf64_Sym sym;
	const char *why = NULL;

	if (sh->sh_flags & SHF_COMPRESSED)
		return NULL;
	if (!in_file(img, sh->sh_offset, sh->sh_size) || !section(img, sh->sh_link, &str) ||
	    str.sh_type != SHT_STRTAB || !in_file(img, str.sh_offset, str.sh_size))
		return "corrupt: the symbol table lies outside the file";
	img->strtab = (const char *)img->base + str.sh_offset;
	img->strtab_len = str.sh_size;
	/* every name ends inside: what follows the last NUL is no name */
	while (img->strtab_len && img->strtab[img->strtab_len - 1])
		img->strtab_len--;
	for (uint64_t i = 1; i < cnt && !why; i++) {
		copy(img, sh->sh_offset + i * sizeof(sym), &sym, sizeof(sym));
		if (ELF64_ST_TYPE(sym.st_info) == STT_FILE)
			file = sym.st_name < img->strtab_len ? sym.st_name : 0;
		else
			why = add_symbol(img, &sym, file);
	}
	return why;
}

static const char *read_symbols_of(struct image *img, uint32_t type)
{
	Elf64_Shdr sh;

	for (uint32_t i = 1; i < img->section_cnt; i++)
		if (section(img, i, &sh) && sh.sh_type == type)
			return read_symtab(img, &sh);
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

static const char *read_symbols(struct image *img)
{
	const char *why = read_symbols_of(img, SHT_SYMTAB);

	if (!why && !img->symbols.cnt)
		why = read_symbols_of(img, SHT_DYNSYM);
	if (img->symbols.cnt)
		qsort(img->symbols.data, img->symbols.cnt, sizeof(*img->symbols.data), by_addr);
	return why;
}

int image__open(int fd, struct image **out, char **reason)
{
	struct image *img = calloc(1, sizeof(*img));
	const char *why = NULL;
	struct stat st;
	int err = -ENOMEM;

	if (!img)
		return err;
	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size < (off_t)sizeof(Elf64_Ehdr)) {
		why = "not an ELF file";
		err = -ENOEXEC;
		goto out;
	}
	img->len = (size_t)st.st_size;
	img->base = mmap(NULL, img->len, PROT_READ, MAP_PRIVATE, fd, 0);
	if (img->base == MAP_FAILED) {
		err = -errno;
		img->base = NULL;
		why = strerror(-err);
		goto out;
	}
	why = read_header(img);
	if (!why)
		why = read_segments(img);
	if (!why)
		why = read_symbols(img);
	err = why ? -ENOEXEC : 0;
out:
	if (err) {
		*reason = why ? strdup(why) : NULL;
		image__free(img);
		return err;
	}
	*out = img;
	return 0;
}

void image__free(struct image *img)
{
	if (!img)
		return;
	if (img->base)
		munmap((void *)img->base, img->len);
	vec__free(&img->segments);
	vec__free(&img->symbols);
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
	return img->base + seg->offset + (vaddr - seg->vaddr);
}

bool image__code_offset(const struct image *img, uint64_t vaddr, uint64_t *offset)
{
	const struct segment *seg = segment_of(img, vaddr);

	if (!seg || !seg->exec)
		return false;
	*offset = seg->offset + (vaddr - seg->vaddr);
	return true;
}

const uint8_t *image__raw(const struct image *img, size_t *len)
{
	*len = img->len;
	return img->base;
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
	return name < img->strtab_len ? img->strtab + name : "";
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

	return section(img, link, &sh) && sh.sh_type == SHT_DYNSYM &&
	       index < sh.sh_size / sizeof(*out) &&
	       copy(img, sh.sh_offset + index * sizeof(*out), out, sizeof(*out));
}

static void read_rela(struct image *img, const Elf64_Shdr *sh)
{
	Elf64_Rela rela;
	Elf64_Sym sym;

	for (uint64_t i = 0; i < sh->sh_size / sizeof(rela); i++) {
		struct reloc *r;
		uint32_t type;

		if (!copy(img, sh->sh_offset + i * sizeof(rela), &rela, sizeof(rela)))
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
	for (uint32_t i = 1; i < img->section_cnt; i++)
		if (section(img, i, &sh) && sh.sh_type == SHT_RELA && sh.sh_flags & SHF_ALLOC)
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
