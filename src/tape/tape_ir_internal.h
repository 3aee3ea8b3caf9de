/* tape_ir_internal: the reader of an answer in IR: words and expressions of its head
 * (tape_ir_words.c), its modules (tape_ir_module.c), and what is made of both (tape_ir.c). */
#ifndef HONE_TAPE_IR_INTERNAL_H
#define HONE_TAPE_IR_INTERNAL_H
#include "base/base.h"
#include "base/dtype.h"
#include "tape/tape_ir.h"

#define NAME_BYTES_MAX 63
#define NAMES_MAX 256      /* sizes, and as many buffers */
#define NEST_MAX 32        /* of an expression */
#define KERNELS_MAX 16     /* modules of one answer */
#define ROWS_MAX 256

/* What a name of the head stands for. */
struct name {
	struct slice text;
	bool is_buffer;
	int64_t value;    /* of a size */
	int buffer;       /* on the tape */
	enum dtype dtype; /* of a buffer */
	int64_t elements; /* of a buffer */
};
struct module {
	struct slice name; /* of its public function */
	struct slice text;
	int line; /* of its first */
};
/* The reader's state: the head's line at hand, and what was said so far. */
struct reader {
	const struct tape_ir_sizes *sizes;
	const char *at;  /* in the line */
	const char *end; /* of the line */
	int line;
	int nest;
	int nnames;
	struct name names[NAMES_MAX];
	int ninputs; /* input lines so far */
	int nmodules;
	struct module modules[KERNELS_MAX];
	json_t *buffers;
	json_t *kernels;
	json_t *rows;
	json_t *outputs;
	struct err *err;
};

/* Sets the reader's error, with its line in front. */
int ir_bad(struct reader *r, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* ---- words of the line at hand; each steps over blanks in front ---- */

void ir_skip_blanks(struct reader *r);
bool ir_take(struct reader *r, char c);
int ir_expect(struct reader *r, char c);
bool ir_is_word(char c, bool is_first);
int ir_take_name(struct reader *r, const char *what, struct slice *out);
struct name *ir_find(struct reader *r, struct slice text); /* NULL: nothing has that name */
int ir_add_name(struct reader *r, const struct name *n);
/* Whole numbers, sizes, + - * / % with / rounding down, cdiv, min, max, next_pow2. */
int ir_expression(struct reader *r, int64_t *out);

/* From the first line behind the head, number `line`: each line that begins with "module" begins
 * another one. Texts lie in the arena. */
int ir_modules_read(struct reader *r, const char *at, const char *end, int line, struct arena *arena);
const char *ir_line_end(const char *at, const char *end);
#endif
