// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The rings of a process: which of them are which QP's. */
#include <string.h>

#include "device.h"
#include "priv.h"

static bool rings_free(const struct weft_dev *dev, unsigned at, unsigned n)
{
	while (n && !(dev->ring_used[at / 64] >> at % 64 & 1))
		at++, n--;
	return !n;
}

static void mark_rings(struct weft_dev *dev, const struct weft_qp *qp, bool used)
{
	unsigned end = qp->ring_idx + weft_sq_rings(qp->sq_mask + 1);

	for (unsigned i = qp->ring_idx; i < end; i++) {
		dev->ring_used[i / 64] &= ~(1ull << i % 64);
		dev->ring_used[i / 64] |= (uint64_t)used << i % 64;
	}
}

/* What lets this process hold more. */
static const char *remedy(const struct weft_dev *dev, char text[120])
{
	unsigned most = weft_pins_rings(dev, WEFT_QPS_ALL);

	if (dev->nrings < most)
		snprintf(text, 120, "open the device with more, up to %u: qps of weft_open_opts",
			 most);
	else if (most == WEFT_PROC_MAX)
		snprintf(text, 120, "spread them over several processes");
	else if (dev->priv == &weft_remote)
		snprintf(text, 120, "give the device more 'qps' in weftd's configuration");
	else
		snprintf(text, 120, "run 'weft down %s', 'weft up %s qps N'", dev->ifname,
			 dev->ifname);
	return text;
}

int weft_rings_take(struct weft_dev *dev, struct weft_qp *qp)
{
	unsigned n = weft_sq_rings(qp->sq_mask + 1);
	char text[120];

	for (qp->ring_idx = 0; qp->ring_idx + n <= dev->nrings; qp->ring_idx++) {
		if (!rings_free(dev, qp->ring_idx, n))
			continue;
		mark_rings(dev, qp, true);
		qp->ring = &dev->rings[qp->ring_idx];
		memset(qp->ring, 0, n * sizeof(*qp->ring));
		return 0;
	}
	return n == 1 ? weft_err(ENOSPC, dev->ifname,
				 "this process holds %u QPs at most; close some, or %s",
				 dev->nrings, remedy(dev, text))
		      : weft_err(
				ENOSPC, dev->ifname,
				"a queue of %u takes %u of the %u places for QPs of this process, and "
				"there are not so many in a row; close some QPs, or %s",
				qp->sq_mask + 1, n, dev->nrings, remedy(dev, text));
}

void weft_rings_give(struct weft_dev *dev, const struct weft_qp *qp)
{
	mark_rings(dev, qp, false);
}
