/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The reaper's executable as bytes inside the library: it needs no file that could go missing. */
	.section .rodata, "a"
	.balign 16
	.globl weft_reaper_blob
	.hidden weft_reaper_blob
	.type weft_reaper_blob, %object
weft_reaper_blob:
	.incbin WEFT_REAPER_FILE
	.globl weft_reaper_blob_end
	.hidden weft_reaper_blob_end
	.type weft_reaper_blob_end, %object
weft_reaper_blob_end:
	.byte 0
	.section .note.GNU-stack, "", %progbits
