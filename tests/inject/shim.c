// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * What the library calls, through the linker's --wrap (mk/fuzz.mk has the same list): libc, libbpf
 * and libmnl go on as they are, and the library has no hooks.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <libmnl/libmnl.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include "shim.h"

static __thread struct {
	bool armed;
	unsigned k, n;
	const char *failed;
} now;
static long blocks;
static unsigned first_error;

void inject_seed(unsigned seed)
{
	first_error = seed;
}

void inject_arm(unsigned k)
{
	now.armed = true;
	now.k = k;
	now.n = 0;
	now.failed = NULL;
}

unsigned inject_end(const char **name)
{
	now.armed = false;
	*name = now.failed;
	return now.n;
}

long inject_blocks(void)
{
	return __atomic_load_n(&blocks, __ATOMIC_RELAXED);
}

/* Does this call fail? With each k and seed another of the errors that stand for a want of something. */
static bool hit(const char *name, bool memory)
{
	static const int errors[] = { ENOMEM, EMFILE, ENOSPC, E2BIG, EPERM };

	if (!now.armed || ++now.n != now.k)
		return false;
	now.failed = name;
	errno = memory ? ENOMEM
		       : errors[(now.k + first_error) % (sizeof(errors) / sizeof(errors[0]))];
	return true;
}

#define WRAP(ret, name, params, args, failure) \
	ret __real_##name params;              \
	ret __wrap_##name params;              \
	ret __wrap_##name params               \
	{                                      \
		if (hit(#name, false))         \
			return failure;        \
		return __real_##name args;     \
	}

WRAP(void *, mmap, (void *a, size_t n, int p, int f, int fd, off_t o), (a, n, p, f, fd, o),
     MAP_FAILED)
WRAP(ssize_t, process_vm_readv,
     (pid_t p, const struct iovec *l, unsigned long n, const struct iovec *r, unsigned long m,
      unsigned long f),
     (p, l, n, r, m, f), -1)
WRAP(int, socket, (int d, int t, int p), (d, t, p), -1)
WRAP(int, bind, (int fd, const struct sockaddr *a, socklen_t n), (fd, a, n), -1)
WRAP(int, listen, (int fd, int n), (fd, n), -1)
WRAP(int, connect, (int fd, const struct sockaddr *a, socklen_t n), (fd, a, n), -1)
WRAP(int, accept4, (int fd, struct sockaddr *a, socklen_t *n, int f), (fd, a, n, f), -1)
WRAP(int, setsockopt, (int fd, int l, int o, const void *v, socklen_t n), (fd, l, o, v, n), -1)
WRAP(int, getsockname, (int fd, struct sockaddr *a, socklen_t *n), (fd, a, n), -1)
WRAP(int, getpeername, (int fd, struct sockaddr *a, socklen_t *n), (fd, a, n), -1)
WRAP(ssize_t, send, (int fd, const void *b, size_t n, int f), (fd, b, n, f), -1)
WRAP(ssize_t, write, (int fd, const void *b, size_t n), (fd, b, n), -1)
WRAP(int, epoll_create1, (int f), (f), -1)
WRAP(int, epoll_ctl, (int e, int o, int fd, struct epoll_event *ev), (e, o, fd, ev), -1)
WRAP(int, eventfd, (unsigned n, int f), (n, f), -1)
WRAP(int, timerfd_create, (int c, int f), (c, f), -1)
WRAP(int, pipe2, (int *fd, int f), (fd, f), -1)
WRAP(int, memfd_create, (const char *n, unsigned f), (n, f), -1)
WRAP(int, mkdir, (const char *p, mode_t m), (p, m), -1)
WRAP(int, mkdirat, (int fd, const char *p, mode_t m), (fd, p, m), -1)
WRAP(int, flock, (int fd, int how), (fd, how), -1)
WRAP(int, setns, (int fd, int t), (fd, t), -1)
WRAP(FILE *, fopen, (const char *p, const char *m), (p, m), NULL)
WRAP(DIR *, opendir, (const char *p), (p), NULL)
WRAP(int, getaddrinfo,
     (const char *h, const char *s, const struct addrinfo *i, struct addrinfo **r), (h, s, i, r),
     EAI_MEMORY)
WRAP(int, pthread_create, (pthread_t * t, const pthread_attr_t *a, void *(*f)(void *), void *p),
     (t, a, f, p), EAGAIN)
WRAP(int, bpf_map_create,
     (enum bpf_map_type t, const char *n, __u32 k, __u32 v, __u32 m,
      const struct bpf_map_create_opts *o),
     (t, n, k, v, m, o), -errno)
WRAP(int, bpf_map_update_elem, (int fd, const void *k, const void *v, __u64 f), (fd, k, v, f),
     -errno)
WRAP(int, bpf_map_lookup_elem, (int fd, const void *k, void *v), (fd, k, v), -errno)
WRAP(int, bpf_obj_pin, (int fd, const char *p), (fd, p), -errno)
WRAP(int, bpf_obj_get_info_by_fd, (int fd, void *i, __u32 *n), (fd, i, n), -errno)
WRAP(int, bpf_link_create,
     (int p, int t, enum bpf_attach_type a, const struct bpf_link_create_opts *o), (p, t, a, o),
     -errno)
WRAP(int, bpf_object__open_skeleton,
     (struct bpf_object_skeleton * s, const struct bpf_object_open_opts *o), (s, o), -errno)
WRAP(struct mnl_socket *, mnl_socket_open2, (int b, int f), (b, f), NULL)
WRAP(int, mnl_socket_bind, (struct mnl_socket * s, unsigned g, pid_t p), (s, g, p), -1)
WRAP(ssize_t, mnl_socket_sendto, (const struct mnl_socket *s, const void *b, size_t n), (s, b, n),
     -1)

/* Variable arguments: as many as the library ever passes. */
#define WRAP_OPEN(name, first, arg)                             \
	int __real_##name(first const char *p, int flags, ...); \
	int __wrap_##name(first const char *p, int flags, ...); \
	int __wrap_##name(first const char *p, int flags, ...)  \
	{                                                       \
		if (hit(#name, false))                          \
			return -1;                              \
		return __real_##name(arg p, flags);             \
	}
#define COMMA ,
WRAP_OPEN(open, , )
WRAP_OPEN(openat, int fd COMMA, fd COMMA)

int __real_ioctl(int fd, unsigned long cmd, void *arg);
int __wrap_ioctl(int fd, unsigned long cmd, void *arg);
int __wrap_ioctl(int fd, unsigned long cmd, void *arg)
{
	return hit("ioctl", false) ? -1 : __real_ioctl(fd, cmd, arg);
}

long __real_syscall(long nr, long a, long b, long c, long d, long e, long f);
long __wrap_syscall(long nr, long a, long b, long c, long d, long e, long f);
long __wrap_syscall(long nr, long a, long b, long c, long d, long e, long f)
{
	return hit("syscall", false) ? -1 : __real_syscall(nr, a, b, c, d, e, f);
}

/* ---- memory, which is counted as well ---- */

static void *got(void *p)
{
	if (p)
		__atomic_fetch_add(&blocks, 1, __ATOMIC_RELAXED);
	return p;
}

void *__real_malloc(size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_malloc(size_t n)
{
	return hit("malloc", true) ? NULL : got(__real_malloc(n));
}

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size)
{
	return hit("calloc", true) ? NULL : got(__real_calloc(n, size));
}

void __real_free(void *p);
void __wrap_free(void *p);
void __wrap_free(void *p)
{
	if (p)
		__atomic_fetch_sub(&blocks, 1, __ATOMIC_RELAXED);
	__real_free(p);
}

/* libbpf frees what the skeleton's inline functions have allocated. */
void __real_bpf_object__destroy_skeleton(struct bpf_object_skeleton *s);
void __wrap_bpf_object__destroy_skeleton(struct bpf_object_skeleton *s);
void __wrap_bpf_object__destroy_skeleton(struct bpf_object_skeleton *s)
{
	if (s)
		__atomic_fetch_sub(&blocks, 1 + !!s->maps + !!s->progs, __ATOMIC_RELAXED);
	__real_bpf_object__destroy_skeleton(s);
}

/*
 * What the verifier walks takes a second. Where it is of no matter what a program does, each is
 * loaded as two instructions that name a map, by which weft knows its own.
 */
static struct bpf_object *loading;
static int shorter[3];

static int shorten(struct bpf_program *prog, struct bpf_prog_load_opts *opts, long cookie)
{
	struct bpf_map *cfg = bpf_object__find_map_by_name(loading, "devcfg");
	struct bpf_insn pass[] = {
		{ .code = BPF_LD | BPF_DW | BPF_IMM, .src_reg = BPF_PSEUDO_MAP_FD },
		{ 0 },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .imm = 2 /* XDP_PASS */ },
		{ .code = BPF_JMP | BPF_EXIT },
	};

	(void)cookie;
	pass[0].imm = bpf_map__fd(cfg);
	opts->func_info_cnt = opts->line_info_cnt = 0;
	return bpf_program__set_insns(prog, pass, sizeof(pass) / sizeof(pass[0]));
}

void inject_short_programs(bool on)
{
	static const struct {
		const char *sec;
		enum bpf_attach_type type;
	} of[] = { { "xdp", BPF_XDP },
		   { "xdp/devmap", BPF_XDP_DEVMAP },
		   { "xdp/cpumap", BPF_XDP_CPUMAP } };
	LIBBPF_OPTS(libbpf_prog_handler_opts, opts, .prog_prepare_load_fn = shorten);

	for (size_t i = 0; i < sizeof(of) / sizeof(of[0]); i++)
		if (on)
			shorter[i] = libbpf_register_prog_handler(of[i].sec, BPF_PROG_TYPE_XDP,
								  of[i].type, &opts);
		else
			libbpf_unregister_prog_handler(shorter[i]);
}

int __real_bpf_object__load_skeleton(struct bpf_object_skeleton *s);
int __wrap_bpf_object__load_skeleton(struct bpf_object_skeleton *s);
int __wrap_bpf_object__load_skeleton(struct bpf_object_skeleton *s)
{
	if (hit("bpf_object__load_skeleton", false))
		return -errno;
	loading = *s->obj;
	return __real_bpf_object__load_skeleton(s);
}
