/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Reads the copies of frames that XDP programs put into a perf event array, in the order of their times. */
#ifndef WEFT_CAPTURE_READER_H
#define WEFT_CAPTURE_READER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <weft/capture.h>

struct capture;

#define CAPTURE_ROOM_MIN (64u << 10)
#define CAPTURE_ROOM_MAX (1u << 30)

/* Called for each record. Not 0: stop reading behind it, capture_read() returns that. */
typedef int (*capture_fn)(void *arg, const struct weft_cap_rec *rec);

/*
 * Listen on the perf event array of this descriptor, as long as that is open: whatever
 * ends the process ends the capture. room: bytes for all CPUs together, rounded
 * down so that each has a power of 2 pages, at least CAPTURE_ROOM_MIN. 0 or -errno.
 */
int capture_open(struct capture **out, int map_fd, size_t room, capture_fn fn, void *arg);
/*
 * Hand on what has come, except, without `all`, what came just now: something older may still be
 * on its way from another CPU. How many records, -errno, or what fn returned if that was not 0.
 */
int capture_read(struct capture *c, bool all);
void capture_close(struct capture *c);

/* What to add to a record's time to get nanoseconds since 1970. */
uint64_t capture_epoch(void);
/* A record as a packet of a pcapng file; as pcapng_packet(). */
int capture_write(FILE *f, const struct weft_cap_rec *rec, uint64_t epoch, const char *comment);

#endif
