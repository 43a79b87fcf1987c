// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Load every program of BPF objects and print how much work each was for the verifier. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

/* One line a program: object, program, instructions, instructions the verifier walked. */
static int print_programs(const char *path, struct bpf_object *obj)
{
	const char *base = strrchr(path, '/');
	struct bpf_program *prog;
	int n = 0;

	bpf_object__for_each_program(prog, obj) {
		struct bpf_prog_info info = { 0 };
		__u32 len = sizeof(info);
		int fd = bpf_program__fd(prog);

		if (fd < 0)
			continue;
		if (bpf_obj_get_info_by_fd(fd, &info, &len))
			return -errno;
		printf("%s %s %zu %u\n", base ? base + 1 : path, bpf_program__name(prog),
		       bpf_program__insn_cnt(prog), info.verified_insns);
		n++;
	}
	return n ? 0 : -ENOENT;
}

static int load_object(const char *path)
{
	struct bpf_object *obj = bpf_object__open(path);
	int err;

	if (!obj)
		return -errno;
	err = bpf_object__load(obj);
	if (!err)
		err = print_programs(path, obj);
	bpf_object__close(obj);
	return err;
}

int main(int argc, char **argv)
{
	int status = 0;

	if (argc < 2) {
		fprintf(stderr, "usage: progload OBJECT...\n");
		return 2;
	}
	libbpf_set_strict_mode(LIBBPF_STRICT_ALL);
	for (int i = 1; i < argc; i++) {
		int err = load_object(argv[i]);

		if (err) {
			fprintf(stderr,
				"weft: %s: does not load: %s; see the verifier's log above\n",
				argv[i], strerror(-err));
			status = 1;
		}
	}
	return status;
}
