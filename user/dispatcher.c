/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* libxdp's dispatcher: finding a program that it runs, joining it, leaving it. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <string.h>
#include <bpf/libbpf.h>
#include <xdp/libxdp.h>

#include "dispatcher.h"

static int be_silent(enum libxdp_print_level level, const char *fmt, va_list ap)
{
	(void)level;
	(void)fmt;
	(void)ap;
	return 0;
}

/* libxdp has one printer for all threads: the application's comes back before another of us takes it. */
static pthread_mutex_t silence = PTHREAD_MUTEX_INITIALIZER;

static libxdp_print_fn_t begin_silence(void)
{
	pthread_mutex_lock(&silence);
	return libxdp_set_print(be_silent);
}

static void end_silence(libxdp_print_fn_t old)
{
	libxdp_set_print(old);
	pthread_mutex_unlock(&silence);
}

/* NULL: the interface has no dispatcher. */
static struct xdp_multiprog *open_dispatcher(int ifindex)
{
	struct xdp_multiprog *mp = xdp_multiprog__get_from_ifindex(ifindex);

	if (libxdp_get_error(mp))
		return NULL;
	if (!xdp_multiprog__is_legacy(mp))
		return mp;
	xdp_multiprog__close(mp);
	return NULL;
}

int weft_disp_find(int ifindex, const char *name, int (*mine)(int prog_fd, const void *arg),
		   const void *arg)
{
	libxdp_print_fn_t old = begin_silence();
	struct xdp_multiprog *mp = open_dispatcher(ifindex);
	struct xdp_program *p = NULL;
	int fd = mp ? -ENOENT : -ESRCH;

	while (mp && fd < 0 && (p = xdp_multiprog__next_prog(p, mp)))
		if (!strcmp(xdp_program__name(p), name) && mine(xdp_program__fd(p), arg))
			fd = fcntl(xdp_program__fd(p), F_DUPFD_CLOEXEC, 0);
	if (mp)
		xdp_multiprog__close(mp);
	end_silence(old);
	return fd;
}

int weft_disp_attach(struct bpf_object *obj, const char *name, int ifindex)
{
	libxdp_print_fn_t old = begin_silence();
	DECLARE_LIBXDP_OPTS(xdp_program_opts, opts, .obj = obj, .prog_name = name);
	struct xdp_program *p = xdp_program__create(&opts);
	int err = libxdp_get_error(p);

	if (!err) {
		err = xdp_program__attach(p, ifindex, XDP_MODE_NATIVE, 0);
		xdp_program__close(p); /* the object stays the caller's */
	}
	end_silence(old);
	return err;
}

int weft_disp_detach(int ifindex, uint32_t prog_id)
{
	libxdp_print_fn_t old = begin_silence();
	struct xdp_program *p = xdp_program__from_id(prog_id);
	int err = libxdp_get_error(p);

	if (!err) {
		err = xdp_program__detach(p, ifindex, XDP_MODE_NATIVE, 0);
		xdp_program__close(p);
	}
	end_silence(old);
	return err;
}
