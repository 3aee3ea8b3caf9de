/* task_redteam_forms: candidates that are wrong in another way than one line of a kernel: by the
 * order of what they launch, by what Triton or the allocator makes of them, by what they draw. Each
 * is a text of its own, with places for a base, a number and a payload (task_redteam.c). */
#ifndef HONE_TASK_REDTEAM_FORMS_H
#define HONE_TASK_REDTEAM_FORMS_H
#include <stddef.h>

enum redteam_rows { /* the task that a form answers */
	REDTEAM_ROWS,   /* rows of 72 */
	REDTEAM_BLOCKS, /* rows of 64: a size that a block of tl.arange may be */
	REDTEAM_NOISE,  /* rows of 72, to which forward adds what it draws */
	REDTEAM_ROWS_COUNT
};
#define REDTEAM_NUMBERS 6
struct redteam_form {
	const char *name;
	const char *family;
	enum redteam_rows rows;
	const char *source;                   /* $Y: y of x, $N: the number, $P: what is wrong, of x and y */
	const char *numbers[REDTEAM_NUMBERS]; /* as Python writes them, a name before each "|"; NULL behind the last */
};
extern const struct redteam_form redteam_forms[];
extern const size_t redteam_nforms;
#endif
