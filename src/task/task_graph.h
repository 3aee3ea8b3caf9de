/* The expression graph that a composed task is printed from; private to the task room.
 *
 * A graph is a list of nodes in the order in which forward computes them. Leaves are inputs and
 * parameters; every other node applies one row of the operator table (task_ops.c) to earlier nodes.
 * PyTorch source (task_source.c), Triton answers (task_answer.c, task_kernel.c), the structure
 * string and a small evaluation on the CPU (task_check_graph.c) all read this one description, so
 * they cannot drift apart. */
#ifndef HONE_TASK_GRAPH_H
#define HONE_TASK_GRAPH_H
#include "base/base.h"
#include "task/task.h"

#define GRAPH_NODES_MAX 40
#define GRAPH_DIMS_MAX 8
#define GRAPH_NAME_BYTES 24
#define SHAPE_DIMS_MAX 3

enum op_kind {
	OP_UNARY,  /* one operand, element by element */
	OP_BINARY, /* two operands, broadcast */
	OP_WHERE,  /* condition (always an input, so that rounding cannot flip it), two values */
	OP_REDUCE, /* last dimension to one value */
	OP_ROW,    /* last dimension to the same shape: softmax, norms */
	OP_MATMUL  /* (M, K) by (K, N) or by the transpose of (N, K), optional bias (N) */
};

/* Which constants an operator carries, and from which values they are drawn. */
enum const_kind {
	CONST_NONE,
	CONST_ADD,
	CONST_MUL,
	CONST_SLOPE,
	CONST_EPS,
	CONST_BOUND,
	CONST_RANGE,
	CONST_ALPHA,
	CONST_MIX,
	CONST_SHRINK,
	CONST_COUNT
};

/* Templates: $a $b $c operands, $k $l constants, $o the result, $m the mask of valid columns, $K
 * the keepdim argument. PyTorch templates are expressions; a Triton template without $o is an
 * expression, with $o it is one or more statements. */
struct op_def {
	const char *name;  /* in structure strings */
	const char *words; /* in plans */
	enum op_kind kind;
	enum const_kind consts;
	const char *torch[2]; /* spellings; the second may be NULL */
	const char *triton;
	double (*eval)(double a, double b, double c, const double *k); /* element-wise kinds */
	void (*eval_row)(const double *a, int n, double *out);         /* OP_REDUCE: out[1], OP_ROW: out[n] */
	double arg_max; /* largest sensible |operand| where the result is sensitive to it (sin, exp); 0: no limit */
};
const struct op_def *op_find(struct slice name);                /* NULL when there is none */
const struct op_def *op_get(const char *name);                  /* CHECKs that it exists */
const struct op_def *op_list(enum op_kind kind, size_t *count); /* the rows of one kind, contiguous in the table */

enum node_role { NODE_INPUT, NODE_PARAM, NODE_OP };

#define DIM_ONE (-1)   /* a dimension of size 1 left by keepdim */
struct shape {
	int ndim;
	int dim[SHAPE_DIMS_MAX];
}; /* indices into graph.dims, or DIM_ONE */

struct node {
	enum node_role role;
	const struct op_def *op; /* NODE_OP */
	int args[3];             /* nodes that it takes */
	int nargs;
	double k[2];     /* constants of the operator */
	int spelling;    /* which of the ways to write it */
	bool keep;       /* OP_REDUCE: keepdim */
	bool transposed; /* OP_MATMUL: the second operand is stored (N, K) */
	bool has_module; /* parameters belong to an nn.Module that the node calls: module */
	struct shape shape;
	char name[GRAPH_NAME_BYTES];     /* variable that holds the value; leaves: fixed, ops: graph_name_values */
	char module[GRAPH_NAME_BYTES];   /* "linear1", "norm" */
	char host[2 * GRAPH_NAME_BYTES]; /* parameters: expression in forward, "self.linear1.weight" */
};

/* A size of the task: a module-level constant, so that it can be varied. sim is the size that the
 * check evaluates with. */
struct dim {
	char name[GRAPH_NAME_BYTES];
	char arg[GRAPH_NAME_BYTES];
	int value;
	int sim;
	int judged; /* the value at which answers are checked; 0: value */
	bool is_init_arg;
};

struct task_graph {
	const char *family; /* prefix of the structure string */
	int level;          /* what the family is reckoned to */
	int rung;           /* likewise, of the ladder */
	struct node nodes[GRAPH_NODES_MAX];
	int count;
	struct dim dims[GRAPH_DIMS_MAX];
	int ndims;
};

/* ---- building (task_graph.c) ---- */

int graph_dim(struct task_graph *g, const char *name, int value, int sim);
int graph_input(struct task_graph *g, const char *name, struct shape shape);
int graph_param(struct task_graph *g, const char *name, const char *module, struct shape shape);
/* Appends an operator; shape follows from the operands. b and c are -1 where the kind has fewer
 * operands. Returns the node. */
int graph_op(struct task_graph *g, const struct op_def *op, int a, int b, int c);
/* Turns a reduction into one with keepdim. */
void graph_keep(struct task_graph *g, int node);
struct shape shape_of(int ndim, const int *dims);
bool shape_equal(const struct shape *a, const struct shape *b);
/* The last node that reads this node's value; the node itself when none does. */
int graph_last_use(const struct task_graph *g, int node);
void graph_name_values(struct task_graph *g);
void graph_structure(const struct task_graph *g, struct str *out);

/* ---- composing (task_compose.c) ---- */

/* Deterministic in (level, seed). */
void graph_compose(struct task_graph *g, int level, uint64_t seed);
/* Deterministic in (rung, seed): sizes of 2^22 elements and more, checked at small ones. */
void graph_compose_rung(struct task_graph *g, int rung, uint64_t seed);
/* A size between lo and hi, spread evenly over magnitudes. */
int size_draw(struct rng *r, int lo, int hi);
/* graph_op with one operand, constants and spelling drawn. */
int graph_op_draw(struct task_graph *g, struct rng *r, const struct op_def *op, int a);
/* Evaluates the graph on a few rows: finite, not constant, well conditioned, every operator and
 * every input matters (task_check_graph.c). */
bool graph_is_sound(const struct task_graph *g, uint64_t seed);

/* ---- printing ---- */

void graph_source(const struct task_graph *g, struct str *out); /* the task's PyTorch module (task_source.c) */
/* __init__ of Model and of ModelNew alike; nothing when there is no parameter. */
void graph_init_method(const struct task_graph *g, struct str *out);
void graph_forward_args(const struct task_graph *g, struct str *out); /* "x, y" */
void template_expand(struct str *out, const char *template, const struct task_graph *g, int node, const char *mask);

/* A kernel of an answer: nodes [first, last] in one launch, result = node last. */
enum segment_kind { SEGMENT_FLAT, SEGMENT_ROW, SEGMENT_MATMUL };
struct segment {
	enum segment_kind kind;
	int first;
	int last;
	int reads[GRAPH_NODES_MAX];
	int nreads;
	struct shape space;
	bool reads_cols;
};
struct answer_style {
	const char *kernel; /* name of the only kernel */
	const char *offs;   /* names of the answer's variables, as the next three */
	const char *mask;
	const char *block;
	const char *out;
	const char *ptr;   /* printf form of a pointer argument */
	const char *other; /* third argument of tl.load, "" or ", other=0.0" */
	enum { GRID_TUPLE, GRID_LAMBDA, GRID_INLINE } grid;
	int block_size;
	int warps; /* 0: Triton's default */
	int tile_m;
	int tile_n;
	int tile_k;
	bool contiguous;
	bool is_slow;
};
void style_pointer(const struct answer_style *style, const char *name, struct str *out); /* a pointer argument's name */
int graph_segments(const struct task_graph *g, bool is_slow, struct segment *out); /* returns the number of segments */
void kernel_print(const struct task_graph *g, const struct segment *s, const struct answer_style *style,
	const char *name, struct str *out);
/* Class of a value as seen from a kernel's index space: whole, one value a column, one value a row.
 */
enum access { ACCESS_FULL, ACCESS_COLS, ACCESS_ROWS };
enum access access_of(const struct task_graph *g, const struct shape *space, int node);

/* ---- Python text (task_python.c) ---- */

/* One token at a time over Python text; knows strings, comments, brackets and line joining, nothing
 * of the grammar. */
enum py_token { PY_END, PY_NAME, PY_NUMBER, PY_STRING, PY_OP, PY_NEWLINE, PY_BAD };
struct py_scanner {
	const char *src;
	size_t len;
	size_t pos;
	int line;
	int brackets; /* that are open */
	bool at_line_start;
	int indent;
};
void py_scanner_init(struct py_scanner *s, const char *src, size_t len);
/* s->indent holds the width of the current logical line's indentation. */
enum py_token py_scanner_next(struct py_scanner *s, struct slice *text);
struct sha256_hex task_source_hash(const char *src, size_t len);

#endif
