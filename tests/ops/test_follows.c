/* Packed sequences that follow a row of another: attention over a random family of them against the
 * long way, in which every path from a first row to a last one stands whole. Forward is equal
 * to the bit. A row's gradient in the long way is the sum over the paths that hold it, in
 * another order: the two differ by the rounding of sums of at most T terms, sqrt(T) 2^-24 in
 * the mean square, which is 1.1e-6 for 340 rows; the bound is 1e-6 of the gradient's length,
 * and what is met is a tenth of it. The same gradients against central differences of a
 * reference in fp64 along random directions: of a unit direction the fp32 gradient errs by its
 * own rounding alone, 2e-6 of its length. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>
#include "ops/cpu/ops_cpu.h"

enum { NH = 4, NKV = 2, HD = 20, Q = NH * HD, KV = NKV * HD, ROWS = 640, SEQUENCES = 40, LONG = 8192 };

/* ---- a random forest, and its paths ---- */

struct forest {
	int T, S;
	int32_t ids[ROWS], pos[ROWS], sequence[ROWS], start[SEQUENCES + 1], follows[SEQUENCES];
	/* The long way: each sequence with all that it follows. */
	int LT;
	int32_t lids[LONG], lpos[LONG], lsequence[LONG], of[LONG]; /* of: row of the forest */
	bool first[LONG];                                          /* the first copy of that row */
};

static void forest_make(struct forest *f, uint64_t seed)
{
	struct rng g = {seed, 1, 0};
	static const int lengths[] = {1, 2, 31, 32, 33, 5, 40, 70, 17};
	bool seen[ROWS] = {false};
	*f = (struct forest){0};
	for (int family = -1; f->S < SEQUENCES; f->S++) {
		int s = f->S, n = lengths[rng_below(&g, ARRAY_LEN(lengths))];
		if (f->T + n > ROWS) break;
		bool is_root = s == 0 || rng_below(&g, 8) == 0;
		if (is_root) family = f->T;
		f->start[s] = f->T;
		f->follows[s] = is_root ? -1 : family + (int)rng_below(&g, (uint32_t)(f->T - family));
		int first = is_root ? 0 : f->pos[f->follows[s]] + 1;
		for (int i = 0; i < n; i++, f->T++) {
			f->pos[f->T] = first + i;
			f->sequence[f->T] = s;
		}
		f->start[s + 1] = f->T;
		/* its path, from the end backwards */
		int path[ROWS], count = 0;
		for (int row = f->T - 1; row >= 0;) {
			path[count++] = row;
			row = row > f->start[f->sequence[row]] ? row - 1 : f->follows[f->sequence[row]];
		}
		for (int i = count; i-- > 0; f->LT++) {
			assert_true(f->LT < LONG && f->pos[path[i]] == count - 1 - i);
			f->lpos[f->LT] = count - 1 - i;
			f->lsequence[f->LT] = s;
			f->of[f->LT] = path[i];
			f->first[f->LT] = !seen[path[i]];
			seen[path[i]] = true;
		}
	}
}

struct side { /* arrays of one form */
	int T;
	float *q, *k, *v, *dout, *out, *lse, *dq, *dk, *dv;
};
static struct side side_make(int T)
{
	struct side s = {.T = T};
	float **arrays[] = {&s.q, &s.k, &s.v, &s.dout, &s.out, &s.lse, &s.dq, &s.dk, &s.dv};
	for (size_t i = 0; i < ARRAY_LEN(arrays); i++) *arrays[i] = xcalloc((size_t)T * Q, sizeof(float));
	return s;
}
static void side_free(struct side *s)
{
	float *arrays[] = {s->q, s->k, s->v, s->dout, s->out, s->lse, s->dq, s->dk, s->dv};
	for (size_t i = 0; i < ARRAY_LEN(arrays); i++) free(arrays[i]);
}

static void side_run(struct ops *o, struct side *s, const struct ops_rows *r)
{
	struct ops_context *c = o->ctx;
	struct ops_batch *b = o->batch_create(c, r->T, r->S, 0, 0, 0);
	o->batch_put(c, b, r);
	struct ops_packed packed = batch_packed(b);
	c->f.attention(c, s->out, s->lse, s->q, s->k, s->v, &packed, NH, NKV, HD);
	c->f.attention_backward(c, s->dq, s->dk, s->dv, s->dout, s->out, s->lse, s->q, s->k, s->v, &packed, NH, NKV, HD);
	o->batch_free(c, b);
}

static double length_of(const float *x, int64_t n)
{
	double sum = 0;
	for (int64_t i = 0; i < n; i++) sum += (double)x[i] * x[i];
	return sqrt(sum);
}

static void against(const char *what, const float *got, const double *want, int64_t n)
{
	double off = 0, size = 0;
	for (int64_t i = 0; i < n; i++) {
		off += pow(got[i] - want[i], 2);
		size += want[i] * want[i];
	}
	if (!(sqrt(off) <= 1e-6 * sqrt(size))) fail_msg("%s: off by %g of its length", what, sqrt(off / size));
}

/* Row of the long way to rows of the forest, and sums back. */
static void compare(const struct forest *f, const struct side *tree, const struct side *whole)
{
	double *dq = xcalloc((size_t)f->T * Q, 8), *dk = xcalloc((size_t)f->T * KV, 8), *dv = xcalloc((size_t)f->T * KV, 8);
	for (int t = 0; t < f->LT; t++) {
		int row = f->of[t];
		assert_memory_equal(whole->out + t * Q, tree->out + row * Q, Q * sizeof(float));
		assert_memory_equal(whole->lse + t * NH, tree->lse + row * NH, NH * sizeof(float));
		for (int i = 0; i < Q; i++) dq[row * Q + i] += whole->dq[t * Q + i];
		for (int i = 0; i < KV; i++) dk[row * KV + i] += whole->dk[t * KV + i];
		for (int i = 0; i < KV; i++) dv[row * KV + i] += whole->dv[t * KV + i];
	}
	against("dq", tree->dq, dq, (int64_t)f->T * Q);
	against("dk", tree->dk, dk, (int64_t)f->T * KV);
	against("dv", tree->dv, dv, (int64_t)f->T * KV);
	free(dq), free(dk), free(dv);
}

/* sum of out * dout in fp64, with q, k and v moved by h along d. */
static double loss64(const struct forest *f, const struct side *s, const float *const d[3], double h)
{
	double sum = 0;
	for (int t = 0; t < f->T; t++)
		for (int head = 0; head < NH; head++) {
			double weight[ROWS], top = -INFINITY, all = 0;
			int path[ROWS], n = 0, g = head / (NH / NKV);
			/* The rows that this one sees, back through the sequences that it follows. */
			for (int row = t; row >= 0;) {
				path[n++] = row;
				row = row > f->start[f->sequence[row]] ? row - 1 : f->follows[f->sequence[row]];
			}
			/* Scores, softmax and the weighted values, as the formula says. */
			for (int i = 0; i < n; i++) {
				weight[i] = 0;
				for (int e = 0; e < HD; e++) {
					int64_t a = (int64_t)t * Q + head * HD + e, b = (int64_t)path[i] * KV + g * HD + e;
					weight[i] += (s->q[a] + h * d[0][a]) * (s->k[b] + h * d[1][b]);
				}
				top = fmax(top, weight[i] /= sqrt(HD));
			}
			for (int i = 0; i < n; i++) all += weight[i] = exp(weight[i] - top);
			for (int i = 0; i < n; i++)
				for (int e = 0; e < HD; e++) {
					int64_t b = (int64_t)path[i] * KV + g * HD + e;
					sum += weight[i] / all * (s->v[b] + h * d[2][b]) * s->dout[(int64_t)t * Q + head * HD + e];
				}
		}
	return sum;
}

static void differences(const struct forest *f, const struct side *s)
{
	int64_t n[3] = {(int64_t)f->T * Q, (int64_t)f->T * KV, (int64_t)f->T * KV};
	const float *grads[3] = {s->dq, s->dk, s->dv};
	float *d[3], *none = xcalloc((size_t)n[0], sizeof *none);
	for (int which = 0; which < 3; which++) {
		double slope = 0, size = length_of(grads[which], n[which]), h = 1e-4;
		for (int i = 0; i < 3; i++) d[i] = none;
		d[which] = xcalloc((size_t)n[which], sizeof **d);
		for (int64_t i = 0; i < n[which]; i++) d[which][i] = rng_normal(5, (uint64_t)which, (uint64_t)i);
		double unit = length_of(d[which], n[which]);
		for (int64_t i = 0; i < n[which]; i++) slope += (double)grads[which][i] * d[which][i];
		const float *const along[3] = {d[0], d[1], d[2]};
		double measured = (loss64(f, s, along, h) - loss64(f, s, along, -h)) / (2 * h);
		if (!(fabs(measured - slope) <= 2e-6 * size * unit))
			fail_msg("gradient %d: %.9g, differences %.9g, length %g", which, slope, measured, size * unit);
		free(d[which]);
	}
	free(none);
}

static void test_attention(void **state)
{
	static struct forest f;
	for (int kind = 0; kind < 6; kind++) {
		struct ops *o;
		struct err err = {0};
		if (ops_cpu_create(&(struct ops_options){.threads = 1 + kind % 2, .avx2_only = kind & 2}, &o, &err))
			fail_msg("%s", err.text);
		forest_make(&f, 3 + (uint64_t)kind);
		struct side tree = side_make(f.T), whole = side_make(f.LT);
		float *from[] = {tree.q, tree.k, tree.v, tree.dout}, *to[] = {whole.q, whole.k, whole.v, whole.dout};
		for (int i = 0; i < 4; i++) {
			int width = i == 0 || i == 3 ? Q : KV;
			for (int64_t k = 0; k < (int64_t)f.T * width; k++) from[i][k] = rng_normal(9, (uint64_t)i, (uint64_t)k);
			/* a loss of the forest's rows once, whatever their copies */
			for (int t = 0; t < f.LT; t++)
				if (i < 3 || f.first[t])
					memcpy(to[i] + t * width, from[i] + f.of[t] * width, (size_t)width * sizeof(float));
		}
		side_run(o, &tree,
			&(struct ops_rows){
				.T = f.T, .S = f.S, .ids = f.ids, .pos = f.pos, .sequence = f.sequence, .follows = f.follows});
		side_run(
			o, &whole, &(struct ops_rows){.T = f.LT, .S = f.S, .ids = f.lids, .pos = f.lpos, .sequence = f.lsequence});
		compare(&f, &tree, &whole);
		if (kind < 2) differences(&f, &tree);
		side_free(&tree);
		side_free(&whole);
		ops_free(o);
	}
}

/* ---- what is refused: each ends a child with a message ---- */

static void test_refusals(void **state)
{
	/* Rows 0..2, then a sequence of its own, then one that follows. */
	static const int32_t sequence[6] = {0, 0, 0, 1, 1, 2}, good_pos[6] = {0, 1, 2, 0, 1, 1},
						 bad_pos[6] = {0, 1, 2, 0, 1, 2};
	static const struct {
		const int32_t *pos;
		int32_t follows[3];
		const char *says; /* NULL: nothing is wrong */
	} cases[] = {
		{good_pos, {-1, -1, 3}, NULL},
		{bad_pos, {-1, -1, 3}, "follows row 3 at position 0, and begins at position 2"},
		{bad_pos, {-1, -1, 1}, "follows row 1, which is no earlier row of its family"},
		{good_pos, {-1, -1, 5}, "follows row 5, which is no earlier row of its family"},
		{good_pos, {0, -1, 3}, "sequence 0 follows row 0"},
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		int pipes[2], status;
		char text[1024];
		assert_int_equal(pipe(pipes), 0);
		pid_t child = fork();
		if (!child) {
			struct ops *o;
			struct err err = {0};
			dup2(pipes[1], 2);
			if (ops_cpu_create(&(struct ops_options){.threads = 1}, &o, &err)) _exit(1);
			struct ops_batch *b = o->batch_create(o->ctx, 6, 3, 0, 0, 0);
			o->batch_put(o->ctx, b,
				&(struct ops_rows){.T = 6,
					.S = 3,
					.ids = sequence,
					.pos = cases[i].pos,
					.sequence = sequence,
					.follows = cases[i].follows});
			_exit(0);
		}
		close(pipes[1]);
		size_t len = 0;
		for (ssize_t n; len < sizeof text - 1 && (n = read(pipes[0], text + len, sizeof text - 1 - len)) > 0;)
			len += (size_t)n;
		text[len] = 0;
		close(pipes[0]);
		waitpid(child, &status, 0);
		assert_int_equal(status == 0, !cases[i].says);
		if (cases[i].says && !strstr(text, cases[i].says)) fail_msg("\"%s\" lacks \"%s\"", text, cases[i].says);
	}
}

int main(void)
{
	cmocka_set_message_output(CM_OUTPUT_TAP);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_attention),
		cmocka_unit_test(test_refusals),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
