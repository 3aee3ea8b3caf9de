/* ttir: Triton IR text as a tree.
 *
 * The parser knows MLIR's syntax, not Triton's operations: an operation becomes its name, operands
 * in bracket groups, keywords, attributes, types, successors and regions, whatever order its pretty
 * form puts them in. What an operation means, and which of these it may have, is decided by the
 * table in vm/lower/lower_table.c. Only what opens a region has syntax of its own (func, for,
 * while, if, and the generic form that Triton prints for reduce and scan).
 *
 * Everything lives in one arena; slices point into the text, which must outlive the tree. */
#ifndef HONE_TTIR_H
#define HONE_TTIR_H
#include "base/base.h"

#define TTIR_TEXT_BYTES_MAX ((size_t)4 << 20)
#define TTIR_OPS_MAX 65536
#define TTIR_DEPTH_MAX 48          /* nested regions, types, attributes, locations */
#define TTIR_TYPES_MAX 2048
#define TTIR_LOCS_MAX 65536
#define TTIR_FUNCS_MAX 1024
#define TTIR_BLOCKS_MAX 4096       /* of one region */
#define TTIR_LIST_MAX 1024         /* operands, results, arguments, attributes of one operation */
#define TTIR_DIMS_MAX 20
#define TTIR_ELEMENTS_MAX ((int64_t)1 << 20)   /* of one block: Triton's own limit */

/*        elem        text           bytes  int? float? */
#define ELEM_TABLE(X) \
	X(ELEM_I1,     "i1",         1, 1, 0) X(ELEM_I8,     "i8",         1, 1, 0) X(ELEM_I16,    "i16",        2, 1, 0) \
	X(ELEM_I32,    "i32",        4, 1, 0) X(ELEM_I64,    "i64",        8, 1, 0) X(ELEM_F8E4M3, "f8E4M3FN",   1, 0, 1) \
	X(ELEM_F8E5M2, "f8E5M2",     1, 0, 1) X(ELEM_F16,    "f16",        2, 0, 1) X(ELEM_BF16,   "bf16",       2, 0, 1) \
	X(ELEM_F32,    "f32",        4, 0, 1) X(ELEM_F64,    "f64",        8, 0, 1) X(ELEM_PTR,    "pointer",    8, 0, 0)
#define X(e, ...) e,
enum elem { ELEM_TABLE(X) ELEM_COUNT };
#undef X
size_t elem_bytes(enum elem e);
bool elem_is_int(enum elem e);
bool elem_is_float(enum elem e);
bool elem_is_narrow(enum elem e); /* a float of less than 32 bits: computed in f32 */
bool elem_is_wide(enum elem e);   /* any other float */
const char *elem_name(enum elem e);

/* Types are interned: two types are equal when their ids are. */
enum type_kind { TYPE_SCALAR, TYPE_TENSOR, TYPE_BLOCK_PTR, TYPE_DESC };
struct ttir_type {
	enum type_kind kind;
	enum elem elem; /* scalar, tensor; of a pointer: ELEM_PTR */
	int inner; /* scalar pointer: what it points to; tensor: its scalar type; block pointer and descriptor: the tensor
				  type */
	int ndim;  /* tensor */
	int32_t shape[TTIR_DIMS_MAX];
	int64_t count; /* elements; 1 for a scalar */
	int next;      /* hash chain */
};

enum loc_kind { LOC_UNKNOWN, LOC_FILE, LOC_NAMED, LOC_CALLSITE, LOC_ALIAS };
struct ttir_loc {
	enum loc_kind kind;
	struct slice file; /* an alias has its name here */
	int line;          /* of a file's place */
	int column;
	int a; /* named: child; callsite: callee; alias: what it is, once resolved; -1: none */
	int b; /* callsite: caller; else -1 */
};

enum attr_kind { ATTR_UNIT, ATTR_BOOL, ATTR_NUMBER, ATTR_STRING, ATTR_KEYWORD, ATTR_INTS, ATTR_DENSE, ATTR_OTHER };
struct ttir_attr {
	struct slice key;
	enum attr_kind kind;
	struct slice text; /* number, string (without quotes), keyword; dense of a hex string: its digits */
	int64_t i;         /* bool; number when it is an integer */
	int nitems;
	struct slice *items; /* dense: element tokens, one for a splat */
	int64_t *ints;       /* array<i32: ...> */
	int type;            /* of a typed number or dense, else -1 */
};

struct ttir_use { /* %name#index */
	struct slice name;
	int index;
	int group; /* brackets before it */
};
struct ttir_arg {
	struct slice name;
	int type;
	int64_t divisibility; /* of a function's argument, as its attribute promises; 0: nothing */
};
struct ttir_region;
struct ttir_target {
	struct slice label;
	int nuses;
	struct ttir_use *uses;
};

struct ttir_op {
	struct slice name;
	int line; /* in the text */
	int column;
	int loc; /* into the module's locs */
	int nresults;
	struct ttir_use *results; /* index: how many values the name stands for */
	int nuses;
	struct ttir_use *uses;
	int nattrs;
	struct ttir_attr *attrs; /* of {...}, <{...}> and key = value */
	int nwords;
	struct slice *words; /* bare keywords in order: slt, fadd, acq_rel */
	int nliterals;
	struct ttir_attr *literals; /* numbers, strings, dense<...> among the operands */
	struct slice symbol;        /* @callee */
	int ntypes;
	int *types;
	int nresult_types; /* all written types; the last nresult_types stand after -> or to */
	int ntargets;
	struct ttir_target *targets;
	int nregions;
	struct ttir_region *regions;
	bool is_generic;
	struct ttir_op *next;
};
struct ttir_block {
	struct slice label;
	int nargs;
	struct ttir_arg *args;
	struct ttir_op *first;
	struct ttir_op *last;
	struct ttir_block *next;
};
struct ttir_region {
	struct ttir_block *first;
};
struct ttir_func {
	struct slice name;
	bool is_public;
	bool has_body;
	int loc;
	int nargs;
	struct ttir_arg *args;
	int nresults;
	int *results;
	struct ttir_region body;
	struct ttir_func *next;
};
struct ttir_module {
	struct arena arena;
	struct ttir_func *funcs;
	int ntypes;
	struct ttir_type *types;
	int type_buckets[256];
	int nlocs;
	int locs_cap;
	struct ttir_loc *locs;
	int nops;
	/* Of name hashes. It depends on the whole text, so that nobody can write a text whose own names
	 * collide. */
	uint32_t seed;
};

/* ERR_FORMAT with line and column; ERR_UNSUPPORTED for types and syntax that this parser does not
 * know; ERR_LIMIT for more than the limits above. */
int ttir_parse(const char *text, size_t len, struct ttir_module *m, struct err *err);
void ttir_release(struct ttir_module *m);

/* Finds the id, adding the type when it is new; a negative code when the table is full. */
int ttir_type_intern(struct ttir_module *m, const struct ttir_type *t);
int ttir_type_scalar(struct ttir_module *m, enum elem e);
void ttir_type_text(const struct ttir_module *m, int type, struct str *out);
uint32_t slice_hash(struct slice s, uint32_t seed);
#endif
