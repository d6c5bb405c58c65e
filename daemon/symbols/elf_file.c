// SPDX-License-Identifier: BSD-2-Clause
#include "symbols/elf_file.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/strbuf.h"

#define MAX_BUILD_ID_BYTES 64

bool elf_file__holds(const struct elf_file *f, uint64_t offset, uint64_t bytes)
{
	return offset <= f->len && bytes <= f->len - offset;
}

bool elf_file__copy(const struct elf_file *f, uint64_t offset, void *out, size_t bytes)
{
	if (!elf_file__holds(f, offset, bytes))
		return false;
	memcpy(out, f->base + offset, bytes);
	return true;
}

bool elf_file__section(const struct elf_file *f, uint32_t i, Elf64_Shdr *out)
{
	return i < f->section_cnt &&
	       elf_file__copy(f, f->eh.e_shoff + (uint64_t)i * sizeof(*out), out, sizeof(*out));
}

bool elf_file__segment(const struct elf_file *f, uint32_t i, Elf64_Phdr *out)
{
	return i < f->eh.e_phnum &&
	       elf_file__copy(f, f->eh.e_phoff + (uint64_t)i * sizeof(*out), out, sizeof(*out));
}

static const char *read_header(struct elf_file *f)
{
	Elf64_Ehdr *eh = &f->eh;
	Elf64_Shdr first;

	if (!elf_file__copy(f, 0, eh, sizeof(*eh)) || memcmp(eh->e_ident, ELFMAG, SELFMAG))
		return "not an ELF file";
	if (eh->e_ident[EI_CLASS] != ELFCLASS64 || eh->e_ident[EI_DATA] != ELFDATA2LSB ||
	    eh->e_machine != EM_X86_64)
		return "not for x86-64";
	if (eh->e_type != ET_EXEC && eh->e_type != ET_DYN)
		return "neither a program nor a shared object";
	if (eh->e_phentsize != sizeof(Elf64_Phdr) || eh->e_phnum == PN_XNUM ||
	    !elf_file__holds(f, eh->e_phoff, (uint64_t)eh->e_phnum * sizeof(Elf64_Phdr)))
		return "corrupt: program headers outside the file";
	if (!eh->e_shoff)
		return NULL;
	if (eh->e_shentsize != sizeof(Elf64_Shdr) ||
	    !elf_file__copy(f, eh->e_shoff, &first, sizeof(first)))
		return "corrupt: section headers outside the file";
	f->section_cnt = eh->e_shnum;
	if (!eh->e_shnum) /* more than 65,279 sections: the count is here */
		f->section_cnt = first.sh_size > UINT32_MAX ? UINT32_MAX : (uint32_t)first.sh_size;
	if (!elf_file__holds(f, eh->e_shoff, (uint64_t)f->section_cnt * sizeof(first)))
		return "corrupt: section headers outside the file";
	return NULL;
}

const char *elf_file__open(int fd, struct elf_file *out)
{
	struct stat st;
	void *base;

	memset(out, 0, sizeof(*out));
	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size < (off_t)sizeof(Elf64_Ehdr))
		return "not an ELF file";
	base = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (base == MAP_FAILED)
		return strerror(errno);
	out->base = base;
	out->len = (size_t)st.st_size;
	return read_header(out);
}

void elf_file__close(struct elf_file *f)
{
	if (f->base)
		munmap((void *)f->base, f->len);
	memset(f, 0, sizeof(*f));
}

const char *elf_file__strings(const struct elf_file *f, uint32_t section, size_t *len)
{
	const char *s;
	Elf64_Shdr sh;

	if (!elf_file__section(f, section, &sh) || sh.sh_type != SHT_STRTAB ||
	    !elf_file__holds(f, sh.sh_offset, sh.sh_size))
		return NULL;
	s = (const char *)f->base + sh.sh_offset;
	*len = sh.sh_size;
	while (*len && s[*len - 1])
		(*len)--;
	return s;
}

uint32_t elf_file__find(const struct elf_file *f, const char *name, Elf64_Shdr *out)
{
	uint32_t names_at = f->eh.e_shstrndx;
	const char *names;
	Elf64_Shdr sh;
	size_t len;

	if (names_at == SHN_XINDEX && elf_file__section(f, 0, &sh))
		names_at = sh.sh_link;
	names = elf_file__strings(f, names_at, &len);
	for (uint32_t i = 1; names && i < f->section_cnt && elf_file__section(f, i, &sh); i++) {
		if (sh.sh_type == SHT_NOBITS || sh.sh_name >= len ||
		    strcmp(names + sh.sh_name, name) ||
		    !elf_file__holds(f, sh.sh_offset, sh.sh_size))
			continue;
		*out = sh;
		return i;
	}
	return 0;
}

uint32_t elf_file__find_type(const struct elf_file *f, uint32_t type, Elf64_Shdr *out)
{
	for (uint32_t i = 1; i < f->section_cnt; i++)
		if (elf_file__section(f, i, out) && out->sh_type == type)
			return i;
	return 0;
}

static char *build_id_of_notes(const struct elf_file *f, uint64_t at, uint64_t bytes)
{
	struct strbuf hex = STRBUF_INIT;
	uint64_t end = at + bytes;
	Elf64_Nhdr note;

	if (!elf_file__holds(f, at, bytes))
		return NULL;
	while (at + sizeof(note) <= end && elf_file__copy(f, at, &note, sizeof(note))) {
		uint64_t name = at + sizeof(note);
		uint64_t desc = name + (((uint64_t)note.n_namesz + 3) & ~3ull);

		at = desc + (((uint64_t)note.n_descsz + 3) & ~3ull);
		if (at > end || note.n_type != NT_GNU_BUILD_ID || note.n_namesz != 4 ||
		    memcmp(f->base + name, "GNU", 4) || !note.n_descsz ||
		    note.n_descsz > MAX_BUILD_ID_BYTES)
			continue;
		for (uint32_t i = 0; i < note.n_descsz; i++)
			strbuf__addf(&hex, "%02x", f->base[desc + i]);
		return strbuf__take(&hex);
	}
	return NULL;
}

char *elf_file__build_id(const struct elf_file *f)
{
	char *id = NULL;
	Elf64_Phdr ph;
	Elf64_Shdr sh;

	for (uint32_t i = 0; !id && elf_file__segment(f, i, &ph); i++)
		if (ph.p_type == PT_NOTE)
			id = build_id_of_notes(f, ph.p_offset, ph.p_filesz);
	/* a debug file may have no segments */
	for (uint32_t i = 1; !id && elf_file__section(f, i, &sh); i++)
		if (sh.sh_type == SHT_NOTE)
			id = build_id_of_notes(f, sh.sh_offset, sh.sh_size);
	return id;
}
