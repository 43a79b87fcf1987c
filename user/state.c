// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The states that an application gives a QP: drained, disconnected, aborted. */
#include <unistd.h>

#include "ctl.h"

#define LOOK_US     50
#define LOOK_MAX_US 2000

enum weft_qps weft_qp_state(const struct weft_qp *qp)
{
	if (weft_qp_status(qp) || __atomic_load_n(&qp->failing, __ATOMIC_ACQUIRE))
		return WEFT_QPS_ERR;
	return __atomic_load_n(&qp->drained, __ATOMIC_ACQUIRE) ? WEFT_QPS_SQD : WEFT_QPS_RTS;
}

int weft_qp_dead(const struct weft_qp *qp)
{
	int why = weft_qp_status(qp);

	if (!why) /* decided, and being carried out */
		why = __atomic_load_n(&qp->failing, __ATOMIC_ACQUIRE);
	if (why == WEFT_WC_FLUSH_ERR)
		return weft_err_quiet(ENOTCONN, weft_qp_name(qp),
				      "disconnected by the application; connect again");
	return weft_err_quiet(ENOTCONN, weft_qp_name(qp), "in error: %s; connect again",
			      weft_wc_str(why));
}

int weft_qp_drain(struct weft_qp *qp, uint32_t timeout_ms)
{
	uint64_t now = weft_now_ns(), until = now + timeout_ms * 1000000ull;
	unsigned wait = LOOK_US;

	if (weft_qp_state(qp) == WEFT_QPS_ERR)
		return weft_qp_dead(qp);
	__atomic_store_n(&qp->drained, true, __ATOMIC_RELEASE);
	while (weft_ctl_outstanding(qp)) {
		if (weft_now_ns() >= until)
			return weft_err_quiet(ETIMEDOUT, weft_qp_name(qp),
					      "%u requests are not complete after %u ms; call it "
					      "again, or weft_qp_abort()",
					      qp->told - qp->ring->sq_done, timeout_ms);
		usleep(wait);
		wait = wait < LOOK_MAX_US ? 2 * wait : LOOK_MAX_US;
	}
	return weft_qp_state(qp) == WEFT_QPS_ERR ? weft_qp_dead(qp) : 0;
}

int weft_qp_resume(struct weft_qp *qp)
{
	if (weft_qp_state(qp) == WEFT_QPS_ERR)
		return weft_qp_dead(qp);
	__atomic_store_n(&qp->drained, false, __ATOMIC_RELEASE);
	weft_post_held(qp);
	return 0;
}

int weft_qp_disconnect(struct weft_qp *qp, uint32_t timeout_ms)
{
	int err = weft_qp_drain(qp, timeout_ms);

	return err ? err : weft_qp_abort(qp);
}

int weft_qp_abort(struct weft_qp *qp)
{
	if (weft_qp_state(qp) == WEFT_QPS_ERR || !weft_qp_fail_begin(qp, WEFT_WC_FLUSH_ERR))
		return weft_qp_dead(qp);
	weft_qp_fail_stop(&qp, 1);
	weft_qp_fail_end(qp);
	return 0;
}
