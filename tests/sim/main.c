/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* weft-sim: runs seeds of the simulator, the systematic tests, and prints totals. */
#include <getopt.h>

#include "sim.h"

static void usage(FILE *out)
{
	fputs("usage: weft-sim [--seeds N] [--start S] [-v]\n"
	      "         the systematic tests, then N seeds from S on (1000 from 1)\n"
	      "       weft-sim --first [--seeds N] [--start S] [-v]\n"
	      "         nothing but seeds, up to the first that fails\n"
	      "       weft-sim --seed X [-v]\n"
	      "         one seed\n"
	      "       weft-sim --i2 | --i7 | --alone | --single [-v]\n"
	      "         duplicates against advance, posts against absorption in every order |\n"
	      "         processes stopped once all is posted, nothing lost | each single frame\n"
	      "         lost in turn\n",
	      out);
}

static void print_params(void)
{
	const struct params *p = &W.p;

	printf("# qps %u cpus %u/%u nev %u payload %u cwnd %u budget %u/%u segs %u psn0 %#x msn0 %#x "
	       "tick0 %#x\n",
	       p->qps, p->cpus[0], p->cpus[1], p->nev, p->payload, p->cwnd, p->budget, p->hard,
	       p->segs, p->psn0, p->msn0, p->tick0);
	printf("# per 2^20: loss %u dup %u reorder %u corrupt %u+%u ce %u xmit %u bell %u stall %u "
	       "preempt %u\n",
	       p->loss, p->dup, p->reorder, p->corrupt, p->payload_corrupt, p->ce, p->xmit_fail,
	       p->db_loss, p->stall, p->preempt);
	printf("# ns: delay %u jitter %u reorder %u stall %u look %u; mix %u%s%s%s%s%s%s%s%s%s%s%s%s\n",
	       p->delay, p->jitter, p->reorder_by, p->stall_by, p->look, p->mix,
	       p->dup_acks ? " dup-acks" : "", p->forge ? " forge" : "", p->nak ? " nak" : "",
	       p->reset ? " reset" : "", p->pinned ? " pinned" : "", p->cut_cwnd ? " cut-cwnd" : "",
	       p->outage ? " outage" : "", p->mono ? " mono" : "", p->lonely ? " lonely" : "",
	       p->parts ? " parts" : "", p->plain ? " plain" : "", p->gone ? " gone" : "");
	if (p->strict)
		printf("# strict order%s%s\n", p->frees ? ", but for what is free" : "",
		       p->overlap ? ", of the same bytes" : "");
	if (p->many)
		puts("# several WRITEs in a packet");
	if (p->depth > WEFT_SQ_DEPTH)
		printf("# queues of %u\n", p->depth);
	printf("# receives: %u entries, %s, style %u within %u ns; SENDs up to %u segments; numbers "
	       "from %#x, %#x\n",
	       p->rq_depth, p->srq ? "shared" : "a queue each", p->rq_style, p->rq_by, p->send_segs,
	       p->rsn0, p->rq0);
}

static void print_stats(const struct stats *s)
{
	printf("# %llu packets (%llu again, %llu convicted wrongly), %llu ACKs, %llu NAKs, "
	       "%llu messages, %llu bytes\n",
	       (unsigned long long)s->packets, (unsigned long long)s->retransmits,
	       (unsigned long long)s->spurious, (unsigned long long)s->acks,
	       (unsigned long long)s->naks, (unsigned long long)s->messages,
	       (unsigned long long)s->bytes);
	printf("# frames: %llu lost, %llu corrupted, %llu duplicated, %llu reordered, %llu marked, "
	       "%llu beyond a queue, %llu forged\n",
	       (unsigned long long)s->lost, (unsigned long long)s->corrupted,
	       (unsigned long long)s->duplicated, (unsigned long long)s->reordered,
	       (unsigned long long)s->marked, (unsigned long long)s->overflow,
	       (unsigned long long)s->forged);
	printf("# receiver: %llu placed before, %llu being placed, %llu claims given back, "
	       "%llu out of window; "
	       "%llu late ACKs; %llu times window full, %llu rescues, %llu CPUs started, "
	       "%llu tokens given up, %llu time-outs, %llu doorbells, %llu stalls, %llu resets, "
	       "%llu refused\n",
	       (unsigned long long)s->dups, (unsigned long long)s->busy,
	       (unsigned long long)s->given_back, (unsigned long long)s->out_of_window,
	       (unsigned long long)s->unsent, (unsigned long long)s->full,
	       (unsigned long long)s->rescued, (unsigned long long)s->moved,
	       (unsigned long long)s->yielded, (unsigned long long)s->timeouts,
	       (unsigned long long)s->doorbells, (unsigned long long)s->stalls,
	       (unsigned long long)s->resets, (unsigned long long)s->refused);
	printf("# %llu ACKs of many, %llu more without the lock, %llu times that was reclaimed first, %llu times foreign\n",
	       (unsigned long long)s->bulk, (unsigned long long)s->lent,
	       (unsigned long long)s->reclaimed, (unsigned long long)s->disowned);
	printf("# %llu READs, %llu atomics, %llu WRITEs in parts; %llu results recalled, %llu no "
	       "more; %llu late answers, %llu of them beside the first; %llu answers without bytes, "
	       "%llu READs of what is gone\n",
	       (unsigned long long)s->reads, (unsigned long long)s->atomics,
	       (unsigned long long)s->in_parts, (unsigned long long)s->recalled,
	       (unsigned long long)s->forgotten, (unsigned long long)s->late,
	       (unsigned long long)s->met, (unsigned long long)s->plain,
	       (unsigned long long)s->gone);
	printf("# %llu SENDs, %llu messages with immediate data; %llu received, %llu refused, %llu "
	       "RESUMEs, %llu probes, %llu of them let in, %llu receives found at the second look; "
	       "%llu not the next in strict order, %llu times one overtook another\n",
	       (unsigned long long)s->sends, (unsigned long long)s->imms,
	       (unsigned long long)s->received, (unsigned long long)s->rnrs,
	       (unsigned long long)s->resumes, (unsigned long long)s->probes,
	       (unsigned long long)s->found, (unsigned long long)s->again,
	       (unsigned long long)s->seqs, (unsigned long long)s->overtook);
	printf("# %llu posts into deep queues, %llu claims without a copy for them, %llu without the "
	       "right ring\n",
	       (unsigned long long)s->deep, (unsigned long long)s->held,
	       (unsigned long long)s->turned);
	printf("# %llu WRITEs joined others in a packet, %llu went out in one again, %llu packets "
	       "refused in part\n",
	       (unsigned long long)s->joined, (unsigned long long)s->joined_again,
	       (unsigned long long)s->in_part);
}

static int one_seed(uint64_t seed, int verbose)
{
	int rc = world_run(seed, NULL, ~0ull);

	if (verbose)
		print_params();
	if (rc) {
		printf("# seed %llu: %s\n", (unsigned long long)seed, W.why);
		printf("# replay: build/tests/sim/weft-sim --seed %llu -v\n",
		       (unsigned long long)seed);
	} else if (W.st.packets + W.st.joined < 2000 && !W.p.nak) {
		printf("# seed %llu: only %llu packets\n", (unsigned long long)seed,
		       (unsigned long long)W.st.packets);
		rc = -1;
	}
	return rc;
}

static int seeds_run(uint64_t start, uint64_t n, uint64_t most, int verbose)
{
	uint64_t bad = 0;

	for (uint64_t s = start; s < start + n; s++) {
		int rc = one_seed(s, 0);

		if (verbose)
			printf("# seed %llu: %llu packets, %llu again, %u lost, %llu time-outs, "
			       "%llu ms, %u+%u CPUs\n",
			       (unsigned long long)s, (unsigned long long)W.st.packets,
			       (unsigned long long)W.st.retransmits, W.lost_tokens,
			       (unsigned long long)W.st.timeouts, (unsigned long long)(W.now / MS),
			       W.p.cpus[0], W.p.cpus[1]);
		if (rc && ++bad >= most)
			break;
		fflush(stdout);
	}
	return bad != 0;
}

/* Many seeds show nothing of what none of them has met. */
static int all_met(const struct stats *s)
{
	static const char *const what[] = { "a READ",
					    "an atomic",
					    "a WRITE in parts",
					    "a result recalled",
					    "a late answer",
					    "an answer beside the first",
					    "an answer without bytes",
					    "a READ of what is gone",
					    "a SEND",
					    "immediate data",
					    "a message received",
					    "an RNR",
					    "a RESUME",
					    "a probe",
					    "a receive found at the second look",
					    "a SEQ",
					    "one that overtook another in strict order",
					    "several WRITEs in a packet",
					    "the same sent again",
					    "one refused among several" };
	const uint64_t n[] = { s->reads,    s->atomics,  s->in_parts, s->recalled,     s->late,
			       s->met,      s->plain,    s->gone,     s->sends,        s->imms,
			       s->received, s->rnrs,     s->resumes,  s->probes,       s->again,
			       s->seqs,     s->overtook, s->joined,   s->joined_again, s->in_part };
	int rc = 0;

	for (size_t i = 0; i < sizeof(n) / sizeof(*n) && s->seeds >= 100; i++)
		if (!n[i]) {
			printf("# no seed has met %s\n", what[i]);
			rc = 1;
		}
	return rc;
}

#define NO_TWO_OWNERS "I2: no packet has two owners in any order of steps"
#define ALONE         "I9: all that was posted arrives and completes without the processes"

static void verdict(int rc, int n, const char *what)
{
	printf("%s %d - %s\n", rc ? "not ok" : "ok", n, what);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	enum {
		OPT_SEEDS = 1,
		OPT_START,
		OPT_SEED,
		OPT_I2,
		OPT_I7,
		OPT_ALONE,
		OPT_SINGLE,
		OPT_FIRST
	};
	static const struct option opts[] = {
		{ "seeds", 1, NULL, OPT_SEEDS }, { "start", 1, NULL, OPT_START },
		{ "seed", 1, NULL, OPT_SEED },   { "i2", 0, NULL, OPT_I2 },
		{ "i7", 0, NULL, OPT_I7 },       { "single", 0, NULL, OPT_SINGLE },
		{ "first", 0, NULL, OPT_FIRST }, { "alone", 0, NULL, OPT_ALONE },
		{ "help", 0, NULL, 'h' },        { NULL, 0, NULL, 0 },
	};
	uint64_t seeds = 1000, start = 1, seed = 0;
	int mode = OPT_SEEDS, verbose = 0, bad = 0, c, rc;
	char what[96];

	while ((c = getopt_long(argc, argv, "vh", opts, NULL)) != -1) {
		switch (c) {
		case OPT_SEEDS: seeds = strtoull(optarg, NULL, 0); break;
		case OPT_START: start = strtoull(optarg, NULL, 0); break;
		case OPT_SEED:
			seed = strtoull(optarg, NULL, 0);
			mode = OPT_SEED;
			break;
		case OPT_I2:
		case OPT_I7:
		case OPT_ALONE:
		case OPT_SINGLE:
		case OPT_FIRST: mode = c; break;
		case 'v': verbose = 1; break;
		case 'h': usage(stdout); return 0;
		default: usage(stderr); return 2;
		}
	}
	/* a run of no seeds would pass */
	if (optind != argc || !seeds) {
		usage(stderr);
		return 2;
	}
	rng_seed(0);
	for (size_t i = 0; i < sizeof(sim_src); i++)
		sim_src[i] = rng();

	switch (mode) {
	case OPT_I2:
		rc = i2_run(verbose);
		verdict(rc, 1, NO_TWO_OWNERS);
		return rc != 0;
	case OPT_I7:
		rc = i7_run(verbose) || i7_recv_run(verbose);
		verdict(rc, 1, "I7: no wake-up is lost in any order of steps");
		return rc != 0;
	case OPT_ALONE:
		rc = alone_run(verbose);
		verdict(rc, 1, ALONE);
		return rc != 0;
	case OPT_SINGLE:
		rc = single_run(verbose);
		verdict(rc, 1, "I15: each single frame lost in turn");
		return rc != 0;
	case OPT_SEED:
		rc = one_seed(seed, 1);
		print_stats(&W.st);
		verdict(rc, 1, "the seed");
		return rc != 0;
	case OPT_FIRST: return seeds_run(start, seeds, 1, verbose);
	}
	rc = i2_run(0);
	verdict(rc, 1, NO_TWO_OWNERS);
	bad += rc != 0;
	rc = i7_run(0) || i7_recv_run(0);
	verdict(rc, 2, "I7: no wake-up is lost in any order of steps");
	bad += rc != 0;
	rc = alone_run(0);
	verdict(rc, 3, ALONE);
	bad += rc != 0;
	rc = single_run(0);
	verdict(rc, 4, "I15: each single frame lost in turn");
	bad += rc != 0;
	memset(&total, 0, sizeof(total));
	rc = seeds_run(start, seeds, 10, verbose) | all_met(&total);
	bad += rc != 0;
	print_stats(&total);
	snprintf(what, sizeof(what), "%llu seeds from %llu", (unsigned long long)total.seeds,
		 (unsigned long long)start);
	verdict(rc, 5, what);
	puts("1..5");
	return bad != 0;
}
