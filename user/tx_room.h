/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the transmit queues of a NIC bear: asked by who attaches and by `weft dev show`. */
#ifndef WEFT_TX_ROOM_H
#define WEFT_TX_ROOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Tokens of a domain out at once. A veth's ring holds 256 frames for all QPs of a
 * queue together; other drivers tell theirs, or these are the limits.
 */
#define WEFT_VETH_BUDGET 96
#define WEFT_VETH_HARD   120
#define WEFT_NIC_BUDGET  512
#define WEFT_NIC_HARD    1024

struct weft_tx_room {
	char driver[32];     /* "": not told */
	unsigned cpus;       /* online, or for virtio_net possible: it reckons with those */
	unsigned rx, queues; /* receive and transmit channels in use; 0: not told */
	unsigned most;       /* the most transmit channels that there can be */
	unsigned ring;       /* frames that a queue holds, the lesser of both ways; 0: not told */
	bool combined;       /* channels are for both ways */
};

void weft_tx_room_ask(const char *ifname, unsigned cpus, struct weft_tx_room *r);

/* So weft was attached: some drivers now count the queues that they use for XDP as well. */
void weft_tx_room_attached(struct weft_tx_room *r, bool shared);

/*
 * Of an interface that has XDP, not by weft: virtio_net counts the queues for it among the others, and
 * with these numbers it has either those or none, and then the kernel crashes (see below).
 */
bool weft_tx_room_unsure(const struct weft_tx_room *r);

/* Must CPUs share a transmit queue with others, or with the stack? */
bool weft_tx_room_shared(const struct weft_tx_room *r);

/*
 * Would the kernel crash with the first packet? virtio_net takes more channels than
 * CPUs as a sign that it has queues for XDP, and sends on one that is not there.
 */
bool weft_tx_room_crashes(const struct weft_tx_room *r);

/* Tokens that a domain may have out, see struct weft_devcfg. */
void weft_tx_room_budget(const struct weft_tx_room *r, uint32_t *budget, uint32_t *hard);

/* In words, with a remedy where they are shared. */
void weft_tx_room_why(const struct weft_tx_room *r, const char *ifname, char *why, size_t len);

#endif
