/* The GPUs and the predicted time of a launch. The formula is in docs/cost-model.md; keep both the
 * same. */
#include "cost/cost.h"
#include "base/base.h"
#include <math.h>
#include <ctype.h>

/* Data sheets and architecture papers of NVIDIA: SMs, boost clock, DRAM, caches, limits of an SM
 * (CUDA programming guide, "compute capabilities"), dense tensor rates with fp32 accumulation. L2
 * bandwidth is in none of them: the H200's is what bench/cost/cost_h200.py measured, the others'
 * are scaled from it by SMs and clock. */
const struct vm_gpu vm_gpus[VM_GPU_COUNT] = {
	{"H200", 132, 1.98e9, 4.8e12, 7.8e12, 60 << 20, 256 << 10, 227 << 10, 65536, 2048, 32, 128, 64, 16, 64,
		{0, 494e12, 989e12, 1979e12}, 90, 150109880320, 6144},
	{"H100", 132, 1.98e9, 3.35e12, 7.8e12, 50 << 20, 256 << 10, 227 << 10, 65536, 2048, 32, 128, 64, 16, 64,
		{0, 494e12, 989e12, 1979e12}, 90, 85017755648, 5120},
	{"A100", 108, 1.41e9, 2.039e12, 4.5e12, 40 << 20, 192 << 10, 163 << 10, 65536, 2048, 32, 64, 64, 16, 32,
		{0, 156e12, 312e12, 624e12}, 80, 85095874560, 5120},
	{"L40S", 142, 2.52e9, 0.864e12, 5.0e12, 96 << 20, 128 << 10, 99 << 10, 65536, 1536, 24, 128, 64, 16, 2,
		{0, 183e12, 362e12, 733e12}, 89, 47697362944, 384},
	{"RTX 4090", 128, 2.52e9, 1.008e12, 5.0e12, 72 << 20, 128 << 10, 99 << 10, 65536, 1536, 24, 128, 64, 16, 2,
		{0, 82.6e12, 165.2e12, 330.3e12}, 89, 25386352640, 384},
};

#define LAUNCH_S 0.3e-6            /* one more kernel in a graph, beyond its own path */
#define PROGRAM_S 0.605e-9         /* the grid's scheduler starts programs one after another */
#define WARP_START_CYCLES 8        /* of an SM */
#define RAMP_S 2.0e-6              /* from a launch's start to a steady stream, and from its last store to its end */
#define DRAM_RAMP_S 1.4e-6         /* until DRAM is at full speed, where there is enough to move */
/* Of the data sheet's bandwidth by the best kernels: read only, and
 * what writes then get in a copy. */
#define DRAM_READ_REACHED 0.94
#define DRAM_WRITE_REACHED 0.77
#define TENSOR_REACHED 0.75        /* of the peak by the best products: power limits the clock */
#define DRAM_EXTRA_CYCLES 330      /* a load from DRAM beyond one from L2 */
/* Exponent of the smooth maximum: 1 adds the parts, infinity lets all but the largest vanish behind
 * it. */
#define OVERLAP 3.0
#define PROGRAM_CYCLES 500         /* to start a program and to drain its last store */
#define SPILL_FACTOR 2             /* stacks, read and written in turns, get half of the bandwidth */
#define SPILL_CYCLES 10            /* of a program's path for each word that a thread moves to or from its stack */
#define SHARED_BYTES_CYCLE 128
#define HOPPER_TENSOR_CYCLE 4096.0 /* flops of 16-bit tl.dot that vm_cost.tensor_cycles stands for */
#define ATOMICS_CYCLE_SM 0.7       /* spread over addresses */
#define ATOMIC_HOT_S 5e-9          /* one warp's after another's on the same 32 bytes */
#define REGISTERS_STEP 8           /* a thread's registers are given out by eights */
/* Of each block, by the system; an SM has as much beyond a block's most. */
#define SHARED_RESERVED 1024

/* Whether a name is one of the table's but for its case and the space in it. */
static bool name_is(const char *name, const char *own)
{
	for (; *own; own++) {
		if (*own == ' ' && *name != ' ') continue;
		if (tolower((unsigned char)*name++) != tolower((unsigned char)*own)) return false;
	}
	return !*name;
}

const struct vm_gpu *vm_gpu_find(const char *name)
{
	for (int i = 0; i < VM_GPU_COUNT; i++)
		if (name_is(name, vm_gpus[i].name) || (!strcmp(name, "4090") && !strcmp(vm_gpus[i].name, "RTX 4090")))
			return &vm_gpus[i];
	return NULL;
}

void vm_gpu_names(struct str *out)
{
	for (int i = 0; i < VM_GPU_COUNT; i++) str_printf(out, "%s%s", i ? ", " : "", vm_gpus[i].name);
}

int vm_gpu_named(const char *name, const struct vm_gpu **out, struct err *err)
{
	*out = vm_gpu_find(name);
	if (*out) return 0;
	struct str names = {0};
	vm_gpu_names(&names);
	int rc = err_set(err, ERR_USAGE, "gpu: \"%s\" is not in the table of cards (%s)", name, names.data);
	str_release(&names);
	return rc;
}

json_t *vm_gpu_json(const struct vm_gpu *c)
{
	return json_pack("{s:s, s:i, s:i, s:I, s:I, s:I, s:f, s:f, s:i, s:I, s:i, s:i}", "name", c->name, "capability",
		c->capability, "sms", c->sms, "shared_bytes", (json_int_t)c->shared_bytes, "memory_bytes",
		(json_int_t)c->memory_bytes, "l2_bytes", (json_int_t)c->l2_bytes, "clock_hz", c->clock_hz, "dram_bytes_s",
		c->dram_bytes_s, "bus_bits", c->bus_bits, "l1_bytes", (json_int_t)c->l1_bytes, "registers", c->registers,
		"threads", c->threads);
}

const char *vm_cost_untimed(const struct vm_cost *c)
{
#define X(id, why) why,
	static const char *const whys[VM_UNTIMED_COUNT] = {VM_UNTIMED_TABLE(X)};
#undef X
	for (int i = 0; i < VM_UNTIMED_COUNT; i++)
		if (c->untimed[i]) return whys[i];
	return NULL;
}

const char *vm_limit_name(enum vm_limit l)
{
	static const char *const names[VM_LIMIT_COUNT] = {[VM_LIMIT_LAUNCH] = "launch",
		[VM_LIMIT_DRAM] = "dram",
		[VM_LIMIT_L2] = "l2",
		[VM_LIMIT_L1] = "l1",
		[VM_LIMIT_ISSUE] = "issue",
		[VM_LIMIT_SPECIAL] = "special",
		[VM_LIMIT_TENSOR] = "tensor",
		[VM_LIMIT_SHARED] = "shared",
		[VM_LIMIT_ATOMIC] = "atomic",
		[VM_LIMIT_LATENCY] = "latency"};
	return l >= 0 && l < VM_LIMIT_COUNT ? names[l] : "?";
}

int64_t vm_gpu_fit(const struct vm_gpu *gpu, int warps, int registers, int64_t shared_bytes)
{
	int64_t threads = 32 * (int64_t)MAX(warps, 1),
			given = ((int64_t)MAX(registers, 1) + REGISTERS_STEP - 1) / REGISTERS_STEP * REGISTERS_STEP;
	/* More than a block may have is as much too much, however large. */
	int64_t shared = MIN(MAX(shared_bytes, 0), gpu->shared_bytes + 1);
	int64_t by_shared = (gpu->shared_bytes + SHARED_RESERVED) / (shared + SHARED_RESERVED);
	return MIN(MIN(gpu->threads / threads, gpu->registers / (given * threads)), MIN(by_shared, (int64_t)gpu->blocks));
}

static int blocks_per_sm(const struct vm_binary *b, const struct vm_gpu *gpu)
{
	return (int)MAX(vm_gpu_fit(gpu, b->warps, b->registers, b->shared_bytes), 1);
}

int64_t vm_cost_l1_bytes(const struct vm_binary *b, const struct vm_gpu *gpu)
{
	int blocks = blocks_per_sm(b, gpu);
	return MAX(gpu->l1_bytes / blocks - b->shared_bytes - SHARED_RESERVED, 2048);
}

/* Work of the busiest SM over the average: programs come in whole numbers. */
static double imbalance(double programs, double sms)
{
	return programs > 0 ? ceil(programs / sms) / (programs / sms) : 1;
}

/* Of something used all over, the part that does not fit. */
static double share_outside(double bytes, double room) { return bytes > room ? 1 - fmax(room, 0) / bytes : 0; }

static void sm_parts(const struct vm_cost *c, const struct vm_gpu *g, double spill, struct vm_estimate *e)
{
	double cycles = imbalance((double)c->programs, g->sms) / (g->sms * g->clock_hz),
		   warp = 32; /* seconds of one cycle of work, spread over the SMs */
	double fma = (double)c->fma_instrs, alu = (double)c->alu_instrs, special = (double)c->special_instrs,
		   other = (double)c->other_instrs;
	e->part_s[VM_LIMIT_ISSUE] = cycles *
		fmax(fmax(fmax((fma + alu + special + other) / 4, fma * warp / g->fp32), alu * warp / g->int32),
			(double)c->f64_instrs * warp / g->fp64);
	e->part_s[VM_LIMIT_SPECIAL] = cycles * special * warp / g->special;
	/* Of what no path has, the program with most takes as long as one SM does for it. */
	double l1 = vm_cost_l1_cycles(
		(double)c->load_lines + spill / 128, (double)c->missed_lines, (double)c->store_lines, (double)c->l2_sectors);
	e->part_s[VM_LIMIT_L1] = fmax(cycles * l1, (double)c->l1_cycles_max / g->clock_hz);
	e->part_s[VM_LIMIT_SHARED] = fmax(cycles * (double)c->shared_bytes, (double)c->shared_bytes_max / g->clock_hz) /
		SHARED_BYTES_CYCLE;
	double hopper = HOPPER_TENSOR_CYCLE * g->sms * g->clock_hz;
	e->part_s[VM_LIMIT_TENSOR] = cycles * (double)c->tensor_cycles * hopper /
		(g->tensor_flops[VM_DOT_HALF] * TENSOR_REACHED);
	double atomics = fmax(cycles * (double)c->atomics, (double)c->atomics_max / g->clock_hz) / ATOMICS_CYCLE_SM;
	e->part_s[VM_LIMIT_ATOMIC] = fmax(atomics, (double)c->atomic_hot * ATOMIC_HOT_S);
}

struct vm_estimate vm_estimate(const struct vm_cost *c, const struct vm_binary *b, const struct vm_gpu *g)
{
	/* How many programs are on the GPU at a time, and in how many turns they run. */
	struct vm_estimate e = {.blocks_per_sm = blocks_per_sm(b, g)};
	double programs = (double)c->programs, resident = (double)e.blocks_per_sm * g->sms;
	e.occupancy = (double)e.blocks_per_sm * b->warps * 32 / g->threads;
	e.waves = programs / resident;
	e.dram_bytes = c->footprint_bytes;
	/* Spills are read from L1 as far as the stacks of the resident threads fit, then
	 * from L2; stores go to L2 in any case, and what does not fit there to DRAM. */
	double threads = 32.0 * b->warps, stacks = (double)b->stack_bytes * threads * fmin(programs, resident);
	double turns = c->steps_once > 0 ? fmax((double)c->steps / (double)c->steps_once, 1) : 1;
	double spill = fmin((double)b->local_bytes * turns * threads * programs, 9e17);
	double l1_room = (double)(g->l1_bytes - b->shared_bytes * e.blocks_per_sm) * g->sms;
	double spill_l2 = spill * (0.5 + 0.5 * share_outside(stacks, l1_room)); /* L1 keeps reads alone */
	double spill_dram = spill * share_outside(stacks, (double)g->l2_bytes);
	e.spill_bytes = (int64_t)spill;
	e.l2_bytes = 32 * c->l2_sectors + (int64_t)spill_l2;
	e.dram_bytes += (int64_t)spill_dram;
	/* What each part of the GPU needs if nothing else held it up: the SMs' own, DRAM, L2. */
	sm_parts(c, g, spill, &e);
	double read = (double)c->footprint_read + SPILL_FACTOR * spill_dram / 2;
	double written = (double)(c->footprint_bytes - c->footprint_read) + SPILL_FACTOR * spill_dram / 2;
	e.part_s[VM_LIMIT_DRAM] = (read / DRAM_READ_REACHED + written / DRAM_WRITE_REACHED) / g->dram_bytes_s;
	e.part_s[VM_LIMIT_L2] = ((double)e.l2_bytes + (SPILL_FACTOR - 1) * spill_l2) / g->l2_bytes_s;
	double from_dram = c->l2_sectors > 0 ? fmin((double)c->footprint_bytes / (32.0 * (double)c->l2_sectors), 1) : 0;
	/* The longest chain of one program, whose loads wait for DRAM as often as L2 does not have the
	 * bytes; and the scheduler, which starts one program after another. */
	double spill_cycles = (double)b->local_bytes * turns / 4 * SPILL_CYCLES;
	double path_cycles = (double)c->path_cycles +
		(double)c->path_trips * from_dram * DRAM_EXTRA_CYCLES; /* of all programs */
	double path_s = programs > 0 ? (PROGRAM_CYCLES + spill_cycles + path_cycles / programs) / g->clock_hz : 0;
	e.part_s[VM_LIMIT_LATENCY] = fmax(path_s * ceil(e.waves), (double)c->path_cycles_max / g->clock_hz);
	e.part_s[VM_LIMIT_LAUNCH] = programs * fmax(PROGRAM_S, WARP_START_CYCLES * b->warps / (g->sms * g->clock_hz));
	/* The parts overlap, though not wholly: between their maximum and their sum. */
	double sum = 0;
	for (int i = 0; i < VM_LIMIT_COUNT; i++) sum += pow(e.part_s[i], OVERLAP);
	e.part_s[VM_LIMIT_LAUNCH] = fmax(e.part_s[VM_LIMIT_LAUNCH], LAUNCH_S);
	double ramp = fmin(path_s, RAMP_S) + fmin(e.part_s[VM_LIMIT_DRAM], DRAM_RAMP_S);
	e.time_s = LAUNCH_S + pow(sum, 1 / OVERLAP) + ramp;
	for (int i = 0; i < VM_LIMIT_COUNT; i++)
		if (e.part_s[i] > e.part_s[e.limit]) e.limit = (enum vm_limit)i;
	return e;
}
