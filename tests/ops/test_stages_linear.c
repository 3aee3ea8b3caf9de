/* Projections with their adapter, backward, on each backend, against references in double
 * that are written here and checked themselves against finite differences; and the thin
 * products of many rows. */
#include "stage_backward.h"

/* A training pass makes the inputs of projections by other kernels than a step of
 * few rows: the same bits. */
static void many_check(struct harness *h, int C, int r, bool is_gate)
{
	enum { MANY = 1100, FEW = 37 };
	struct ops *o = h->o;
	int row = C + o->tail, parts = is_gate ? 1 : 3, wide = is_gate ? 2 * C : C, widths[] = {C, C};
	float *x = randoms(h, (int64_t)MANY * wide, 1), *w = randoms(h, C, 1), *a = randoms(h, (int64_t)3 * r * C, 0.1f),
		  *got[2];
	struct array aw = array_make(h, w, C), aa = array_make(h, a, (int64_t)3 * r * C);
	struct ops_weight weight = {.rows = 1, .cols = C, .ld = C, .w = aw.p};
	struct ops_linear l = {.in = C, .out = 8 * parts, .parts = parts};
	struct ops_lora lora = {.r = r, .scaling = 2};
	for (int p = 0; p < parts; p++)
		lora.a[p] = (struct ops_weight){.rows = r, .cols = C, .ld = C, .w = ops_elem_at(o, aa.p, (int64_t)p * r * C)};
	/* Many rows, then the first few of them. */
	for (int run = 0; run < 2; run++) {
		int T = run ? FEW : MANY;
		float *from = host_floats((int64_t)T * wide);
		for (int t = 0; t < T; t++)
			for (int i = 0; i < wide; i++)
				from[is_gate ? part_at(h, T, widths, 2, i / C, t, i % C) : (int64_t)t * C + i] =
					x[(int64_t)t * wide + i];
		struct array ax = array_make(h, from, (int64_t)T * wide), y = array_make(h, NULL, (int64_t)T * row);
		struct f32_array rstd = f32_make(h, NULL, T);
		if (is_gate) o->gate(o->ctx, y.p, ax.p, C, T, &(struct ops_next){&l, &lora});
		else o->norm(o->ctx, y.p, rstd.p, ax.p, &weight, 1e-6f, T, &(struct ops_next){&l, &lora});
		got[run] = rows_take(h, "rows", &y, T, row, T, row);
		array_drop(h, &ax), f32_drop(h, &rstd);
		free(from);
	}
	/* The few have the bits that they had among the many. */
	int64_t differ = 0, zeros = 0;
	for (int64_t i = 0; i < (int64_t)FEW * row; i++) {
		differ += !(got[0][i] == got[1][i]);
		zeros += i % row >= C && i % row < C + parts * r && got[0][i] == 0;
	}
	bits_add(h, got[0], (size_t)MANY * (size_t)row * sizeof *got[0]);
	print_message("# %s %s of %d, r %d: %lld of %lld elements of %d rows differ from those of %d\n", o->name,
		is_gate ? "gate" : "norm", C, r, (long long)differ, (long long)FEW * row, FEW, MANY);
	if (differ || zeros)
		print_error("many rows: %lld elements differ, %lld thin products are 0\n", (long long)differ, (long long)zeros),
			h->failures++;
	array_drop(h, &aw), array_drop(h, &aa);
	free(x), free(w), free(a), free(got[0]), free(got[1]);
}

static void many_body(struct harness *h)
{
	many_check(h, 4096, 16, false);
	many_check(h, 72, 5, false);
	many_check(h, 576, 40, false);
	if (!stages_are_small()) many_check(h, 12288, 16, true);
	many_check(h, 1544, 72, true);
}

/* ---- linear ---- */

struct linear_case {
	int T, in, parts, out[OPS_PARTS], r; /* r 0: no adapter */
	float dropout;
	bool learns; /* weights and biases too */
	bool apart;  /* parts of the weight lie apart */
	bool no_dx;
	enum ops_accumulate acc;
};

struct linear_data {
	float *x, *dy, *w[OPS_PARTS], *a[OPS_PARTS], *b[OPS_PARTS],
		*dx; /* dy: parts one after the other, (T, out_i) each */
	uint64_t seed, stream;
};

static bool kept(const struct linear_case *c, const struct linear_data *d, int part, int64_t element)
{
	if (c->dropout <= 0) return true;
	return (double)rng_philox(d->seed, d->stream + (uint64_t)part, (uint64_t)element / 4).v[element % 4] >=
		(double)c->dropout * 4294967296.0;
}

#define LORA_SCALING 0.75

/* What one part adds to dx, and its dA, dB; magnitudes are those of bounds. */
struct linear_want {
	double *dx, *dx_bound, *da[OPS_PARTS], *da_bound[OPS_PARTS], *db[OPS_PARTS], *db_bound[OPS_PARTS], *dw[OPS_PARTS],
		*dw_bound[OPS_PARTS], *dbias[OPS_PARTS], *dbias_bound[OPS_PARTS];
};

static void lora_reference(const struct linear_case *c, const struct linear_data *d, int part, const float *dy,
	double u, struct linear_want *w)
{
	int out = c->out[part];
	double keep = 1 / (1 - (double)c->dropout), s = LORA_SCALING * keep;
	for (int t = 0; t < c->T; t++)
		for (int j = 0; j < c->r; j++) {
			/* dh of one row and rank, with its error. */
			double dh = 0, dh_magnitude = 0, hidden = 0, h_magnitude = 0;
			for (int n = 0; n < out; n++) {
				double term = (double)dy[(int64_t)t * out + n] * d->b[part][n * c->r + j];
				dh += term, dh_magnitude += fabs(term);
			}
			double dh_error = u * fabs(dh) + out * SUM_U * dh_magnitude;
			/* What it gives to A and to the input, through the dropout's mask. */
			for (int i = 0; i < c->in; i++) {
				int64_t at = (int64_t)t * c->in + i;
				double x = kept(c, d, part, at) ? d->x[at] : 0,
					   A = kept(c, d, part, at) ? d->a[part][j * c->in + i] : 0;
				hidden += s * x * d->a[part][j * c->in + i], h_magnitude += fabs(s * x * d->a[part][j * c->in + i]);
				w->da[part][j * c->in + i] += s * dh * x;
				w->da_bound[part][j * c->in + i] += s * fabs(x) * (dh_error + c->T * SUM_U * fabs(dh));
				w->dx[at] += s * dh * A;
				w->dx_bound[at] += s * fabs(A) * (dh_error + c->r * OPS_PARTS * SUM_U * fabs(dh));
			}
			/* And the hidden value, which B's gradient needs. */
			double h_error = u * fabs(hidden) + c->in * SUM_U * h_magnitude;
			for (int n = 0; n < out; n++) {
				double y = dy[(int64_t)t * out + n];
				w->db[part][n * c->r + j] += y * hidden;
				w->db_bound[part][n * c->r + j] += fabs(y) * (h_error + c->T * SUM_U * fabs(hidden));
			}
		}
}

/* dx without the adapter's share, dW, dbias. */
static void part_reference(
	const struct linear_case *c, const struct linear_data *d, int part, const float *dy, struct linear_want *w)
{
	int out = c->out[part];
	for (int t = 0; t < c->T; t++)
		for (int n = 0; n < out; n++) {
			double y = dy[(int64_t)t * out + n];
			w->dbias[part][n] += y;
			w->dbias_bound[part][n] += c->T * SUM_U * fabs(y);
			for (int i = 0; i < c->in; i++) {
				double x = d->x[(int64_t)t * c->in + i], weight = d->w[part][n * c->in + i];
				w->dx[(int64_t)t * c->in + i] += y * weight;
				w->dx_bound[(int64_t)t * c->in + i] += 2 * out * SUM_U * fabs(y * weight);
				w->dw[part][n * c->in + i] += y * x;
				w->dw_bound[part][n * c->in + i] += c->T * SUM_U * fabs(y * x);
			}
		}
}

static struct linear_want linear_reference(const struct linear_case *c, const struct linear_data *d, double u)
{
	struct linear_want w = {.dx = doubles((int64_t)c->T * c->in), .dx_bound = doubles((int64_t)c->T * c->in)};
	const float *dy = d->dy;
	int64_t n = (int64_t)c->T * c->in;
	for (int p = 0; p < c->parts; p++) {
		int64_t a = (int64_t)c->r * c->in, b = (int64_t)c->out[p] * c->r, full = (int64_t)c->out[p] * c->in;
		w.da[p] = doubles(a), w.da_bound[p] = doubles(a), w.db[p] = doubles(b), w.db_bound[p] = doubles(b);
		w.dw[p] = doubles(full), w.dw_bound[p] = doubles(full), w.dbias[p] = doubles(c->out[p]),
		w.dbias_bound[p] = doubles(c->out[p]);
		part_reference(c, d, p, dy, &w);
		/* dx is rounded behind each product: what stood there so far */
		for (int64_t i = 0; i < n; i++)
			w.dx_bound[i] += u * (fabs(w.dx[i]) + (c->acc == OPS_ADD ? fabs((double)d->dx[i]) : 0));
		dy += (int64_t)c->T * c->out[p];
	}
	dy = d->dy;
	for (int p = 0; p < c->parts; dy += (int64_t)c->T * c->out[p++])
		if (c->r) lora_reference(c, d, p, dy, u, &w);
	for (int64_t i = 0; i < n; i++) {
		if (c->acc == OPS_ADD) w.dx[i] += d->dx[i];
		w.dx_bound[i] = SLACK * (w.dx_bound[i] + 2 * u * fabs(w.dx[i])) + 1e-30;
	}
	for (int p = 0; p < c->parts; p++) {
		for (int64_t i = 0; i < (int64_t)c->r * c->in; i++) w.da_bound[p][i] = SLACK * w.da_bound[p][i] + 1e-30;
		for (int64_t i = 0; i < (int64_t)c->r * c->out[p]; i++) w.db_bound[p][i] = SLACK * w.db_bound[p][i] + 1e-30;
	}
	return w;
}

static void linear_want_free(struct linear_want *w)
{
	free(w->dx);
	free(w->dx_bound);
	for (int p = 0; p < OPS_PARTS; p++) {
		double *all[] = {w->da[p], w->da_bound[p], w->db[p], w->db_bound[p], w->dw[p], w->dw_bound[p], w->dbias[p],
			w->dbias_bound[p]};
		for (size_t i = 0; i < ARRAY_LEN(all); i++) free(all[i]);
	}
}

struct linear_arrays { /* in the backend's memory */
	struct array w, w_apart[OPS_PARTS], a[OPS_PARTS], b[OPS_PARTS], bias;
	struct f32_array dw[OPS_PARTS], dbias[OPS_PARTS], da[OPS_PARTS], db[OPS_PARTS];
};

static struct linear_data linear_randoms(struct harness *h, const struct linear_case *c)
{
	int out = 0;
	struct linear_data d = {.seed = 77, .stream = 1000};
	for (int p = 0; p < c->parts; p++) {
		out += c->out[p];
		d.w[p] = randoms(h, (int64_t)c->out[p] * c->in, 0.1f);
		d.a[p] = randoms(h, (int64_t)c->r * c->in, 0.2f);
		d.b[p] = randoms(h, (int64_t)c->r * c->out[p], 0.3f);
	}
	d.x = randoms(h, (int64_t)c->T * c->in, 1);
	d.dy = randoms(h, (int64_t)c->T * out, 1);
	d.dx = randoms(h, (int64_t)c->T * c->in, 1);
	return d;
}

/* Weights in one block, or each by itself with a hole between; the tail columns are NaN
 * until bind writes them. */
static void weights_make(struct harness *h, const struct linear_case *c, const struct linear_data *d,
	struct ops_linear *l, struct linear_arrays *m)
{
	struct ops *o = h->o;
	int ld = c->in + o->tail, at = 0;
	float *all = host_floats((int64_t)l->out * ld);
	/* The parts one below the other. */
	for (int p = 0; p < c->parts; p++) {
		float *mine = all + (int64_t)at * ld;
		for (int n = 0; n < c->out[p]; n++)
			for (int i = 0; i < ld; i++) mine[(int64_t)n * ld + i] = i < c->in ? d->w[p][n * c->in + i] : NAN;
		if (c->apart) m->w_apart[p] = array_make(h, mine, (int64_t)c->out[p] * ld);
		at += c->out[p];
	}
	m->w = array_make(h, all, (int64_t)l->out * ld);
	m->bias = array_make(h, all, l->out);
	free(all);
	/* Each part's weight, and where it learns its gradients. */
	at = 0;
	for (int p = 0; p < c->parts; at += c->out[p++]) {
		l->w[p] = (struct ops_weight){.rows = c->out[p], .cols = c->in, .ld = ld};
		l->w[p].w = c->apart ? m->w_apart[p].p : ops_elem_at(o, m->w.p, (int64_t)at * ld);
		float *zeros = host_floats((int64_t)c->out[p] * c->in);
		if (c->learns) {
			m->dw[p] = f32_make(h, zeros, (int64_t)c->out[p] * c->in);
			m->dbias[p] = f32_make(h, zeros, c->out[p]);
			l->bias[p] = (struct ops_weight){.rows = 1,
				.cols = c->out[p],
				.ld = c->out[p],
				.w = ops_elem_at(o, m->bias.p, at),
				.grad = m->dbias[p].p};
			l->w[p].grad = m->dw[p].p;
		}
		free(zeros);
	}
}

static void lora_make(struct harness *h, const struct linear_case *c, const struct linear_data *d,
	struct ops_lora *lora, struct linear_arrays *m)
{
	*lora = (struct ops_lora){.r = c->r,
		.scaling = (float)LORA_SCALING,
		.dropout = c->dropout,
		.seed = c->dropout > 0 ? d->seed : 0,
		.stream = d->stream};
	for (int p = 0; p < c->parts; p++) {
		int64_t a = (int64_t)c->r * c->in, b = (int64_t)c->out[p] * c->r;
		float *zeros = host_floats(MAX(a, b));
		m->a[p] = array_make(h, d->a[p], a), m->b[p] = array_make(h, d->b[p], b);
		m->da[p] = f32_make(h, zeros, a), m->db[p] = f32_make(h, zeros, b);
		lora->a[p] = (struct ops_weight){.rows = c->r, .cols = c->in, .ld = c->in, .w = m->a[p].p, .grad = m->da[p].p};
		lora->b[p] = (struct ops_weight){
			.rows = c->out[p], .cols = c->r, .ld = c->r, .w = m->b[p].p, .grad = m->db[p].p};
		free(zeros);
	}
}

/* x with the thin products in its tail, as who writes the row leaves it. */
static struct array input_make(struct harness *h, const struct linear_case *c, const struct linear_data *d, int T)
{
	int row = c->in + h->o->tail;
	float *all = host_floats((int64_t)T * row);
	for (int t = 0; t < c->T; t++) {
		for (int i = 0; i < c->in; i++) all[(int64_t)t * row + i] = d->x[(int64_t)t * c->in + i];
		for (int j = 0; h->o->tail && j < c->parts * c->r; j++) {
			double sum = 0;
			for (int i = 0; i < c->in; i++) {
				int64_t at = (int64_t)t * c->in + i;
				if (kept(c, d, j / c->r, at)) sum += (double)d->x[at] * d->a[j / c->r][j % c->r * c->in + i];
			}
			all[(int64_t)t * row + c->in + j] = rounded(h, (float)(sum * LORA_SCALING / (1 - (double)c->dropout)));
		}
	}
	struct array x = array_make(h, all, (int64_t)T * row);
	free(all);
	return x;
}

static void gradients_check(
	struct harness *h, const struct linear_case *c, const struct linear_want *w, struct linear_arrays *m)
{
	for (int p = 0; p < c->parts; p++) {
		struct {
			const char *name;
			struct f32_array *got;
			const double *want, *bound;
		} all[] = {{"dA", &m->da[p], w->da[p], w->da_bound[p]}, {"dB", &m->db[p], w->db[p], w->db_bound[p]},
			{"dW", &m->dw[p], w->dw[p], w->dw_bound[p]}, {"dbias", &m->dbias[p], w->dbias[p], w->dbias_bound[p]}};
		for (size_t i = 0; i < ARRAY_LEN(all); i++) {
			if (!all[i].got->base) continue;
			float *got = f32_take(h, all[i].name, all[i].got);
			compare(h, all[i].name, got, all[i].want, all[i].bound, all[i].got->n);
			free(got);
		}
		if (m->a[p].base) array_drop(h, &m->a[p]), array_drop(h, &m->b[p]);
		if (m->w_apart[p].base) array_drop(h, &m->w_apart[p]);
	}
	array_drop(h, &m->w);
	array_drop(h, &m->bias);
}

static void linear_check(struct harness *h, const struct linear_case *c)
{
	struct ops *o = h->o;
	int T = c->T + (o->host_memory ? 0 : 11), row = c->in + o->tail, rows = c->T;
	struct linear_data d = linear_randoms(h, c);
	struct linear_want w = linear_reference(c, &d, h->u);
	struct linear_arrays m = {0};
	struct ops_linear l = {.in = c->in, .parts = c->parts};
	struct ops_lora lora = {0};
	for (int p = 0; p < c->parts; p++) l.out += c->out[p];
	weights_make(h, c, &d, &l, &m);
	if (c->r) lora_make(h, c, &d, &lora, &m);
	o->bind(o->ctx, &l, c->r ? &lora : NULL);

	/* dy of surplus rows is 0 */
	float *all = host_floats((int64_t)T * l.out);
	const float *from = d.dy;
	for (int p = 0; p < c->parts; from += (int64_t)rows * c->out[p++])
		for (int t = 0; t < rows; t++)
			for (int n = 0; n < c->out[p]; n++)
				all[part_at(h, T, c->out, c->parts, p, t, n)] = from[(int64_t)t * c->out[p] + n];
	struct array dy = array_make(h, all, (int64_t)T * l.out), x = input_make(h, c, &d, T);
	struct array dx = c->acc == OPS_ADD ? rows_make(h, d.dx, rows, c->in, T, row, 0)
										: array_make(h, NULL, (int64_t)T * row);
	o->linear_backward(o->ctx, c->no_dx ? NULL : dx.p, dy.p, x.p, &l, c->r ? &lora : NULL, T, c->acc);

	print_message("# %s linear (%d, %d) -> %d, %d parts, r %d, dropout %g%s%s%s%s\n", o->name, rows, c->in, l.out,
		c->parts, c->r, (double)c->dropout, c->learns ? ", learns" : "", c->apart ? ", apart" : "",
		c->no_dx ? ", no dx" : "", c->acc == OPS_ADD ? ", adds" : "");
	if (c->no_dx) array_drop(h, &dx);
	else {
		float *got = rows_take(h, "dx", &dx, rows, c->in, T, row);
		compare(h, "dx", got, w.dx, w.dx_bound, (int64_t)rows * c->in);
		free(got);
	}
	gradients_check(h, c, &w, &m);
	array_drop(h, &dy);
	array_drop(h, &x);
	linear_want_free(&w);
	free(all);
	float *data[] = {d.x, d.dy, d.dx, d.w[0], d.w[1], d.w[2], d.a[0], d.a[1], d.a[2], d.b[0], d.b[1], d.b[2]};
	for (size_t i = 0; i < ARRAY_LEN(data); i++) free(data[i]);
}

static const struct linear_case linear_cases[] = {
	{.T = 130, .in = 72, .parts = 3, .out = {40, 24, 16}, .r = 16},
	{.T = 65, .in = 136, .parts = 3, .out = {128, 72, 8}, .r = 5, .dropout = 0.3f},
	{.T = 1100, .in = 24, .parts = 1, .out = {16}, .r = 8},
	{.T = 31, .in = 264, .parts = 1, .out = {56}, .r = 72, .dropout = 0.1f},
	{.T = 33, .in = 40, .parts = 2, .out = {24, 24}, .r = 16, .no_dx = true},
	{.T = 70, .in = 40, .parts = 2, .out = {24, 24}, .r = 16, .apart = true},
	{.T = 40, .in = 48, .parts = 1, .out = {32}, .r = 4, .acc = OPS_ADD},
	{.T = 77, .in = 40, .parts = 3, .out = {24, 8, 16}, .learns = true},
	{.T = 1030, .in = 16, .parts = 1, .out = {24}, .learns = true, .acc = OPS_ADD},
	{.T = 1, .in = 8, .parts = 1, .out = {8}, .r = 1},
};

static void linear_body(struct harness *h)
{
	for (size_t i = 0; i < ARRAY_LEN(linear_cases); i++) linear_check(h, &linear_cases[i]);
}

/* ---- the reference against finite differences ---- */

static double lora_loss(const struct linear_case *c, const struct linear_data *d)
{
	double loss = 0;
	const float *dy = d->dy;
	for (int p = 0; p < c->parts; dy += (int64_t)c->T * c->out[p++])
		for (int t = 0; t < c->T; t++)
			for (int n = 0; n < c->out[p]; n++) {
				double y = 0;
				for (int i = 0; i < c->in; i++) {
					int64_t at = (int64_t)t * c->in + i;
					y += (double)d->x[at] * d->w[p][n * c->in + i];
					for (int j = 0; j < c->r && kept(c, d, p, at); j++)
						y += LORA_SCALING / (1 - (double)c->dropout) * d->x[at] * d->a[p][j * c->in + i] *
							d->b[p][n * c->r + j];
				}
				loss += y * dy[(int64_t)t * c->out[p] + n];
			}
	return loss;
}

static void linear_differences(void **state)
{
	struct ops host = {.host_memory = true};
	struct harness h = {.o = &host, .stream = 1};
	/* The reference itself against differences of its loss. */
	struct linear_case c = {.T = 5, .in = 8, .parts = 2, .out = {6, 3}, .r = 2, .dropout = 0.3f};
	struct linear_data d = linear_randoms(&h, &c);
	struct linear_want w = linear_reference(&c, &d, 0);
	struct {
		const char *name;
		float *x;
		const double *gradient;
		int n;
	} all[] = {{"linear dx", d.x, w.dx, 40}, {"dA", d.a[1], w.da[1], 16}, {"dB", d.b[0], w.db[0], 12},
		{"dW", d.w[1], w.dw[1], 24}};
	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		for (int k = 0; k < all[i].n; k++) {
			float keep = all[i].x[k];
			volatile float up = keep + DIFFERENCE, down = keep - DIFFERENCE;
			all[i].x[k] = up;
			double high = lora_loss(&c, &d);
			all[i].x[k] = down;
			double low = lora_loss(&c, &d);
			all[i].x[k] = keep;
			difference_check(all[i].name, all[i].gradient[k], (high - low) / ((double)up - (double)down));
		}
	linear_want_free(&w);
	float *data[] = {d.x, d.dy, d.dx, d.w[0], d.w[1], d.a[0], d.a[1], d.b[0], d.b[1]};
	for (size_t i = 0; i < ARRAY_LEN(data); i++) free(data[i]);
}

/* ---- the list ---- */

#define CASES(X) X(many) X(linear)
CASES(CASE_BOTH)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(linear_differences), CASES(CASE_LIST)};
	return cases_run(argc, argv, tests);
}
