/* product_choices: what was chosen, for a later run.
 *
 * The heuristic is the library's, so another version of it may name other algorithms, and an
 * algorithm's number means one thing in one version alone. What is kept is therefore good for the
 * same version on the same kind of GPU, and refused elsewhere. Rows are sorted by shape: equal
 * choices are equal files. */
#include "product.cuh"

#define SHAPE_NUMBERS 20
#define SHAPE_STEPS 16  /* from here on: of products side by side, 0 where there is but one */
#define ALGO_WORDS ((int)(sizeof(cublasLtMatmulAlgo_t) / sizeof(uint64_t)))

static void shape_numbers(const struct shape *s, int64_t n[SHAPE_NUMBERS])
{
	const int64_t all[SHAPE_NUMBERS] = {s->M, s->N, s->K, s->a_transposed, s->b_transposed, s->is_f32, s->has_c,
		s->has_bias, s->lda, s->ldb, s->ldc, s->ldd, s->alignment_a, s->alignment_b, s->alignment_c, s->alignment_d,
		s->batch, s->a_step, s->b_step, s->d_step};
	memcpy(n, all, sizeof all);
}

static struct shape shape_from(const int64_t n[SHAPE_NUMBERS])
{
	struct shape s = {};
	s.M = (int)n[0], s.N = (int)n[1], s.K = (int)n[2];
	s.a_transposed = n[3] != 0, s.b_transposed = n[4] != 0, s.is_f32 = n[5] != 0, s.has_c = n[6] != 0,
	s.has_bias = n[7] != 0;
	s.lda = n[8], s.ldb = n[9], s.ldc = n[10], s.ldd = n[11];
	s.alignment_a = (int)n[12], s.alignment_b = (int)n[13], s.alignment_c = (int)n[14], s.alignment_d = (int)n[15];
	s.batch = (int)n[16], s.a_step = n[17], s.b_step = n[18], s.d_step = n[19];
	return s;
}

static int by_shape(const void *a, const void *b)
{
	int64_t x[SHAPE_NUMBERS], y[SHAPE_NUMBERS];
	shape_numbers(&(*(const struct plan *const *)a)->shape, x);
	shape_numbers(&(*(const struct plan *const *)b)->shape, y);
	for (int i = 0; i < SHAPE_NUMBERS; i++)
		if (x[i] != y[i]) return x[i] < y[i] ? -1 : 1;
	return 0;
}

/* Who chose: the library's version, and the GPU. */
static void chooser_names(struct ops_context *c, char *library, char *device, size_t room)
{
	const struct card *card = &c->card;
	snprintf(library, room, "cuBLASLt %zu", c->lt->GetVersion());
	snprintf(device, room, "%s, compute capability %d.%d, %d multiprocessors", card->name, card->capability / 10,
		card->capability % 10, c->sms);
}

/* What stands in an algorithm's place. */
static const char *const way_names[] = {[WAY_LIBRARY] = "", [WAY_BLOCKS] = "blocks", [WAY_PLAIN] = "plain"};

static json_t *plan_json(const struct plan *p)
{
	int64_t n[SHAPE_NUMBERS];
	json_t *row = json_object(), *shape = json_array();
	char words[ALGO_WORDS * 16 + 1];
	shape_numbers(&p->shape, n);
	snprintf(words, sizeof words, "%s", way_names[p->way]);
	for (int i = 0; i < SHAPE_NUMBERS; i++) json_array_append_new(shape, json_integer(n[i]));
	for (int i = 0; i < ALGO_WORDS && p->way == WAY_LIBRARY; i++)
		snprintf(words + 16 * i, 17, "%016llx", (unsigned long long)p->algo.data[i]);
	json_object_set_new(row, "shape", shape);
	json_object_set_new(row, "algorithm", json_string(words));
	return row;
}

json_t *product_choices(struct ops_context *c)
{
	char library[300], device[300];
	const struct plan **sorted = (const struct plan **)xcalloc((size_t)c->lt->nplans + 1, sizeof *sorted);
	int n = 0;
	for (int i = 0; i < c->lt->places; i++)
		if (c->lt->plans[i]) sorted[n++] = c->lt->plans[i];
	qsort(sorted, (size_t)n, sizeof *sorted, by_shape);
	json_t *all = json_object(), *rows = json_array();
	chooser_names(c, library, device, sizeof library);
	json_object_set_new(all, "library", json_string(library));
	json_object_set_new(all, "device", json_string(device));
	json_object_set_new(all, "batch_invariant", json_boolean(c->batch_invariant));
	for (int i = 0; i < n; i++) json_array_append_new(rows, plan_json(sorted[i]));
	json_object_set_new(all, "products", rows);
	free(sorted);
	return all;
}

/* One row of the file into a plan; what it says is checked by the library before it is believed. */
static int plan_read(struct ops_context *c, const json_t *row, struct plan *p, struct err *err)
{
	int64_t n[SHAPE_NUMBERS];
	const json_t *shape = json_object_get(row, "shape");
	const char *words = json_string_value(json_object_get(row, "algorithm"));
	if (json_array_size(shape) != SHAPE_NUMBERS || !words)
		return err_set(
			err, ERR_FORMAT, "algorithms: a product without a shape of %d numbers and an algorithm", SHAPE_NUMBERS);
	/* Sizes and strides are positive, flags and steps may be 0. */
	for (int i = 0; i < SHAPE_NUMBERS; i++) {
		n[i] = json_integer_value(json_array_get(shape, (size_t)i));
		bool is_positive = i < 3 || (i > 7 && i < SHAPE_STEPS);
		if (n[i] < is_positive || n[i] > INT32_MAX)
			return err_set(err, ERR_FORMAT, "algorithms: a product's number %d is %lld", i, (long long)n[i]);
	}
	p->shape = shape_from(n);
	p->way = !strcmp(words, way_names[WAY_PLAIN]) ? WAY_PLAIN
		: !strcmp(words, way_names[WAY_BLOCKS])   ? WAY_BLOCKS
												  : WAY_LIBRARY;
	if (p->way == WAY_BLOCKS && (!c->batch_invariant || p->shape.a_transposed))
		return err_set(err, ERR_FORMAT, "algorithms: a product (%d, %d, %d) in blocks of rows, without batch_invariant",
			p->shape.M, p->shape.N, p->shape.K);
	if (p->way != WAY_LIBRARY) return 0;
	/* The library's opaque words, as hexadecimal; only its own check says
	 * whether they mean anything. */
	for (int i = 0; i < ALGO_WORDS; i++) {
		char word[17] = "", *end = word;
		if (strlen(words) == (size_t)ALGO_WORDS * 16) memcpy(word, words + 16 * i, 16);
		p->algo.data[i] = strtoull(word, &end, 16);
		if (end != word + 16) return err_set(err, ERR_FORMAT, "algorithms: \"%.40s\" is no algorithm", words);
	}
	plan_describe(c->lt, p);
	cublasLtMatmulHeuristicResult_t result = {};
	cublasStatus_t status = c->lt->MatmulAlgoCheck(c->lt->handle, p->desc, p->a, p->b, p->c, p->d, &p->algo, &result);
	if (status == CUBLAS_STATUS_SUCCESS && result.workspaceSize <= LT_WORKSPACE_BYTES) return 0;
	return err_set(err, ERR_FORMAT, "algorithms: cuBLASLt does not take the one for (%d, %d, %d)", p->shape.M,
		p->shape.N, p->shape.K);
}

int product_choices_set(struct ops_context *c, const json_t *all, struct err *err)
{
	char library[300], device[300];
	const struct {
		const char *key; /* in the file */
		const char *is;  /* what it has to say */
	} names[] = {{"library", library}, {"device", device}};
	chooser_names(c, library, device, sizeof library);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		const char *was = json_string_value(json_object_get(all, names[i].key));
		if (!was || strcmp(was, names[i].is) != 0)
			return err_set(err, ERR_MISMATCH,
				"the algorithms of its products were chosen with %.120s, here it is %.120s, which may give other bits",
				was ? was : "an unknown library", names[i].is);
	}
	if (json_is_true(json_object_get(all, "batch_invariant")) != c->batch_invariant)
		return err_set(err, ERR_MISMATCH, "the algorithms of its products were chosen with%s batch_invariant",
			c->batch_invariant ? "out" : "");
	/* Every row replaces what this run may have chosen for the shape already. */
	const json_t *rows = json_object_get(all, "products");
	regions_forget(c);
	for (size_t i = 0; i < json_array_size(rows); i++) {
		struct plan read = {};
		int rc = plan_read(c, json_array_get(rows, i), &read, err);
		if (rc) {
			plan_release(c->lt, &read);
			return rc;
		}
		struct plan *p = *plan_place(c->lt, &read.shape);
		if (p) plan_release(c->lt, p);
		else p = plan_add(c->lt, &read.shape);
		*p = read;
	}
	return 0;
}
