/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Failures of what the library calls: the k-th call of the thread that asked for it fails. */
#ifndef WEFT_TESTS_INJECT_SHIM_H
#define WEFT_TESTS_INJECT_SHIM_H

/* From now on count this thread's calls; the k-th (from 1) fails, 0: none. */
void inject_arm(unsigned k);

void inject_seed(unsigned seed); /* of what the calls fail with */

/* How many calls there were; *name: what has failed, NULL: nothing. Disarms. */
unsigned inject_end(const char **name);

long inject_blocks(void); /* memory blocks of the library that are not freed, all threads */

/* From now on programs are loaded that do nothing, which costs the verifier nothing. */
void inject_short_programs(bool on);

#endif
