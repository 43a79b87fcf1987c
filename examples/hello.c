// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* `hello server DEV HOST:PORT` prints what `hello client DEV HOST:PORT TEXT` wrote there. */
#include <stdio.h>
#include <string.h>
#include <weft/weft.h>

static int server(struct weft_dev *dev, const char *addr, struct weft_mr *mr)
{
	uint32_t key = weft_mr_key(mr); /* goes to the client at connection set-up */
	struct weft_qp_opts o = { sizeof(o), .priv = &key, .priv_len = 4, .connect_ms = ~0u };
	struct weft_listener *l;
	struct weft_qp *qp;

	if (weft_listen(dev, addr, &l) || weft_accept(l, &o, &qp))
		return 1;
	weft_cq_wait(weft_qp_cq(qp), WEFT_ARM_RX, -1); /* for the text, or for the client's end */
	return !weft_qp_arrived(qp) || printf("%.4095s\n", (char *)weft_mr_addr(mr)) < 0;
}

static int client(struct weft_dev *dev, const char *addr, struct weft_mr *mr)
{
	struct weft_write w = { .mr = mr, .len = weft_mr_len(mr) };
	struct weft_qp *qp;
	struct weft_wc wc;

	if (weft_connect(dev, addr, NULL, &qp))
		return 1;
	w.rkey = *(const uint32_t *)weft_qp_private(qp, NULL);
	return weft_post_write(qp, &w) || weft_cq_wait(weft_qp_cq(qp), WEFT_ARM_TX, -1) != 1 ||
	       weft_cq_poll(weft_qp_cq(qp), &wc, 1) != 1 || wc.status != WEFT_WC_SUCCESS;
}

int main(int c, char **v)
{
	int serve = c == 4 && !strcmp(v[1], "server"), err;
	struct weft_dev *dev = NULL;
	struct weft_mr *mr;
	void *mem;

	if (!serve && (c != 5 || strcmp(v[1], "client")))
		return fputs("usage: hello server DEV ADDR | client DEV ADDR TEXT\n", stderr), 2;
	err = weft_open(v[2], NULL, &dev) || weft_alloc(dev, 4096, &mem) ||
	      weft_mr_reg(dev, NULL, mem, 4096, serve ? WEFT_REMOTE_WRITE : WEFT_LOCAL, &mr) ||
	      snprintf(mem, 4096, "%s", serve ? "" : v[4]) < 0 ||
	      (serve ? server : client)(dev, v[3], mr);
	if (err)
		fprintf(stderr, "hello: %s\n", weft_strerror_last());
	weft_close(dev);
	return err;
}
