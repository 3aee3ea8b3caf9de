/* lint: what a candidate's syntax tree tells before anything runs. Errors make a candidate hopeless
 * whatever it does at run time, so it can be rejected in a millisecond; notes go into records and
 * feedback. It is not the guard: it stops no cheat (that is the tape's work), and in doubt it keeps
 * quiet, because a rejected honest kernel costs more than a hopeless one that is traced. Nothing is
 * executed; any bytes are legal input.
 *
 *   struct lint_report r;
 *   if (lint_source(src, len, &r) == 0 && r.errors == 0) ... worth tracing ...
 */
#ifndef HONE_LINT_H
#define HONE_LINT_H
#include "base/base.h"

#define LINT_SOURCE_BYTES_MAX ((size_t)256 << 10)
#define LINT_FINDINGS_MAX 64

/* Reason codes as verdicts print them. The first LINT_NOTES_FROM are errors. */
#define LINT_CODE_TABLE(X) \
	X(LINT_TOO_LARGE,      "too-large",         "longer than LINT_SOURCE_BYTES_MAX") \
	X(LINT_SYNTAX,         "syntax-error",      "no Python parser would take it") \
	X(LINT_NO_MODEL_NEW,   "no-model-new",      "nothing named ModelNew is defined") \
	X(LINT_NO_JIT,         "no-jit",            "nothing is decorated with or passed to triton.jit") \
	X(LINT_JIT_UNUSED,     "jit-unused",        "no jitted function is ever referred to") \
	X(LINT_SYNTAX_DOUBT,   "syntax-doubt", \
		"not parsed, but at a place where the grammar is known to miss legal Python") \
	X(LINT_TRY,            "try-except",        "try statement: often a quiet fallback to torch") \
	X(LINT_TORCH_COMPUTE,  "torch-compute", \
		"a torch function or tensor method that computes, outside __init__ and kernels") \
	X(LINT_MODULE_CALL,    "module-call",       "an nn.Module built in __init__ is called") \
	X(LINT_MATMUL_SIGN,    "matmul-operator",   "the @ operator outside kernels") \
	X(LINT_IMPORT,         "suspicious-import", "a module that kernels have no use for") \
	X(LINT_DYNAMIC,        "dynamic-code",      "exec, eval, __import__, globals and their like") \
	X(LINT_INHERITS_MODEL, "inherits-model",    "ModelNew derives from the reference") \
	X(LINT_JIT_IDLE,       "jit-idle",          "a jitted function that nothing refers to, beside others that are used")
#define X(e, t, d) e,
enum lint_code { LINT_CODE_TABLE(X) LINT_CODE_COUNT };
#undef X
#define LINT_NOTES_FROM LINT_SYNTAX_DOUBT

const char *lint_code_name(enum lint_code c);
static inline bool lint_is_error(enum lint_code c) { return c < LINT_NOTES_FROM; }

struct lint_finding {
	enum lint_code code;
	int line;       /* from 1; 0: the source lacks something as a whole */
	int column;     /* likewise */
	char text[160]; /* names what was found, printable ASCII */
};
struct lint_report {
	int errors;                                      /* all of them, also those that found no room below */
	int notes;                                       /* likewise */
	int count;                                       /* of findings */
	struct lint_finding findings[LINT_FINDINGS_MAX]; /* errors first, then by line */
};

/* ERR_OK whenever the report is filled, errors or not; ERR_INFRA when the parser could not be set
 * up or ran past its time (then the report is empty and nothing is known about the source). */
int lint_source(const char *src, size_t len, struct lint_report *out);
#endif
