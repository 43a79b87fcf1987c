// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* What a program asks for when it opens a device: is it valid, and is it to be had. */
#include <string.h>

#include "device.h"

/* Options of a program built against an older header are shorter. */
int weft_dev_opts(const char *ifname, const struct weft_open_opts *in, struct weft_open_opts *o)
{
	memset(o, 0, sizeof(*o));
	if (!in)
		return 0;
	if (in->size < offsetof(struct weft_open_opts, port) || in->size > sizeof(*o))
		return weft_err(EINVAL, ifname ? ifname : "open",
				"options of %zu bytes are not known; set their size", in->size);
	memcpy(o, in, in->size);
	return 0;
}

int weft_dev_check_opts(const char *ifname, const struct weft_open_opts *o)
{
	if (o->port == 4791)
		return weft_err(EINVAL, ifname, "port 4791 belongs to RoCEv2; choose another");
	if (o->qps > WEFT_PROC_MAX && o->qps != WEFT_QPS_ALL)
		return weft_err(EINVAL, ifname, "qps is %u; 1 to %d, or WEFT_QPS_ALL", o->qps,
				WEFT_PROC_MAX);
	if (o->device_qps > WEFT_QPS_MAX)
		return weft_err(EINVAL, ifname, "device_qps is %u; 1 to %d", o->device_qps,
				WEFT_QPS_MAX);
	return 0;
}

int weft_pins_check_opts(struct weft_dev *dev, const struct weft_open_opts *opts)
{
	const struct weft_devcfg *cfg = dev->maps.cfg;
	unsigned qps;

	if (opts->port && opts->port != cfg->port)
		return weft_err(EBUSY, dev->ifname,
				"is up with UDP port %u; to change it run 'weft down %s' first",
				cfg->port, dev->ifname);
	if (opts->csum && !(cfg->flags & WEFT_DEV_CSUM4))
		return weft_err(EBUSY, dev->ifname,
				"is up with csum off; to change it run 'weft down %s' first",
				dev->ifname);
	if (opts->no_telemetry && !(cfg->flags & WEFT_DEV_NO_TELE))
		return weft_err(EBUSY, dev->ifname,
				"is up with telemetry on; to change it run "
				"'weft dev set %s telemetry off'",
				dev->ifname);
	qps = opts->device_qps;
	if (opts->qps != WEFT_QPS_ALL && opts->qps > qps)
		qps = opts->qps;
	if (qps > cfg->qps)
		return weft_err(
			EBUSY, dev->ifname,
			"is up with %u QPs; for more run 'weft down %s' first, and 'weft up "
			"%s qps %u'",
			cfg->qps, dev->ifname, dev->ifname, qps);
	return 0;
}

uint32_t weft_pins_rings(const struct weft_dev *dev, uint32_t qps)
{
	uint32_t all = dev->maps.qps < WEFT_PROC_MAX ? dev->maps.qps : WEFT_PROC_MAX;

	return !qps ? WEFT_PROC_QPS : qps == WEFT_QPS_ALL ? all : qps;
}
