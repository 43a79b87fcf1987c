// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The devices that weftd holds open: one handle for all its clients, anew after a 'weft down'. */
#include <stdlib.h>

#include "weftd.h"

static LIST_HEAD(, served) list = LIST_HEAD_INITIALIZER(list);
static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER; /* then that of one of them */

static struct served *find(const char *ifname)
{
	struct served *s;

	LIST_FOREACH(s, &list, link)
		if (!strcmp(s->conf.ifname, ifname))
			return s;
	return NULL;
}

void held_put(struct held *h)
{
	if (__atomic_sub_fetch(&h->refs, 1, __ATOMIC_ACQ_REL))
		return;
	weft_close(h->dev);
	free(h);
}

static int open_locked(struct served *s)
{
	struct held *h;
	int err;

	if (s->held && __atomic_load_n(&s->held->dev->dead, __ATOMIC_ACQUIRE)) {
		held_put(s->held);
		s->held = NULL;
	}
	if (s->held)
		return 0;
	h = calloc(1, sizeof(*h));
	if (!h)
		return -ENOMEM;
	err = weft_open(s->conf.ifname, &s->conf.opts, &h->dev);
	if (err) {
		free(h);
		return err;
	}
	h->refs = 1;
	s->held = h;
	return 0;
}

/* Devices that are gone from the configuration get no new clients; those they have stay. */
int held_configure(const struct conf *c)
{
	struct served *s, *next;
	bool keep;

	pthread_mutex_lock(&list_lock);
	for (s = LIST_FIRST(&list); s; s = next) {
		next = LIST_NEXT(s, link);
		keep = false;
		for (unsigned i = 0; i < c->ndevices; i++)
			keep |= !strcmp(c->device[i].ifname, s->conf.ifname);
		if (keep)
			continue;
		LIST_REMOVE(s, link);
		pthread_mutex_lock(&s->lock); /* nobody is in it any more */
		pthread_mutex_unlock(&s->lock);
		if (s->held)
			held_put(s->held);
		free(s);
	}
	for (unsigned i = 0; i < c->ndevices; i++) {
		s = find(c->device[i].ifname);
		if (!s) {
			s = calloc(1, sizeof(*s));
			if (!s)
				break;
			pthread_mutex_init(&s->lock, NULL);
			LIST_INSERT_HEAD(&list, s, link);
		}
		pthread_mutex_lock(&s->lock);
		s->conf = c->device[i];
		open_locked(s); /* not yet there, perhaps: the next client tries again */
		pthread_mutex_unlock(&s->lock);
	}
	pthread_mutex_unlock(&list_lock);
	return 0;
}

int held_get(const char *ifname, bool back, struct held **out)
{
	struct served *s;
	int err;

	pthread_mutex_lock(&list_lock);
	s = find(ifname);
	if (s)
		pthread_mutex_lock(&s->lock);
	pthread_mutex_unlock(&list_lock);
	if (!s)
		return weft_err_quiet(EACCES, ifname,
				      "weftd does not serve it; see its configuration");
	if (back && s->held && __atomic_load_n(&s->held->dev->dead, __ATOMIC_ACQUIRE)) {
		err = weft_err_quiet(ESTALE, ifname, "weft was taken down on this interface");
	} else {
		err = open_locked(s);
	}
	if (!err) {
		*out = s->held;
		__atomic_fetch_add(&s->held->refs, 1, __ATOMIC_RELAXED);
	}
	pthread_mutex_unlock(&s->lock);
	return err;
}

void held_each(void (*fn)(struct served *s, void *arg), void *arg)
{
	struct served *s;

	pthread_mutex_lock(&list_lock);
	LIST_FOREACH(s, &list, link) {
		/* one that is being opened has nobody on it */
		if (pthread_mutex_trylock(&s->lock))
			continue;
		if (s->held)
			fn(s, arg);
		pthread_mutex_unlock(&s->lock);
	}
	pthread_mutex_unlock(&list_lock);
}

/* ---- devices with clients ---- */

static void tidy_one(struct served *s, void *arg)
{
	struct weft_dev *dev = s->held->dev;

	(void)arg;
	if (dev->dead || !(dev->maps.cfg->flags & WEFT_DEV_SERVED))
		return;
	weft_doorbell_keep(dev); /* a client might have told it to go with its last user */
	weft_pins_purge_dead(dev);
}

void held_tidy(void)
{
	held_each(tidy_one, NULL);
}

void held_close_all(void)
{
	struct served *s;

	pthread_mutex_lock(&list_lock);
	while ((s = LIST_FIRST(&list))) {
		LIST_REMOVE(s, link);
		if (s->held)
			held_put(s->held);
		free(s);
	}
	pthread_mutex_unlock(&list_lock);
}
