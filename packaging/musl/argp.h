/* SPDX-License-Identifier: Apache-2.0
 *
 * libelf has no use for argp, and musl has none. But elfutils compiles lib/color.c, for its programs,
 * before libelf. This header has what that file names; the linker leaves the file out.
 */
#ifndef HOLDFAST_ARGP_H
#define HOLDFAST_ARGP_H

#include <stdio.h>

#define OPTION_ARG_OPTIONAL 1
#define ARGP_HELP_SEE 2
#define ARGP_ERR_UNKNOWN 7

typedef int error_t;

struct argp_state {
	const char *name;
};

struct argp_option {
	const char *name;
	int key;
	const char *arg;
	int flags;
	const char *doc;
	int group;
};

struct argp {
	const struct argp_option *options;
	error_t (*parser)(int key, char *arg, struct argp_state *state);
	const char *args_doc;
	const char *doc;
	const void *children, *help_filter, *argp_domain;
};

void argp_help(const struct argp *argp, FILE *stream, unsigned int flags, char *name);

#endif
