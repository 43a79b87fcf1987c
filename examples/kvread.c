// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * kvread: a table of keys and values that clients look up without its owner.
 *
 *   B# kvread eth0                       reads lines "KEY VALUE" and keeps them until ^C
 *   A# kvread eth0 10.9.0.2 KEY...       prints the value of each; -n TIMES over and over
 *
 * Shows READ of memory that its owner changes meanwhile. The owner spends nothing on clients, so no
 * lock keeps him away while they read: each slot has a version word, odd while the value changes. A
 * READ promises no order among its bytes, and none to other READs that are under way; so a client
 * reads the version, then the slot, then the version again, each after the completion of the one
 * before. If it is the same even number, nothing has changed in between, else what came is torn and
 * is read once more. (A checksum in the slot would do with one READ, and cost computing it.)
 */
#include <pthread.h>

#include "common.h"

#define USAGE "kvread [-p PORT] [-n TIMES] [-e] DEV [HOST KEY...]"

#define SLOTS 1024 /* a power of two */

struct slot {
	uint64_t version; /* odd: about to change */
	char key[56];     /* "": free, and so no key has been put further on */
	char value[4032];
};

/* Where to begin to look for a key: FNV-1a, Fowler, Noll and Vo. */
static unsigned place(const char *key)
{
	uint32_t h = 2166136261;

	while (*key)
		h = (h ^ (unsigned char)*key++) * 16777619;
	return h % SLOTS;
}

/* ---- the owner ---- */

/* The slot of a key, or the free one for it, or NULL: the table is full. */
static struct slot *find(struct slot *table, const char *key)
{
	for (unsigned i = 0, at = place(key); i < SLOTS; i++, at = (at + 1) % SLOTS)
		if (!*table[at].key || !strcmp(table[at].key, key))
			return &table[at];
	return NULL;
}

/* One thread puts at a time. */
static void put(struct slot *s, const char *key, const char *value)
{
	uint64_t version = s->version;

	__atomic_store_n(&s->version, version + 1, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_RELEASE); /* odd before anything changes */
	strcpy(s->key, key);
	strcpy(s->value, value);
	__atomic_store_n(&s->version, version + 2, __ATOMIC_RELEASE); /* even after all has */
}

static void *fill(void *table)
{
	char *line = NULL, *value, *end;
	size_t room = 0;
	struct slot *s;

	while (getline(&line, &room, stdin) > 0) {
		end = line + strcspn(line, "\n");
		*end = '\0';
		value = line + strcspn(line, " ");
		if (!*value) {
			warnx("%.60s: no value; a line is KEY VALUE", line);
			continue;
		}
		*value++ = '\0';
		if (!*line || strlen(line) >= sizeof(s->key) || strlen(value) >= sizeof(s->value))
			warnx("%.60s: a key has 1 to %zu bytes, a value up to %zu", line,
			      sizeof(s->key) - 1, sizeof(s->value) - 1);
		else if (!(s = find(table, line)))
			warnx("%s: all %d slots are taken", line, SLOTS);
		else
			put(s, line, value);
	}
	free(line);
	return NULL;
}

static void server(struct weft_dev *dev, const struct args *a)
{
	struct weft_mr *mr = memory(dev, SLOTS * sizeof(struct slot), WEFT_REMOTE_READ);
	uint32_t key = weft_mr_key(mr);
	struct weft_qp_opts o = { .size = sizeof(o), .priv = &key, .priv_len = sizeof(key) };
	pthread_t thread;

	if (pthread_create(&thread, NULL, fill, weft_mr_addr(mr)))
		errx(1, "no thread");
	serve(dev, a->port, o);
	pthread_cancel(thread); /* it may wait for a line */
	pthread_join(thread, NULL);
}

/* ---- a client ---- */

/* Our copy of a slot, and of its version before and after. */
struct copy {
	struct slot slot;
	uint64_t before, after;
};

struct client {
	struct weft_qp *qp;
	struct weft_mr *mr; /* a struct copy */
	uint32_t key;       /* of the table */
	unsigned long again;
	bool sleep;
};

static void read_into(struct client *c, size_t to, uint64_t from, uint32_t len)
{
	struct weft_sge piece = { .mr = c->mr, .off = to, .len = len };
	struct weft_wr wr = {
		.op = WEFT_WR_READ, .sge = &piece, .nsge = 1, .rkey = c->key, .roff = from
	};

	check(weft_post(c->qp, &wr, 1));
	completion(c->qp, c->sleep);
}

/* Slot `at` as it was at one moment; valid until the next. */
static const struct slot *read_slot(struct client *c, unsigned at)
{
	const struct copy *copy = weft_mr_addr(c->mr);
	uint64_t from = (uint64_t)at * sizeof(struct slot);

	for (;; c->again++) {
		read_into(c, offsetof(struct copy, before), from, sizeof(copy->before));
		read_into(c, offsetof(struct copy, slot), from, sizeof(copy->slot));
		read_into(c, offsetof(struct copy, after), from, sizeof(copy->after));
		if (copy->before == copy->after && !(copy->before & 1))
			return &copy->slot;
	}
}

static const char *get(struct client *c, const char *key)
{
	const struct slot *s;

	for (unsigned i = 0, at = place(key); i < SLOTS; i++, at = (at + 1) % SLOTS) {
		s = read_slot(c, at);
		if (!*s->key)
			break;
		if (!strcmp(s->key, key))
			return s->value;
	}
	return NULL;
}

static int client(struct weft_dev *dev, const struct args *a)
{
	struct client c = { .mr = memory(dev, sizeof(struct copy), WEFT_LOCAL_WRITE),
			    .sleep = a->sleep };
	unsigned long values = 0;
	const char *value;
	int missing = 0;

	c.qp = join(dev, a->word[0], a->port, NULL, 2);
	introduction(c.qp, &c.key, sizeof(c.key));
	for (unsigned long i = 0; i < a->count; i++)
		for (char **key = a->word + 1; *key; key++, values++) {
			value = get(&c, *key);
			if (value)
				puts(value);
			else
				warnx("%s: no such key", *key);
			missing |= !value;
		}
	if (a->count > 1)
		warnx("%lu values, torn and read again: %lu", values, c.again);
	return missing;
}

int main(int argc, char **argv)
{
	struct args a = { .port = 7475, .count = 1 };
	struct weft_dev *dev;
	int missing = 0;

	arguments(&a, argc, argv, "p:n:e", USAGE);
	check(weft_open(a.dev, NULL, &dev));
	if (*a.word)
		missing = client(dev, &a);
	else
		server(dev, &a);
	weft_close(dev);
	return missing;
}
