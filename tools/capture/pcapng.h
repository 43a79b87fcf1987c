/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Writes capture files of the format pcapng (draft-ietf-opsawg-pcapng): one section, Ethernet, nanoseconds. */
#ifndef WEFT_CAPTURE_PCAPNG_H
#define WEFT_CAPTURE_PCAPNG_H

#include <stdint.h>
#include <stdio.h>

enum pcapng_dir { PCAPNG_DIR_NONE, PCAPNG_DIR_IN, PCAPNG_DIR_OUT };

struct pcapng_packet {
	uint32_t iface; /* by the order of pcapng_interface() */
	enum pcapng_dir dir;
	uint64_t ns;  /* since 1970 */
	uint32_t len; /* of the packet */
	uint32_t cap; /* of data */
	const void *data;
	int64_t verdict;     /* XDP action, or -1: unknown */
	const char *comment; /* or NULL */
};

/* Each returns 0, or -1 with errno set; errors of a buffered stream may show with a later call. */
int pcapng_begin(FILE *f, const char *program);
int pcapng_interface(FILE *f, const char *name, const char *description, uint32_t snap);
int pcapng_packet(FILE *f, const struct pcapng_packet *p);
/* What became of the packets of an interface, at the end of its capture. */
int pcapng_statistics(FILE *f, uint32_t iface, uint64_t start_ns, uint64_t end_ns, uint64_t seen,
		      uint64_t lost);

#endif
