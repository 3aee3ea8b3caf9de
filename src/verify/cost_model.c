/* cost_model: one table of constants, one formula, the same for both sides.
 *
 *   t = sum over launches of  launch + max(bytes / DRAM, sectors * 32 / L2, flops / fp32 + special / sfu, dot_flops / units) + programs * schedule / SMs
 *
 * It is a roofline for each launch with three honest extras: what a launch costs, what bad coalescing costs (sectors against bytes), and what a
 * program costs (tiny blocks). It knows no occupancy, latency or bank conflicts: docs/cost-model.md says where it misleads. */
#include "verify/cost_model.h"
#include <math.h>

/* An H200 (SXM, 132 SMs at 1.98 GHz): data-sheet peaks times the fraction that good kernels reach. */
static const struct {
	double launch_s;             /* one dependent launch in a queue */
	double dram, l2;             /* bytes/s: 4.8 TB/s peak, 0.87 reached; L2 about 3 times that */
	double fp32;                 /* operations/s, 67e12 peak */
	double special;              /* 16 of 128 lanes have a special-function unit */
	double dot[COST_DOT_COUNT];  /* fp32 pipes 67e12, tf32 494e12, half 989e12 peak; 0.7 reached */
	double schedule_s, sms;      /* to start one program on one SM */
	double program_elements;     /* the reference's launches: elements a program, as eager's element-wise kernels */
} GPU = {
	.launch_s = 2.0e-6, .dram = 4.2e12, .l2 = 1.2e13, .fp32 = 4.7e13, .special = 5.9e12, .dot = { 4.7e13, 3.5e14, 7.0e14 },
	.schedule_s = 1.0e-7, .sms = 132, .program_elements = 1024,
};

enum cost_dot cost_dot_of(enum dtype task, bool tf32)
{
	if (task == DTYPE_F32 || task == DTYPE_F64)
		return tf32 && task == DTYPE_F32 ? COST_DOT_TF32 : COST_DOT_FP32;
	return COST_DOT_HALF;
}

double cost_launch_s(const struct cost_launch *l, enum cost_dot dot)
{
	double memory = fmax(l->bytes / GPU.dram, l->sectors * 32 / GPU.l2);
	double arithmetic = fmax(l->flops / GPU.fp32 + l->special / GPU.special, l->dot_flops / GPU.dot[dot]);
	return GPU.launch_s + fmax(memory, arithmetic) + l->programs * GPU.schedule_s / GPU.sms;
}

double cost_candidate_s(const struct runner_row_cost *rows, int count, enum cost_dot dot)
{
	double sum = 0;
	for (int i = 0; i < count; i++) {
		const struct runner_row_cost *r = &rows[i];
		struct cost_launch l = { (double)r->footprint_bytes, (double)r->sectors, (double)r->flops, (double)r->special, (double)r->dot_flops, (double)r->programs };
		/* A movement row is a copy kernel of torch: it runs as the reference's do. */
		if (r->kind != TAPE_LAUNCH)
			l.programs = ceil(l.bytes / 8 / GPU.program_elements);
		sum += cost_launch_s(&l, dot);
	}
	return sum;
}

static double field(const json_t *o, const char *name)
{
	double v = json_number_value(json_object_get(o, name));
	return isfinite(v) && v > 0 ? v : 0;
}

static double launches_s(const json_t *list, enum cost_dot dot)
{
	double sum = 0;
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *o = json_array_get(list, i);
		struct cost_launch l = { .bytes = field(o, "bytes"), .flops = field(o, "flops"), .special = field(o, "special"), .dot_flops = field(o, "dot_flops") };
		l.sectors = l.bytes / 32;
		l.programs = ceil(field(o, "elements") / GPU.program_elements);
		sum += cost_launch_s(&l, dot);
	}
	return json_array_size(list) ? sum : NAN;
}

double cost_reference_s(const json_t *cost, enum cost_dot dot, double *eager_s, double *fused_s)
{
	*eager_s = launches_s(json_object_get(cost, "eager"), dot);
	*fused_s = launches_s(json_object_get(cost, "fused"), dot);
	return fmin(*eager_s, *fused_s);
}
