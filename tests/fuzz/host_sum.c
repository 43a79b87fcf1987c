// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* bpf_csum_diff() for the host. */
#include <errno.h>
#include <string.h>

#include <bpf/bpf_helpers.h>

#include "fuzz.h"

__s64 bpf_csum_diff(__be32 *from, __u32 from_size, __be32 *to, __u32 to_size, __wsum seed)
{
	__u64 sum = seed;

	no_lock(__func__);
	if (from || from_size || to_size % 4 || to_size > 512)
		return -EINVAL;
	for (__u32 i = 0; i < to_size / 4; i++) {
		__u32 w;

		memcpy(&w, (char *)to + 4 * i, 4); /* frames begin at odd multiples of 2 */
		sum += w;
	}
	sum = (sum & 0xffffffff) + (sum >> 32);
	return (__u32)((sum & 0xffffffff) + (sum >> 32));
}
