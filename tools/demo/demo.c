// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* weft-demo: move a file from one process's memory into another's, by weft or by kernel TCP. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <json-c/json.h>

#include "demo.h"
#include "demo_tcp.h"

static const char usage_text[] =
	"usage: weft-demo recv DEV HOST:PORT SIZE\n"
	"       weft-demo send DEV HOST:PORT FILE\n"
	"       weft-demo tcp-recv HOST:PORT SIZE\n"
	"       weft-demo tcp-send HOST:PORT FILE CONGESTION_CONTROL\n"
	"\n"
	"Both ends print \"ready\" or \"connected\", then obey lines on standard input until \"quit\":\n"
	"  send:  pass        write the file once\n"
	"         run SECONDS write it over and over; goodput and processor time\n"
	"         lat COUNT   COUNT times up to 64 bytes, one at a time; median time to completion\n"
	"  recv:  hash        print the SHA-256 of the memory\n"
	"         clear       zero the memory\n"
	"tcp-recv prints the hash when tcp-send is told \"hash\".\n";

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec + ts.tv_nsec * 1e-9;
}

/* Seconds that the processors of this machine were idle, all together. */
static double idle_seconds(void)
{
	unsigned long long idle = 0, iowait = 0;
	FILE *f = fopen("/proc/stat", "re");

	if (f && fscanf(f, "cpu %*u %*u %*u %llu %llu", &idle, &iowait) != 2)
		idle = iowait = 0;
	if (f)
		fclose(f);
	return (double)(idle + iowait) / sysconf(_SC_CLK_TCK);
}

static void answer(const char *const names[], const double values[], int n)
{
	struct json_object *o = json_object_new_object();

	for (int i = 0; i < n; i++)
		json_object_object_add(o, names[i], json_object_new_double(values[i]));
	puts(json_object_to_json_string_ext(o, JSON_C_TO_STRING_PLAIN));
	fflush(stdout);
	json_object_put(o);
}

/* ---- weft ---- */

static int weft_reap(struct link *l)
{
	struct weft_wc wc[16];
	int n = weft_cq_poll(weft_qp_cq(l->qp), wc, 16);

	for (int i = 0; i < n; i++)
		if (wc[i].status != WEFT_WC_SUCCESS)
			return fail("write", 0, weft_wc_str(wc[i].status));
	l->outstanding -= n;
	return n;
}

static int weft_reap_wait(struct link *l, bool spin)
{
	int n = weft_reap(l), err;

	if (n || spin)
		return n;
	err = weft_cq_wait(weft_qp_cq(l->qp), WEFT_ARM_TX, 10000);
	if (err <= 0)
		return fail("write", err ? err : -ETIMEDOUT, "no completion");
	return weft_reap(l);
}

/* Posts what is gathered. */
static int weft_flush(struct link *l)
{
	while (l->gathered) {
		int n = weft_post_writes(l->qp, l->writes, l->gathered);

		if (n < 0)
			return weft_fail("write", n);
		l->outstanding += n;
		l->gathered -= n;
		memmove(l->writes, l->writes + n, l->gathered * sizeof(*l->writes));
	}
	return 0;
}

/* Small WRITEs are gathered, so that they share a doorbell. */
static int weft_write_link(struct link *l, size_t off, size_t len)
{
	uint32_t i = off / REGION;
	int err = 0;

	l->writes[l->gathered++] = (struct weft_write){ .mr = l->mem.mr[i],
							.off = off % REGION,
							.len = len,
							.rkey = l->peer.key[i],
							.roff = off % REGION };
	if (len < STAGE && l->gathered < GATHER)
		return 0;
	while (l->outstanding + l->gathered > DEPTH) {
		err = weft_reap_wait(l, false);
		if (err < 0)
			return err;
	}
	return weft_flush(l);
}

static int weft_drain_link(struct link *l, bool spin)
{
	int err = weft_flush(l);

	while (!err && l->outstanding) {
		err = weft_reap_wait(l, spin);
		err = err < 0 ? err : 0;
	}
	return err;
}

static int weft_send_open(struct link *l, const char *dev, const char *addr, const char *file)
{
	const void *priv;
	size_t len;
	int err = weft_open(dev, NULL, &l->dev);

	if (err)
		return weft_fail(dev, err);
	err = mem_alloc(&l->mem, file_size(file), l->dev, WEFT_LOCAL);
	err = err ? err : mem_load(&l->mem, file);
	if (err)
		return err;
	err = weft_connect(l->dev, addr, NULL, &l->qp);
	if (err)
		return weft_fail(addr, err);
	priv = weft_qp_private(l->qp, &len);
	if (len != sizeof(l->peer))
		return fail(addr, 0, "is not a weft-demo");
	memcpy(&l->peer, priv, len);
	if (l->peer.size != l->mem.size)
		return fail(addr, 0, "expects a file of another size");
	l->write = weft_write_link;
	l->drain = weft_drain_link;
	return 0;
}

static int weft_recv(const char *dev, const char *addr, size_t size)
{
	static struct link link;
	struct weft_listener *listener;
	struct advert ad = { .size = size };
	struct weft_qp_opts opts = {
		.size = sizeof(opts), .priv = &ad, .priv_len = sizeof(ad), .connect_ms = 60000
	};
	char line[64];
	int err = weft_open(dev, NULL, &link.dev);

	if (err)
		return weft_fail(dev, err);
	err = mem_alloc(&link.mem, size, link.dev, WEFT_REMOTE_WRITE);
	if (err)
		goto out;
	ad.n = link.mem.n;
	for (uint32_t i = 0; i < ad.n; i++)
		ad.key[i] = weft_mr_key(link.mem.mr[i]);
	err = weft_listen(link.dev, addr, &listener);
	if (err) {
		weft_fail(addr, err);
		goto out;
	}
	puts("ready");
	fflush(stdout);
	err = weft_accept(listener, &opts, &link.qp);
	if (err) {
		weft_fail(addr, err);
		goto out_listener;
	}
	puts("connected");
	fflush(stdout);
	while (!err && fgets(line, sizeof(line), stdin) && strcmp(line, "quit\n")) {
		if (!strcmp(line, "hash\n")) {
			err = mem_hash(&link.mem);
		} else if (!strcmp(line, "clear\n")) {
			for (uint32_t i = 0; i < link.mem.n; i++)
				memset(link.mem.base[i], 0, region_len(&link.mem, i));
			puts("cleared");
			fflush(stdout);
		}
	}
	weft_qp_close(link.qp);
out_listener:
	weft_listener_close(listener);
out:
	weft_close(link.dev);
	return err;
}

/* ---- the sender's orders ---- */

static int pass(struct link *l)
{
	int err = 0;

	for (size_t off = 0; off < l->mem.size && !err; off += CHUNK)
		err = l->write(l, off, l->mem.size - off < CHUNK ? l->mem.size - off : CHUNK);
	return err;
}

static int run(struct link *l, double seconds)
{
	static const char *const names[] = { "seconds", "bytes", "goodput_gbps", "cpu_s_per_gb" };
	double idle = idle_seconds(), start = now(), bytes = 0, took;
	int err = 0;

	do {
		err = pass(l);
		bytes += l->mem.size;
	} while (!err && now() - start < seconds);
	err = err ? err : l->drain(l, false);
	took = now() - start;
	idle = idle_seconds() - idle;
	if (!err)
		answer(names,
		       (double[]){ took, bytes, bytes * 8e-9 / took,
				   (took * sysconf(_SC_NPROCESSORS_ONLN) - idle) / (bytes * 1e-9) },
		       4);
	return err;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static int lat(struct link *l, size_t count)
{
	size_t len = l->mem.size < LAT_SIZE ? l->mem.size : LAT_SIZE;
	double *t = calloc(count + 1, sizeof(*t));
	int err = t ? 0 : -ENOMEM;

	for (size_t i = 0; i < count && !err; i++) {
		t[i] = now();
		err = l->write(l, 0, len);
		err = err ? err : l->drain(l, true);
		t[i] = now() - t[i];
	}
	if (!err) {
		qsort(t, count, sizeof(*t), by_value);
		answer((const char *[]){ "lat_p50_us" }, (double[]){ t[count / 2] * 1e6 }, 1);
	}
	free(t);
	return err;
}

static int obey(struct link *l)
{
	char line[64];
	double arg, start;
	int err = 0;

	puts("connected");
	fflush(stdout);
	while (!err && fgets(line, sizeof(line), stdin) && strcmp(line, "quit\n")) {
		if (!strcmp(line, "pass\n")) {
			start = now();
			err = pass(l);
			err = err ? err : l->drain(l, false);
			if (!err)
				answer((const char *[]){ "seconds", "bytes" },
				       (double[]){ now() - start, l->mem.size }, 2);
		} else if (sscanf(line, "run %lf", &arg) == 1) {
			err = run(l, arg);
		} else if (sscanf(line, "lat %lf", &arg) == 1 && arg >= 1) {
			err = lat(l, arg);
		} else if (!strcmp(line, "hash\n") && !l->dev) {
			err = tcp_mark(l, TCP_HASH);
		} else {
			err = fail("order", 0, "is unknown");
		}
	}
	return err;
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	static struct link link;
	int err;

	if (!strcmp(mode, "recv") && argc == 5)
		return weft_recv(argv[2], argv[3], strtoull(argv[4], NULL, 10)) ? 1 : 0;
	if (!strcmp(mode, "tcp-recv") && argc == 4)
		return tcp_recv(argv[2], strtoull(argv[3], NULL, 10)) ? 1 : 0;
	if (!strcmp(mode, "send") && argc == 5)
		err = weft_send_open(&link, argv[2], argv[3], argv[4]);
	else if (!strcmp(mode, "tcp-send") && argc == 5)
		err = tcp_send_open(&link, argv[2], argv[3], argv[4]);
	else
		return fputs(usage_text, stderr), 2;
	err = err ? err : obey(&link);
	if (link.qp)
		weft_qp_close(link.qp);
	if (link.dev)
		weft_close(link.dev);
	return err ? 1 : 0;
}
