// SPDX-License-Identifier: BSD-2-Clause
#include "symbols/dynamic.h"

#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"
#include "symbols/elf_file.h"

#define MAX_VERSIONS 32768u
#define VERSION_MASK 0x7fffu

static const char *string_at(const char *strings, size_t len, uint64_t at)
{
	return strings && at < len && strings[at] ? strings + at : NULL;
}

/* Every value of a tag, joined. NULL: none. */
static char *strings_of(const struct elf_file *f, int64_t tag)
{
	struct strbuf sb = STRBUF_INIT;
	const char *strings, *s;
	Elf64_Shdr sh;
	Elf64_Dyn dyn;
	size_t len;

	if (!elf_file__find_type(f, SHT_DYNAMIC, &sh))
		return NULL;
	strings = elf_file__strings(f, sh.sh_link, &len);
	for (uint64_t i = 0; i < sh.sh_size / sizeof(dyn); i++) {
		if (!elf_file__copy(f, sh.sh_offset + i * sizeof(dyn), &dyn, sizeof(dyn)) ||
		    dyn.d_tag == DT_NULL)
			break;
		s = dyn.d_tag == tag ? string_at(strings, len, dyn.d_un.d_val) : NULL;
		if (s)
			strbuf__addf(&sb, "%s%s", sb.len ? ", " : "", s);
	}
	return sb.len ? strbuf__take(&sb) : NULL;
}

char *dynamic__soname(const struct elf_file *f)
{
	return strings_of(f, DT_SONAME);
}

/* By version number, the library it is of. */
static void read_providers(const struct elf_file *f, const char *strings, size_t len,
			   const char **providers)
{
	Elf64_Shdr sh;
	Elf64_Verneed need;
	Elf64_Vernaux aux;
	uint64_t at;

	if (!elf_file__find_type(f, SHT_GNU_verneed, &sh))
		return;
	at = sh.sh_offset;
	for (uint32_t n = 0; n < MAX_VERSIONS; n++, at += need.vn_next) {
		uint64_t a = at;

		if (!elf_file__copy(f, at, &need, sizeof(need)))
			return;
		a += need.vn_aux;
		for (uint32_t k = 0; k < need.vn_cnt && elf_file__copy(f, a, &aux, sizeof(aux));
		     k++, a += aux.vna_next)
			if (aux.vna_other < MAX_VERSIONS)
				providers[aux.vna_other] = string_at(strings, len, need.vn_file);
		if (!need.vn_next)
			return;
	}
}

static bool is_import(const Elf64_Sym *sym)
{
	int type = ELF64_ST_TYPE(sym->st_info);

	return sym->st_shndx == SHN_UNDEF && (type == STT_FUNC || type == STT_NOTYPE);
}

int dynamic__imports(int fd,
		     int (*each)(void *arg, const char *name, const char *provider,
				 const char *needed),
		     void *arg)
{
	const char **providers = calloc(MAX_VERSIONS, sizeof(*providers)), *strings = NULL, *name;
	Elf64_Shdr dynsym, numbers;
	bool numbered = false;
	char *needed = NULL;
	struct elf_file f;
	Elf64_Sym sym;
	size_t len = 0;
	int ret = 0;

	if (elf_file__open(fd, &f) || !providers || !elf_file__find_type(&f, SHT_DYNSYM, &dynsym))
		goto out;
	strings = elf_file__strings(&f, dynsym.sh_link, &len);
	needed = strings_of(&f, DT_NEEDED);
	numbered = elf_file__find_type(&f, SHT_GNU_versym, &numbers) != 0;
	read_providers(&f, strings, len, providers);
	for (uint64_t i = 1; !ret && i < dynsym.sh_size / sizeof(sym); i++) {
		uint16_t nr = 0;

		if (!elf_file__copy(&f, dynsym.sh_offset + i * sizeof(sym), &sym, sizeof(sym)))
			break;
		name = is_import(&sym) ? string_at(strings, len, sym.st_name) : NULL;
		if (!name)
			continue;
		if (numbered)
			elf_file__copy(&f, numbers.sh_offset + i * sizeof(nr), &nr, sizeof(nr));
		ret = each(arg, name, providers[nr & VERSION_MASK], needed ? needed : "");
	}
out:
	free(needed);
	free(providers);
	elf_file__close(&f);
	return ret;
}

bool dynamic__allocates(const struct elf_file *f)
{
	static const char *const names[] = { "malloc", "je_malloc", "_rjem_malloc", "mi_malloc" };
	const char *strings, *name;
	Elf64_Shdr dynsym;
	Elf64_Sym sym;
	size_t len;

	if (!elf_file__find_type(f, SHT_DYNSYM, &dynsym))
		return false;
	strings = elf_file__strings(f, dynsym.sh_link, &len);
	for (uint64_t i = 1; i < dynsym.sh_size / sizeof(sym); i++) {
		if (!elf_file__copy(f, dynsym.sh_offset + i * sizeof(sym), &sym, sizeof(sym)))
			return false;
		if (sym.st_shndx == SHN_UNDEF)
			continue;
		name = string_at(strings, len, sym.st_name);
		for (size_t k = 0; name && k < sizeof(names) / sizeof(names[0]); k++)
			if (!strcmp(name, names[k]))
				return true;
	}
	return false;
}

unsigned int dynamic__way(const char *name)
{
	static const struct {
		const char *name;
		enum dynamic_way way;
	} ways[] = {
		{ "__cxa_begin_catch", DYNAMIC_EXCEPTIONS },
		{ "__cxa_throw", DYNAMIC_EXCEPTIONS },
		{ "longjmp", DYNAMIC_JUMPS },
		{ "_longjmp", DYNAMIC_JUMPS },
		{ "siglongjmp", DYNAMIC_JUMPS },
		{ "__longjmp_chk", DYNAMIC_JUMPS },
	};

	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
		if (!strcmp(name, ways[i].name))
			return ways[i].way;
	return 0;
}

void dynamic__ways(const struct elf_file *f, unsigned int *taken, unsigned int *given)
{
	const char *strings, *name;
	Elf64_Shdr dynsym;
	Elf64_Sym sym;
	size_t len;

	*taken = *given = 0;
	if (!elf_file__find_type(f, SHT_DYNSYM, &dynsym))
		return;
	strings = elf_file__strings(f, dynsym.sh_link, &len);
	for (uint64_t i = 1; i < dynsym.sh_size / sizeof(sym); i++) {
		if (!elf_file__copy(f, dynsym.sh_offset + i * sizeof(sym), &sym, sizeof(sym)))
			return;
		name = string_at(strings, len, sym.st_name);
		if (name)
			*(sym.st_shndx == SHN_UNDEF ? taken : given) |= dynamic__way(name);
	}
}
