/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the files share that find, set up, keep and take down weft on an interface. */
#ifndef WEFT_USER_DEVICE_H
#define WEFT_USER_DEVICE_H

#include "internal.h"
#include "teardown.h"

#define WEFT_OPEN_LOCK_MS \
	20000 /* patience at the door: others may be loading, one after the other */

/* dev.c: a handle with its names and its namespace. */
int weft_dev_new(const char *ifname, const struct weft_open_opts *opts, struct weft_dev **out);
void weft_dev_free(struct weft_dev *dev);

/* dev_opts.c: those of weft_open(), whole; and whether they make sense. */
int weft_dev_opts(const char *ifname, const struct weft_open_opts *in, struct weft_open_opts *o);
int weft_dev_check_opts(const char *ifname, const struct weft_open_opts *o);

/* dev.c: rings of the slot, published; and mapped here. */
int weft_dev_open_rings(struct weft_dev *dev);
int weft_dev_map_rings(struct weft_dev *dev);
void weft_dev_drop_fds(struct weft_dev *dev);
int weft_dev_enter_direct(struct weft_dev *dev, const struct weft_open_opts *opts);
void weft_dev_leave_direct(struct weft_dev *dev);

/* ctl_link.c: as in struct weft_priv */
bool weft_link_runs_program(struct weft_dev *dev);
void weft_link_doorbell_up(struct weft_dev *dev);

/* remote.c: where weftd is that these options ask for; NULL: the work is done in this process. */
const char *weft_daemon_path(const struct weft_open_opts *opts);

/* netns.c: descriptor and inode of the namespace that opts name. */
int weft_ns_open(struct weft_dev *dev, const char *netns);

/* link.c: bring the doorbell up, silent but for doorbells. */
int weft_link_up(const char *ifname);

/* xdp_why.c: why the interface refuses the program, in the kernel's words; "": it does not say. */
void weft_xdp_why(int ifindex, int prog_fd, char *why, size_t len);
/* xdp_remedy.c: " (what is so); what the user can do about it". */
struct weft_xdp_facts {
	const char *ifname;
	uint32_t mtu, rx, rx_max;   /* its MTU; receive queues, and how many it can have */
	const char *peer;           /* a veth's other end, "": not known or no veth */
	uint32_t peer_mtu, peer_tx; /* its transmit queues: as many as it can have */
};
void weft_xdp_remedy(const char *why, const struct weft_xdp_facts *f, char *remedy, size_t len);

/* pins.c */
int weft_pins_enter(struct weft_dev *dev,
		    int timeout_ms); /* the door; token for weft_pins_exit() */
void weft_pins_exit(struct weft_dev *dev, int token);
int weft_pins_flock(int fd, int how, int timeout_ms);
int weft_pins_open_maps(struct weft_dev *dev);
void weft_pins_no_maps(struct weft_dev *dev); /* a handle without maps: before anything else */
void weft_pins_close_maps(struct weft_dev *dev);
/* How many rings a process gets that asks for so many QPs (weft_open_opts). */
uint32_t weft_pins_rings(const struct weft_dev *dev, uint32_t qps);
int weft_pins_take_slot(struct weft_dev *dev); /* with dead ones cleaned up on the way */
int weft_pins_take_slot(struct weft_dev *dev); /* with dead ones cleaned up on the way */
/* Can what is asked for be had? Who came first has decided. */
int weft_pins_check_opts(struct weft_dev *dev, const struct weft_open_opts *opts);
/* guard.c: lock the directory <kind><slot> among the pins: its descriptor, or -errno. */
int weft_pins_lock_slot(struct weft_dev *dev, char kind, uint32_t slot, bool make);
/* weftd's own lock on the slot, with weft_pins_lock() or before anybody has the slot's. */
int weft_pins_lock_slot(struct weft_dev *dev, char kind, uint32_t slot,
			bool make); /* its descriptor, or -errno */
int weft_pins_guard(struct weft_dev *dev, uint32_t slot, bool make);
bool weft_pins_guarded(struct weft_dev *dev, uint32_t slot);
void weft_pins_unserve(
	struct weft_dev *dev); /* nobody is served: the device need not stay for that */
bool weft_pins_slot_taken(struct weft_dev *dev, uint32_t slot); /* its process lives */
void weft_pins_drop_slot(struct weft_dev *dev);

/* rename.c: in the namespace. pin_dir: of the interface's former name, when there is one */
void weft_rename_follow(struct weft_dev *dev);
/* Do the pins belong to another, which had our name? -EBUSY; else 0, or 1: to one that is gone. */
int weft_rename_check(struct weft_dev *dev);
void weft_rename_doorbell(const struct weft_dev *dev); /* before it is removed: is it here? */

struct weft_nic_prog;
struct weft_bpf;
/* adopt.c: in the namespace. Does the interface run the program of these pins? */
bool weft_attach_is_on(const char *dir, const struct weft_link *link);
/* Behind the door: */
/* Is what is pinned what this library and this interface need? NULL: yes, else why not. */
const char *weft_attach_stale(const struct weft_dev *dev, const struct weft_link *link);
/*
 * Before anything is made: say what is plain already, and find what the interface runs; the
 * caller closes found. Touches nothing.
 */
int weft_attach_check(struct weft_dev *dev, const struct weft_link *link,
		      struct weft_nic_prog *found);
/* attach.c: the same, with pin_dir made and locked. */
int weft_attach(struct weft_dev *dev, const struct weft_open_opts *opts,
		const struct weft_link *link, const struct weft_nic_prog *found);

/* Entries of the devmaps and the cpumap with the programs of skel; db: doorbell. */
int weft_fill_ways_out(struct weft_dev *dev, struct weft_bpf *skel, int db);

/* replace.c: behind the door. */
int weft_replace_programs(struct weft_dev *dev, const struct weft_link *link);

/*
 * reaper_spawn.c: start the process that takes the device down after its last
 * user. It sleeps until *go is written to or closed, then waits for the users.
 */
int weft_reaper_start(struct weft_dev *dev, int *go);

/* doorbell.c, in the namespace: */
int weft_doorbell_create(struct weft_dev *dev); /* the tap; its ifindex */
int weft_doorbell_open(struct weft_dev *dev);   /* this process's queue of it */
void weft_doorbell_lost(struct weft_dev *dev);  /* it left the namespace */
void weft_doorbell_keep(struct weft_dev *dev);  /* it stays without users */

#endif
