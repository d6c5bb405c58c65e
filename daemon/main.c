/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/log.h"
#include "commands.h"
#include "options.h"
#include "saved.h"
#include "trace.h"

int main(int argc, char **argv)
{
	struct options opts;
	int code = CODE_FAILED;

	if (!options__parse(argc, argv, &opts, &code))
		return code;
	if (opts.verbose)
		log__set_level(LOG_DEBUG);
	switch (opts.command) {
	case COMMAND_TRACE:
		code = trace__run(&opts);
		break;
	case COMMAND_LIST:
		code = command__list(&opts);
		break;
	case COMMAND_CHECK:
		code = command__check(&opts);
		break;
	case COMMAND_REPORT:
		code = saved__report(&opts);
		break;
	}
	options__free(&opts);
	return code;
}
