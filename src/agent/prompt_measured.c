/* What a GPU's counters say of a kernel, in words for a prompt. Of several launches each counts by
 * its time. */
#include "agent/agent.h"
#include "base/base.h"
#include "verify/verdict.h"
#include <math.h>

#define BUSY 60.0 /* percent of its peak from which a unit is what the kernel waits for */

/* What warps wait for, by the counter of the cycles. */
static const struct {
	enum verdict_counter counter;
	const char *text;
} stalls[] = {
	{COUNTER_STALL_MEMORY, "loads from global memory"},
	{COUNTER_STALL_SHARED, "shared memory and shuffles"},
	{COUNTER_STALL_BARRIER, "each other at barriers"},
	{COUNTER_STALL_MATH, "a busy arithmetic pipe"},
	{COUNTER_STALL_QUEUE, "room in the queue of loads and stores"},
	{COUNTER_STALL_WAIT, "their own last instruction"},
};

/* Mean over the launches that have the counter, by their times; NaN: none has. */
static double mean(const struct verdict_device *d, enum verdict_counter k)
{
	double sum = 0, weights = 0;
	for (int i = 0; i < d->nprofiles; i++) {
		const double *counters = d->profiles[i].counters;
		if (!isfinite(counters[k]) || !(counters[COUNTER_TIME] > 0)) continue;
		sum += counters[k] * counters[COUNTER_TIME];
		weights += counters[COUNTER_TIME];
	}
	return weights > 0 ? sum / weights : NAN;
}

static double total(const struct verdict_device *d, enum verdict_counter k)
{
	double sum = 0;
	for (int i = 0; i < d->nprofiles; i++) sum += d->profiles[i].counters[k];
	return sum;
}

bool prompt_measured_limit(const struct verdict *v, struct str *out)
{
	const struct verdict_device *d = &v->device;
	double dram = mean(d, COUNTER_DRAM_USE), sm = mean(d, COUNTER_SM_USE), most = 0;
	if (isnan(dram) || isnan(sm)) return false;
	/* A unit that is near its peak, or else nothing is: then what the warps wait for. */
	if (fmax(dram, sm) >= BUSY) str_puts(out, dram >= sm ? "memory: bytes to and from DRAM" : "the units of the SMs");
	else str_puts(out, "latency: no unit is busy");
	const char *what = NULL;
	for (size_t i = 0; i < ARRAY_LEN(stalls); i++) {
		double cycles = mean(d, stalls[i].counter);
		if (!(cycles > most)) continue;
		most = cycles;
		what = stalls[i].text;
	}
	str_printf(out, " (measured on %s: DRAM at %.0f %% of its peak, the SMs at %.0f %%", d->name, dram, sm);
	if (what) str_printf(out, "; warps wait most for %s, %.1f cycles an instruction", what, most);
	str_puts(out, ")");
	return true;
}

void prompt_measured_counters(const struct verdict *v, struct str *out)
{
	const struct verdict_device *d = &v->device;
	double read = total(d, COUNTER_DRAM_READ), written = total(d, COUNTER_DRAM_WRITE), l2 = total(d, COUNTER_L2),
		   occupancy = mean(d, COUNTER_OCCUPANCY);
	if (!d->nprofiles || !isfinite(read + written + l2 + occupancy)) return;
	str_printf(out, "counters: %.0f bytes read from DRAM, %.0f written, %.0f through L2, occupancy %.0f %%\n", read,
		written, l2, occupancy);
}
