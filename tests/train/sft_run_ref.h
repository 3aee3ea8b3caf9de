/* A small supervised run for tests: model, examples and options are functions of nothing; and
 * comparison of folders by bytes. */
#ifndef HONE_TESTS_SFT_RUN_REF_H
#define HONE_TESTS_SFT_RUN_REF_H
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>
#include "train/train.h"

enum { EXAMPLES = 60, HELDOUT = 9, EXAMPLE_MAX = 40 };
static const struct model_config sft_config = {
	.vocab_size = 61,
	.hidden_size = 32,
	.num_hidden_layers = 2,
	.num_attention_heads = 2,
	.num_key_value_heads = 1,
	.head_dim = 16,
	.intermediate_size = 48,
	.max_position_embeddings = 64,
	.rms_norm_eps = 1e-6,
	.rope_theta = 1000,
	.tie_word_embeddings = true,
	.qk_norm = true,
	.bos_token_id = -1,
	.eos_token_id = 0,
	.pad_token_id = -1,
};

struct sft_case {
	int32_t ids[EXAMPLES + HELDOUT][EXAMPLE_MAX];
	struct sft_example examples[EXAMPLES + HELDOUT];
};

/* Learnable: each token is the previous one plus the example's step. */
static inline void sft_data_make(struct sft_case *d)
{
	for (int i = 0; i < EXAMPLES + HELDOUT; i++) {
		int n = 5 + (int)(rng_u32(1, 0, (uint64_t)i) % (EXAMPLE_MAX - 4)), step = 1 + i % 3;
		for (int k = 0; k < n; k++) d->ids[i][k] = (i * 7 + k * step) % 61;
		d->examples[i] = (struct sft_example){d->ids[i], n, 2 + i % 2};
	}
}

static inline struct sft_options sft_options_make(const char *dir)
{
	return (struct sft_options){
		.optimizer =
			{
				.learning_rate = 5e-3,
				.adam_beta1 = 0.9,
				.adam_beta2 = 0.99,
				.adam_epsilon = 1e-8,
				.weight_decay = 0.01,
				.max_grad_norm = 1,
				.lr_scheduler_type = "cosine",
				.warmup_steps = 3,
			},
		.max_tokens = 130,
		.gradient_accumulation_steps = 2,
		.num_train_epochs = 2.5,
		.save_steps = 3,
		.eval_steps = 5,
		.save_total_limit = 2,
		.logging_steps = 1,
		.seed = 11,
		.output_dir = dir,
	};
}

struct sft_setup {
	struct ops *ops;
	struct model *m;
	struct adapter *a;
	struct sft_case *d;
};
static inline void sft_setup_on(struct sft_setup *s, const char *device, bool with_adapter)
{
	struct err err = {0};
	struct model_config config = sft_config;
	struct ops_options o = {.threads = 2, .adapter_columns = 64, .cuda_libs = getenv("HONE_CUDA_LIBS")};
	*s = (struct sft_setup){.d = xcalloc(1, sizeof *s->d)};
	sft_data_make(s->d);
	CHECKF(!ops_open(device, &o, &s->ops, &err), "%s", err.text);
	if (!s->ops->host_memory) config.head_dim = 32; /* the narrowest heads that a GPU takes */
	CHECKF(!model_create(&config, 2, s->ops, &s->m, &err), "%s", err.text);
	if (with_adapter)
		CHECKF(!adapter_create(s->m, &(struct adapter_options){.r = 4, .lora_alpha = 8, .lora_dropout = 0.1, .seed = 2},
				   &s->a, &err),
			"%s", err.text);
}

static inline void sft_setup_make(struct sft_setup *s, bool with_adapter) { sft_setup_on(s, "cpu", with_adapter); }

static inline void sft_setup_release(struct sft_setup *s)
{
	adapter_free(s->a);
	model_free(s->m);
	ops_free(s->ops);
	free(s->d);
}

static inline int sft_setup_run(
	struct sft_setup *s, const struct sft_options *o, metrics_fn *fn, void *ctx, struct err *err)
{
	return sft_run(s->m, s->a, s->d->examples, EXAMPLES, s->d->examples + EXAMPLES, HELDOUT, o, fn, ctx, err);
}

static inline char *sft_folder(const char *name)
{
	struct err err = {0};
	char *path = xasprintf("%s/ref/sft/%s", getenv("BUILD") ? getenv("BUILD") : "build/release", name);
	if (path_exists(path) && dir_remove(path, &err)) fail_msg("%s", err.text);
	return path;
}

/* ---- folders ---- */

struct listing {
	char names[64][64];
	int n;
};
static inline int listing_add(const char *name, void *ctx)
{
	struct listing *l = ctx;
	CHECK(l->n < 64);
	snprintf(l->names[l->n++], sizeof l->names[0], "%s", name);
	return 0;
}

/* Same names and bytes, two levels deep; prints the first difference. */
static inline bool folders_equal(const char *a, const char *b)
{
	struct err err = {0};
	struct listing x = {0}, y = {0};
	if (dir_each(a, listing_add, &x, &err) || dir_each(b, listing_add, &y, &err)) {
		print_error("# %s\n", err.text);
		return false;
	}
	bool equal = x.n == y.n;
	/* Entries are sorted, so that equal folders have equal names at equal places. What can be
	 * listed is a folder. */
	for (int i = 0; i < x.n && equal; i++) {
		char *p = path_join(a, x.names[i]), *q = path_join(b, y.names[i]);
		struct str s = {0}, t = {0};
		struct listing unused = {0};
		equal = !strcmp(x.names[i], y.names[i]);
		if (equal && !dir_each(p, listing_add, &unused, NULL)) equal = folders_equal(p, q);
		else if (equal)
			equal = !file_read(p, 1 << 28, &s, &err) && !file_read(q, 1 << 28, &t, &err) && s.len == t.len &&
				!memcmp(s.data, t.data, s.len);
		if (!equal) print_error("# %s and %s differ\n", p, q);
		str_release(&s);
		str_release(&t);
		free(p);
		free(q);
	}
	if (x.n != y.n) print_error("# %s has %d entries, %s has %d\n", a, x.n, b, y.n);
	return equal;
}
#endif
