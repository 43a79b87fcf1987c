// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Runs the fixtures: weft-bpf-test [PATTERN]. Exit 2: no such test; 3: the object does not load. */
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <bpf/libbpf.h>

#include "fixture.h"

#define INSNS_MAX 700000 /* the kernel's limit is a million */
#define TESTS_MAX 512

static int too_costly;

static void verifier_line(const char *name, uint32_t insns)
{
	printf("# verifier: %s %u\n", name, insns);
	if (!insns || insns > INSNS_MAX)
		too_costly++;
}

/* A step of the datapath may grow; it may not creep up to the limit unseen. */
static void verifier__cost(void **state)
{
	(void)state;
	assert_int_equal(fx_verifier(verifier_line), 0);
	assert_int_equal(too_costly, 0);
}

static const struct CMUnitTest cost_tests[] = { cmocka_unit_test(verifier__cost), FX_END };

/* libbpf tries again by itself without BTF for inner maps, and says so. */
static int quiet(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	if (level != LIBBPF_WARN || strstr(fmt, "Retrying without BTF"))
		return 0;
	return vfprintf(stderr, fmt, ap);
}

static int usage(const char *what, const char *why)
{
	fprintf(stderr, "weft: %s: %s\n", what, why);
	return 2;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest *groups[] = {
		cost_tests,       fx_tests_parse, fx_tests_admit,  fx_tests_target,
		fx_tests_place,   fx_tests_ack,   fx_tests_fill,   fx_tests_bell,
		fx_tests_score,   fx_tests_grow,  fx_tests_share,  fx_tests_wait,
		fx_tests_turn,    fx_tests_alone, fx_tests_resize, fx_tests_capture,
		fx_tests_small,   fx_tests_tele,  fx_tests_ask,    fx_tests_refuse,
		fx_tests_reply,   fx_tests_post,  fx_tests_recv,   fx_tests_shared,
		fx_tests_badrecv, fx_tests_rnr,   fx_tests_takes,  fx_tests_strict,
		fx_tests_deep,
	};
	static struct CMUnitTest all[TESTS_MAX];
	int n = 0, err;

	/* no test is left out in silence, nor does a pattern that fits none pass */
	for (size_t g = 0; g < sizeof(groups) / sizeof(groups[0]); g++) {
		for (const struct CMUnitTest *t = groups[g]; t->test_func; t++) {
			if (argc > 1 && fnmatch(argv[1], t->name, 0))
				continue;
			if (n == TESTS_MAX)
				return usage("TESTS_MAX", "there are more tests; raise it");
			all[n++] = *t;
		}
	}
	if (!n)
		return usage(argv[1], "no test is named so; quote a pattern such as 'grow__*'");
	libbpf_set_print(quiet);
	err = fx_load();
	if (err) {
		fprintf(stderr, "weft: weft.bpf.o: cannot load: %s; run as root\n", strerror(-err));
		return 3;
	}
	err = _cmocka_run_group_tests("bpf", all, n, NULL, NULL);
	fx_unload();
	return err ? 1 : 0;
}
