/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Memory that holds a file, and what the weft and the TCP half of weft-demo share. */
#ifndef WEFT_DEMO_H
#define WEFT_DEMO_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <weft/weft.h>

#define REGION      (1UL << 30) /* the largest MR */
#define REGIONS_MAX 60          /* keys that fit into private data */
#define CHUNK       (1UL << 20) /* one WRITE */
#define DEPTH       64          /* WRITEs outstanding */
#define GATHER      32          /* small WRITEs posted at once */
#define LAT_SIZE    64
#define STAGE       65536

/* What the receiver tells the writer when they connect. */
struct advert {
	uint64_t size;
	uint32_t n;
	uint32_t key[REGIONS_MAX];
};

struct memory {
	size_t size;
	uint32_t n;
	char *base[REGIONS_MAX];
	struct weft_mr *mr[REGIONS_MAX];
};

struct link {
	struct memory mem;
	int (*write)(struct link *l, size_t off, size_t len);
	int (*drain)(struct link *l, bool spin);
	/* weft */
	struct weft_dev *dev;
	struct weft_qp *qp;
	struct advert peer;
	unsigned outstanding;
	int gathered;
	struct weft_write writes[GATHER];
	/* tcp */
	int fd;
	size_t staged;
	char stage[STAGE];
};

static int fail(const char *object, int err, const char *what)
{
	fprintf(stderr, "weft: %s: %s%s%s\n", object, what, err < 0 ? ": " : "",
		err < 0 ? strerror(-err) : "");
	return err < 0 ? err : -EIO;
}

static int weft_fail(const char *object, int err)
{
	const char *line = weft_strerror_last();

	if (!*line)
		return fail(object, err, "failed");
	fprintf(stderr, "weft: %s\n", line);
	return err;
}

static size_t region_len(const struct memory *m, uint32_t i)
{
	return m->size - i * REGION < REGION ? m->size - i * REGION : REGION;
}

/* dev NULL: ordinary memory */
static int mem_alloc(struct memory *m, size_t size, struct weft_dev *dev, unsigned access)
{
	m->size = size;
	m->n = (size + REGION - 1) / REGION;
	if (!size || m->n > REGIONS_MAX)
		return fail("file", 0, "must have from 1 byte to 60 GiB");
	for (uint32_t i = 0; i < m->n; i++) {
		size_t len = region_len(m, i);
		void *p;
		int err;

		if (!dev) {
			p = mmap(NULL, len, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
			if (p == MAP_FAILED)
				return fail("memory", -errno, "cannot be allocated");
			m->base[i] = p;
			continue;
		}
		if (len < 64) /* the smallest MR; the rest is never written */
			len = 64;
		err = weft_alloc(dev, len, &p);
		if (!err)
			err = weft_mr_reg(dev, NULL, p, len, access, &m->mr[i]);
		if (err)
			return weft_fail("memory", err);
		m->base[i] = p;
	}
	return 0;
}

static int mem_load(struct memory *m, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return fail(path, -errno, "cannot be opened");
	for (size_t off = 0; off < m->size;) {
		uint32_t i = off / REGION;
		ssize_t n = read(fd, m->base[i] + off % REGION, region_len(m, i) - off % REGION);

		if (n <= 0)
			return fail(path, n ? -errno : 0, "cannot be read to its end");
		off += n;
	}
	close(fd);
	return 0;
}

static int mem_hash(const struct memory *m)
{
	FILE *f;

	fflush(stdout);
	f = popen("sha256sum", "w"); /* writes its line to our standard output */
	if (!f)
		return fail("sha256sum", -errno, "cannot be run");
	for (uint32_t i = 0; i < m->n; i++)
		fwrite(m->base[i], 1, region_len(m, i), f);
	if (pclose(f))
		return fail("sha256sum", 0, "failed");
	puts("hashed");
	fflush(stdout);
	return 0;
}

static size_t file_size(const char *path)
{
	struct stat st;

	return stat(path, &st) || !S_ISREG(st.st_mode) ? 0 : st.st_size;
}

#endif
