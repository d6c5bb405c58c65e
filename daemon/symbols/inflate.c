// SPDX-License-Identifier: BSD-2-Clause
#include "symbols/inflate.h"

#include <stdlib.h>
#include <string.h>
#include <libelf.h>

#include "symbols/elf_file.h"

#define MAX_BYTES (2ull << 30)
#define METHOD_ZSTD 2u /* ELFCOMPRESS_ZSTD, which older headers do not have */

static const char *cannot(uint32_t method)
{
	if (method == METHOD_ZSTD)
		return "compressed with zstd, which this build of libelf cannot read";
	if (method != ELFCOMPRESS_ZLIB)
		return "compressed in a way unknown here";
	return "corrupt: a compressed section that cannot be inflated";
}

static void *inflate(Elf *elf, uint32_t index, size_t *len, const char **why)
{
	Elf_Scn *scn = elf_getscn(elf, index);
	Elf64_Chdr ch = { .ch_type = ELFCOMPRESS_ZLIB };
	Elf64_Shdr *sh = scn ? elf64_getshdr(scn) : NULL;
	Elf_Data *raw = sh ? elf_rawdata(scn, NULL) : NULL, *data;
	void *copy;

	*why = cannot(ch.ch_type);
	if (!raw || raw->d_size < sizeof(ch))
		return NULL;
	memcpy(&ch, raw->d_buf, sizeof(ch));
	*why = cannot(ch.ch_type);
	if (ch.ch_size > MAX_BYTES || elf_compress(scn, 0, 0) < 0)
		return NULL;
	data = elf_rawdata(scn, NULL);
	if (!data || !data->d_size)
		return NULL;
	copy = malloc(data->d_size);
	*why = copy ? NULL : "out of memory";
	if (copy) {
		memcpy(copy, data->d_buf, data->d_size);
		*len = data->d_size;
	}
	return copy;
}

void *inflate__section(int fd, uint32_t index, size_t *len, const char **why)
{
	void *data = NULL;
	Elf *elf;

	elf_version(EV_CURRENT);
	elf = elf_begin(fd, ELF_C_READ_MMAP, NULL);
	*why = "not an ELF file";
	if (elf)
		data = inflate(elf, index, len, why);
	elf_end(elf);
	return data;
}

const char *inflate__unreadable(int fd)
{
	const char *why = NULL;
	struct elf_file f;
	uint32_t i = 0;
	Elf64_Shdr sh;
	Elf64_Chdr ch;
	size_t len;

	if (!elf_file__open(fd, &f))
		i = elf_file__find(&f, ".debug_info", &sh);
	if (i && sh.sh_flags & SHF_COMPRESSED &&
	    elf_file__copy(&f, sh.sh_offset, &ch, sizeof(ch)) && ch.ch_type != ELFCOMPRESS_ZLIB)
		free(inflate__section(fd, i, &len, &why));
	elf_file__close(&f);
	return why;
}
