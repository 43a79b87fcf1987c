// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* weft down, unpin, dev flush: taking away what is on interfaces, or left of it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "internal.h"

static const char down_help[] =
	"usage: weft down DEV\n"
	"\n"
	"Remove everything weft has put on DEV, used or not. A program that another loader attached\n"
	"stays attached and passes everything: that is for its loader to unload.\n";

static const char unpin_help[] =
	"usage: weft unpin DEV [ -j ]\n"
	"\n"
	"Remove what is left of weft in /sys/fs/bpf for DEV after a crash, an upgrade or an unload.\n"
	"A device that works, or that a process still uses, is left alone: that is 'weft down'.\n";

/* That there was nothing is worth a line, but what was asked for is so. */
static int taken_away(const char *name, int err)
{
	if (err)
		cli_lib_fail(name, err);
	return err && err != -ENOENT ? CLI_FAIL : CLI_OK;
}

int cmd_down(int argc, char **argv)
{
	int rc = cli_common("down", down_help, &argc, &argv);
	const char *name;

	if (rc >= 0)
		return rc;
	rc = cli_dev_arg("down", argc, argv, true, &name);
	return rc >= 0 ? rc : taken_away(name, weft_down(name, NULL));
}

static struct json_object *flushed; /* NULL: print text */

static void print_flushed(const char *dir)
{
	struct json_object *o;

	if (!flushed) {
		printf("removed %s\n", dir);
		return;
	}
	o = json_object_new_object();
	cli_add_str(o, "pins", dir);
	json_object_array_add(flushed, o);
}

int dev_flush(void)
{
	int n;

	flushed = cli.json ? json_object_new_array() : NULL;
	n = weft_flush(print_flushed);
	if (n >= 0)
		return flushed ? cli_print(flushed) : CLI_OK;
	json_object_put(flushed);
	return cli_fail("/sys/fs/bpf/weft", "%s; run as root", strerror(-n));
}

int cmd_unpin(int argc, char **argv)
{
	int rc = cli_common("unpin", unpin_help, &argc, &argv);
	const char *name;

	if (rc >= 0)
		return rc;
	rc = cli_dev_arg("unpin", argc, argv, true, &name);
	if (rc >= 0)
		return rc;
	flushed = cli.json ? json_object_new_array() : NULL;
	rc = taken_away(name, weft_unpin(name, print_flushed));
	if (!rc && flushed)
		return cli_print(flushed);
	json_object_put(flushed);
	return rc;
}
