/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the files of weftd share: configuration, devices it holds, processes it serves. */
#ifndef WEFTD_H
#define WEFTD_H

#include <stdio.h>
#include <string.h>
#include <sys/queue.h>

#include "daemon_wire.h"
#include "device.h"

#define WEFTD_CONF "/etc/weft/weftd.conf"

/* ---- conf.c ---- */

struct quota {           /* of a user, on all devices together; share: of each */
	uint64_t memory; /* bytes in pools and receive queues */
	uint32_t qps, regions, processes;
	uint32_t share; /* of a device's tokens, percent */
};

struct conf_device {
	char ifname[IF_NAMESIZE];
	struct weft_open_opts opts;
};

struct conf_rule { /* the first that matches counts */
	enum { RULE_USER, RULE_GROUP, RULE_ALL } kind;
	uint32_t id;
	struct quota q;
};

#define CONF_MAX 64
struct conf {
	unsigned ndevices, nrules;
	struct conf_device device[CONF_MAX];
	struct conf_rule rule[CONF_MAX];
};

/* 0, or -errno after a message that names file and line. */
int conf_read(const char *path, struct conf *c);

/* ---- held.c: devices ---- */

struct held { /* an open device */
	struct weft_dev *dev;
	unsigned refs; /* atomic */
};

struct served { /* a device of the configuration */
	LIST_ENTRY(served) link;
	struct conf_device conf;
	pthread_mutex_t lock;
	struct held *held; /* NULL: could not be opened yet */
};

int held_configure(const struct conf *c); /* at start, and when the configuration has changed */
/* The device, opened if need be, with a reference. back: not instead of one that was lost. */
int held_get(const char *ifname, bool back, struct held **out);
void held_put(struct held *h);
/* Each device that is open, with its lock held. */
void held_each(void (*fn)(struct served *s, void *arg), void *arg);
void held_tidy(void); /* now and then */
void held_close_all(void);

/* ---- proc.c: processes ---- */

struct peer { /* who is at the other end of a connection */
	uint32_t uid, pid;
	struct quota q;
	bool allowed, same_ns;
};

struct proc { /* a process in its slot on a device */
	LIST_ENTRY(proc) link;
	struct held *held;
	struct weft_dev dev; /* held->dev, but with the slot, pid and uid of this process */
	uint64_t token[2];
	unsigned conns;
	int guard_fd;   /* while it is served its slot is nobody else's */
	bool came_back; /* from another weftd: proc_routes() has something to do */
	bool left;
	struct quota q;
	pthread_mutex_t lock;               /* objects are looked at and changed in one */
	uint32_t graced[WEFT_QPS_MAX / 32]; /* closed QPs that have had their grace period */
};

/* A user in messages: by name, or by number if there is none. */
struct user_name {
	char text[48];
};
const char *user_name(uint32_t uid, struct user_name *n);

int proc_hello(const struct peer *peer, const struct weftd_hello *h, struct weftd_welcome *w,
	       int fds[WEFTD_FDS], unsigned *nfds, struct proc **out);
void proc_bye(struct proc *p);   /* a connection of it has ended */
void proc_leave(struct proc *p); /* it gives its slot up */
void proc_routes(struct proc *p);

/* What the user has now, on all devices. */
struct usage {
	uint64_t memory;
	uint32_t qps, regions, cqs, rqs, processes;
};
void usage_of(uint32_t uid, struct usage *u);
/* Memory that is being made, and is in no table yet. */
int usage_reserve(uint32_t uid, uint64_t bytes, uint64_t limit);
void usage_release(uint32_t uid, uint64_t bytes);

/* liveness.c: a socket for the slot with which its holder can send nothing. Descriptor or -errno. */
int liveness_new(struct weft_dev *dev);

/* ---- ops.c ---- */

/* Carry out m for p, reply in m->u. fd: came along, -1; *out: goes back, -1. 0 or -errno. */
int ops_run(struct proc *p, struct weftd_msg *m, int fd, int *out);
/* Windows of the user's QPs on the device, so that together they are within the share. */
void ops_share(struct weft_dev *dev, uint32_t uid, uint32_t share);

/* ---- serve.c ---- */

int serve_listen(const char *path); /* the socket, -errno after a message */
void serve_accept(int fd);
void serve_end(void);                       /* all connections */
void serve_configure(const struct conf *c); /* quotas for who comes from now on */

#endif
