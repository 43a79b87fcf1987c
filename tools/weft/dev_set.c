// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* weft dev set: what of a device can be changed while it runs. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <bpf/bpf.h>

#include "cli.h"
#include "internal.h"

/* Has an ACK of the QP in this slot come, seen or not? */
static bool acked(int qptx, uint32_t slot, struct weft_qptx *buf)
{
	return !bpf_map_lookup_elem_flags(qptx, &slot, buf, BPF_F_LOCK) && buf->tx.rtt.srtt8;
}

/* What came while nobody looked is not to be told of as the first, nor what came before as the last. */
static int switch_telemetry(const struct pinned *p, struct weft_devcfg *cfg, struct weft_tele *t,
			    bool on)
{
	struct weft_qptx *buf;
	int fd;

	if (!on) {
		__atomic_fetch_or(&cfg->flags, WEFT_DEV_NO_TELE, __ATOMIC_RELEASE);
		weft_grace();
		for (unsigned i = 0; i < p->cfg.qps * WEFT_TELE_LANES; i++)
			if (!t[i / WEFT_TELE_LANES].id.ended)
				__atomic_store_n(
					&t[i / WEFT_TELE_LANES].lane[i % WEFT_TELE_LANES].last_ack,
					0, __ATOMIC_RELAXED);
		return CLI_OK;
	}
	fd = pins_map(p, "qptx", sizeof(*buf));
	if (fd < 0)
		return CLI_FAIL;
	buf = calloc(1, sizeof(*buf));
	if (!buf) {
		close(fd);
		return cli_fail(p->ifname, "no memory");
	}
	for (unsigned i = 0; i < p->cfg.qps; i++)
		if (t[i].id.qpn && !t[i].id.ended && acked(fd, i, buf))
			__atomic_store_n(&t[i].first, 1, __ATOMIC_RELAXED);
	__atomic_fetch_and(&cfg->flags, ~WEFT_DEV_NO_TELE, __ATOMIC_RELEASE);
	free(buf);
	close(fd);
	return CLI_OK;
}

static int set_telemetry(const struct pinned *p, bool on)
{
	struct weft_devcfg *cfg;
	struct weft_tele *t = NULL;
	int rc = CLI_FAIL;

	cfg = pins_mmap(p, "devcfg", sizeof(*cfg), 1, PROT_READ | PROT_WRITE);
	if (cfg)
		t = pins_mmap(p, "qptele", sizeof(*t), p->cfg.qps, PROT_READ | PROT_WRITE);
	if (t && on == !(cfg->flags & WEFT_DEV_NO_TELE))
		rc = CLI_OK;
	else if (t)
		rc = switch_telemetry(p, cfg, t, on);
	if (t)
		munmap(t, p->cfg.qps * sizeof(*t));
	if (cfg)
		munmap(cfg, sizeof(*cfg));
	return rc;
}

int dev_set(int argc, char **argv)
{
	struct pinned *list;
	bool on;
	int rc;

	if (argc && !strcmp(argv[0], "dev")) {
		argc--;
		argv++;
	}
	if (argc != 3 || strcmp(argv[1], "telemetry"))
		return cli_usage("dev", "set wants DEV telemetry { on | off }");
	on = !strcmp(argv[2], "on");
	if (!on && strcmp(argv[2], "off"))
		return cli_usage("dev", "telemetry is on or off, not \"%s\"", argv[2]);
	if (pins_find(argv[0], &list) < 0)
		return CLI_FAIL;
	rc = set_telemetry(&list[0], on);
	free(list);
	return rc;
}
