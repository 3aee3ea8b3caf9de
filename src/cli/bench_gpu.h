/* bench gpu, within: the command, its shapes, bars and what is printed are bench_gpu.c; the parts
 * that measure are bench_gpu_parts.c, on sizes of bench_gpu_sizes.c. */
#ifndef HONE_CLI_BENCH_GPU_H
#define HONE_CLI_BENCH_GPU_H
#include "base/base.h"
#include "infer/infer.h"
#include "model/model.h"
#include "ops/ops.h"
#include "ranks/ranks.h"

#define GPU_RANK 16         /* of the adapter that is always on */
#define GPU_PROMPTS 8       /* of the rollout, */
#define GPU_ANSWERS 8       /* its answers to each, */
#define GPU_PROMPT 256      /* and tokens before an answer */
#define GPU_COPY_PAGE 32768 /* elements: each half of a copy has a multiple of so many */
/* The longest context and answer that can be asked for: a region of steps goes on behind the one,
 * and a prompt stands before the other. */
#define GPU_CONTEXT_MAX 1048576
#define GPU_CONTEXT_TEXT "1048576"
#define GPU_BATCHES_MAX 8
#define GPU_FIGURES_MAX 32
#define GPU_SKIPS_MAX (GPU_BATCHES_MAX + 8)
#define GPU_SKIP_TEXT 400

struct gpu_options {
	const char *device;
	const char *cuda_libs;
	const char *memory;
	const char *cuda_card;
	const char *shapes;
	const char *parts;
	const char *batches;
	int64_t layers;
	int64_t context; /* tokens of each sequence when it is decoded */
	int64_t tokens;  /* packed, of a training step */
	int64_t prefill; /* packed, of a prefill */
	int64_t answer;  /* tokens of one */
	int64_t repeats;
	int64_t ranks; /* processes of the part of that name */
	bool json;
};

enum bar_of {
	BAR_SHARE, /* of the ceiling */
	BAR_RATE,
	BAR_SECONDS /* at most */
};
struct bar {
	const char *key; /* of the figure */
	enum bar_of of;
	double must;
	double goal;
};
struct shape {
	const char *name;
	int hidden;
	int intermediate;
	int layers;
	int heads;
	int kv_heads;
	int head_dim;
	int vocab;
	bool is_tied; /* embedding and head are one */
	bool qk_norm;
	int context;                  /* tokens of a sequence when it is decoded */
	int batches[GPU_BATCHES_MAX]; /* sequences decoded at once; 0 ends them */
	const char *parts;            /* without --parts */
	struct bar bars[12];
};
struct figure {
	char key[32];
	char title[80];
	double value;     /* tok/s, FLOP/s or seconds */
	const char *unit; /* in which it is printed */
	double scale;     /* value in that unit */
	double ceiling;   /* in the value's own; 0: none is known */
	const char *ceiling_is;
	double low;  /* seconds of the fastest repeat */
	double high; /* and of the slowest; 0: there is one alone */
	const struct bar *bar;
};

struct gpu_bench {
	const struct gpu_options *o;
	const struct shape *shape;
	struct model_config c;
	struct ops *ops;
	struct model *m;
	struct adapter *a;
	uint16_t *noise; /* (noise_count) of bf16, as many as the largest parameter has */
	int64_t noise_count;
	double copy;         /* bytes a second */
	double product;      /* FLOP a second, sustained */
	double product_peak; /* FLOP a second, of its fastest moment */
	struct ranks *ranks; /* that make the same steps with their gradients summed; NULL: this process is alone */
	struct figure figures[GPU_FIGURES_MAX];
	int count;
	int told;                                   /* figures that were printed, and 1 for their heading; 0: nothing was */
	char skipped[GPU_SKIPS_MAX][GPU_SKIP_TEXT]; /* what this machine cannot show, and why */
	int nskipped;
};

/* ---- what is settled before anything is measured (bench_gpu_sizes.c) ---- */

struct model_config gpu_config(const struct shape *s, const struct gpu_options *o);
/* A name stands in a comma list; a part is asked for, or the shape's own. */
bool gpu_is_listed(const char *list, const char *name);
bool gpu_is_wanted(const struct gpu_bench *b, const char *part);
int gpu_context(const struct gpu_bench *b); /* tokens of a sequence when it is decoded */
/* Of a step of so many sequences, as many in one go as the engine makes. */
struct step_options gpu_decode_step(const struct gpu_bench *b, int batch);
/* That the copy's ceiling is measured on: less than usual where less is free. */
size_t gpu_copy_bytes(const struct gpu_bench *b);
/* Rows and columns of the product's ceiling; bytes of one of its matrices, of which it has five: x
 * and y have twice as many rows. */
int gpu_product_side(const struct ops *o);
size_t gpu_product_bytes(const struct ops *o);
/* Whether there is room for the ceilings at all. */
int gpu_ceilings_check(const struct gpu_bench *b, struct err *err);
struct engine_options gpu_rollout_engine(const struct gpu_bench *b);
/* Of training by such a pass, with the rollout's engine where that part is wanted, beside weights,
 * gradients and moments that stand already. */
size_t gpu_training_bytes(const struct gpu_bench *b, const struct pass_options *po);
/* Whether that is more than is left, so that norms and gates are computed again, as a run does. */
bool gpu_recomputes(const struct gpu_bench *b, const struct pass_options *po);

/* ---- what measures ---- */

/* A new figure with the bar that its shape has for it, if the sizes are those that bars are of. */
struct figure *gpu_figure_add(struct gpu_bench *b, const char *key, const char *title, double value, const char *unit,
	double scale, double ceiling, const char *ceiling_is);
/* Prints the figures that it has not printed yet. */
void gpu_tell(struct gpu_bench *b);
/* Measures the parts that are wanted, tells of each, and leaves their figures in b. */
int gpu_parts_run(struct gpu_bench *b, struct err *err);
/* The part ranks (bench_gpu_ranks.c): the rollout of one process, then of several at once,
 * each with a GPU of its own.
 */
int gpu_ranks_run(struct gpu_bench *b, struct err *err);
/* The part load (bench_gpu_load.c). Before the model goes: a folder with weights as it
 * has, in path, or none and a skip where there is no room. After it: the folder is
 * opened, twice, and removed. */
int gpu_load_prepare(struct gpu_bench *b, char *path, size_t room, struct err *err);
int gpu_load_run(struct gpu_bench *b, const char *path, struct err *err);
void gpu_skip(struct gpu_bench *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
#endif
