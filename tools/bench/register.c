// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* What registration costs: adopting 64 MiB (GB/s), memcpy of as much (GB/s), an MR in a pool (us). */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <sys/mman.h>

#include <weft/weft.h>

#define SIZE (64ul << 20)
#define MRS  1000

static struct weft_dev *dev;
static uint8_t *mem, *other;
static struct weft_mr *mrs[MRS];

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

static void need(int e)
{
	if (e)
		errx(1, "%s", weft_strerror_last());
}

/* Seconds that one took; giving back is not part of it. */
static double adopt(void)
{
	struct weft_mr *mr;
	double t = now();

	need(weft_mr_reg(dev, NULL, mem, SIZE, WEFT_REMOTE_WRITE | WEFT_ADOPT, &mr));
	t = now() - t;
	need(weft_mr_dereg(mr));
	return t;
}

static double copy(void)
{
	double t = now();

	memcpy(other, mem, SIZE);
	__asm__ volatile("" : : "r"(other) : "memory");
	return now() - t;
}

static double reg(void)
{
	double t = now();

	for (int i = 0; i < MRS; i++)
		need(weft_mr_reg(dev, NULL, mem, 4096, WEFT_REMOTE_WRITE, &mrs[i]));
	t = (now() - t) / MRS;
	need(weft_mr_dereg_many(mrs, MRS));
	return t;
}

static uint8_t *pages(void)
{
	uint8_t *p = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		err(1, "mmap");
	memset(p, 1, SIZE);
	return p;
}

static double median(double (*one)(void), double secs)
{
	double t[1000], tmp, end = now() + secs;
	int n = 0;

	while (n < 3 || (n < 1000 && now() < end)) {
		t[n] = one();
		for (int i = n++; i && t[i] < t[i - 1]; i--) {
			tmp = t[i];
			t[i] = t[i - 1];
			t[i - 1] = tmp;
		}
	}
	return t[n / 2];
}

int main(int argc, char **argv)
{
	const char *what = argc == 5 ? argv[1] : "";
	double secs = argc == 5 ? atof(argv[2]) : 0;

	if (strcmp(what, "adopt") && strcmp(what, "memcpy") && strcmp(what, "alloc")) {
		fprintf(stderr, "usage: register adopt|memcpy|alloc SECONDS NETNS DEV\n");
		return 2;
	}
	if (*what != 'm')
		need(weft_open(argv[4], WEFT_OPTS(struct weft_open_opts, .netns = argv[3]), &dev));
	if (!strcmp(what, "alloc")) {
		need(weft_alloc(dev, 4096, (void **)&mem));
		printf("%.3f\n", median(reg, secs) * 1e6);
	} else {
		mem = pages();
		other = pages();
		printf("%.4f\n", SIZE / 1e9 / median(*what == 'm' ? copy : adopt, secs));
	}
	if (dev)
		weft_close(dev);
	return 0;
}
