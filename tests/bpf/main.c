// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Runs the fixtures: weft-bpf-test [PATTERN], or for mutate.sh --mutants NUMBER=TEST... Exit 2: no such test; 3:
 * the object does not load. */
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
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

static struct CMUnitTest all[TESTS_MAX];

/* Into all[]: the tests whose names fit. No test is left out in silence, nor does a pattern that fits none pass. */
static int pick(const char *pattern)
{
	static const struct CMUnitTest *const groups[] = {
		cost_tests,       fx_tests_wake,    fx_tests_parse, fx_tests_admit,
		fx_tests_target,  fx_tests_place,   fx_tests_ack,   fx_tests_fill,
		fx_tests_bell,    fx_tests_score,   fx_tests_grow,  fx_tests_share,
		fx_tests_wait,    fx_tests_turn,    fx_tests_alone, fx_tests_resize,
		fx_tests_capture, fx_tests_small,   fx_tests_tele,  fx_tests_ask,
		fx_tests_refuse,  fx_tests_reply,   fx_tests_post,  fx_tests_recv,
		fx_tests_shared,  fx_tests_badrecv, fx_tests_rnr,   fx_tests_takes,
		fx_tests_strict,  fx_tests_deep,    fx_tests_many,  fx_tests_join,
		fx_tests_repair,  fx_tests_bulk,
	};
	int n = 0;

	for (size_t g = 0; g < sizeof(groups) / sizeof(groups[0]); g++) {
		for (const struct CMUnitTest *t = groups[g]; t->test_func; t++) {
			if (fnmatch(pattern, t->name, 0))
				continue;
			if (n == TESTS_MAX)
				return -usage("TESTS_MAX", "there are more tests; raise it");
			all[n++] = *t;
		}
	}
	return n ? n : -usage(pattern, "no test is named so; quote a pattern such as 'grow__*'");
}

/* NUMBER=TEST: is TEST green, and red with mutation NUMBER? */
static int try_mutant(const char *arg)
{
	unsigned long number = strtoul(arg, NULL, 10);
	const char *test = strchr(arg, '=');
	int n = test ? pick(test + 1) : -usage(arg, "not NUMBER=TEST"), was, now;

	if (n < 0)
		return -n;
	if (fx_mutate(0))
		return 3;
	was = _cmocka_run_group_tests("bpf", all, n, NULL, NULL);
	if (fx_mutate(number))
		return 3;
	now = _cmocka_run_group_tests("bpf", all, n, NULL, NULL);
	printf("\nmutant %lu: %s, %s\n", number, was ? "red" : "green", now ? "red" : "green");
	fflush(stdout);
	return 0;
}

/* Each in a process of its own: a test that is red may leave threads. The programs and maps are the same. */
static int try_mutants(char **args)
{
	int rc = 0, status;

	for (; !rc && *args; args++) {
		pid_t pid = fork();

		if (!pid)
			_exit(try_mutant(*args));
		if (pid < 0 || waitpid(pid, &status, 0) != pid)
			return 3;
		rc = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
	}
	return rc;
}

int main(int argc, char **argv)
{
	int mutants = argc > 1 && !strcmp(argv[1], "--mutants"), n = 0, err;

	if (!mutants)
		n = pick(argc > 1 ? argv[1] : "*");
	if (n < 0)
		return -n;
	libbpf_set_print(quiet);
	err = fx_load();
	if (err) {
		fprintf(stderr, "weft: weft.bpf.o: cannot load: %s; run as root\n", strerror(-err));
		return 3;
	}
	if (mutants)
		err = try_mutants(argv + 2);
	else
		err = _cmocka_run_group_tests("bpf", all, n, NULL, NULL) ? 1 : 0;
	fx_unload();
	return err;
}
