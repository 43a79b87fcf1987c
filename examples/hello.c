// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* `hello server DEV ADDR` prints what `hello client DEV ADDR TEXT` wrote into its memory. */
#include <stdio.h>
#include <string.h>
#include <weft/weft.h>

static int server(struct weft_dev *dev, const char *addr, struct weft_mr *mr)
{
	uint32_t key = weft_mr_key(mr); /* the client needs it: told at connection set-up */
	struct weft_qp_opts opts = { sizeof(opts), .priv = &key, .priv_len = 4,
				    .connect_ms = 60000 };
	struct weft_listener *l;
	struct weft_qp *qp;

	if (weft_listen(dev, addr, &l) || weft_accept(l, &opts, &qp))
		return 1;
	while (!weft_qp_arrived(qp) && !weft_qp_status(qp)) /* the text, or the client's end */
		weft_cq_wait(weft_qp_cq(qp), WEFT_ARM_RX, -1);
	weft_listener_close(l);
	return !weft_qp_arrived(qp) || printf("%.4095s\n", (char *)weft_mr_addr(mr)) < 0;
}

static int client(struct weft_dev *dev, const char *addr, struct weft_mr *mr)
{
	struct weft_write w = { .mr = mr, .len = weft_mr_len(mr) };
	struct weft_qp *qp;
	struct weft_wc wc;

	if (weft_connect(dev, addr, NULL, &qp))
		return 1;
	memcpy(&w.rkey, weft_qp_private(qp, NULL), 4);
	return weft_post_write(qp, &w) || weft_cq_wait(weft_qp_cq(qp), WEFT_ARM_TX, -1) != 1 ||
	       weft_cq_poll(weft_qp_cq(qp), &wc, 1) != 1 || wc.status != WEFT_WC_SUCCESS;
}

int main(int c, char **v)
{
	int serve = c == 4 && !strcmp(v[1], "server"), access = serve ? WEFT_REMOTE_WRITE : WEFT_LOCAL;
	int usage = !serve && (c != 5 || strcmp(v[1], "client")), err = usage;
	struct weft_dev *dev = NULL;
	struct weft_mr *mr;
	void *mem;

	if (!err && !(err = weft_open(v[2], NULL, &dev) || weft_alloc(dev, 4096, &mem)))
		err = weft_mr_reg(dev, NULL, serve ? mem : strncpy(mem, v[4], 4095), 4096, access,
				  &mr) || (serve ? server : client)(dev, v[3], mr);
	if (err)
		fprintf(stderr, "hello: %s\n", usage ? "server DEV ADDR | client DEV ADDR TEXT" : weft_strerror_last());
	weft_close(dev); /* and all that is left on it */
	return usage ? 2 : err;
}
