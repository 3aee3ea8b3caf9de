/* rows_backward: the ways back of embed and gather: rows are added at places that may
 * repeat. No atomics: the first row of a place adds all that go there, in their order, and
 * the others do nothing. Looking for them costs rows x rows comparisons of integers,
 * 16,384 x 16,384 in 0.1 ms. */
#include "cuda_device.cuh"

#define THREADS 256

struct rows_add {
	bf16 *to_elem;        /* (?, columns; row stride to_ld), or */
	float *to_f32;        /* (?, columns), the same as fp32 */
	int64_t to_ld;        /* elements from a row of it to the next */
	const bf16 *from;     /* (rows, columns), without gaps */
	const int32_t *place; /* (rows) */
	int rows;             /* of from */
	int columns;          /* of a row */
};

/* The next row from `row` on that goes to `place`; rows where there is none. All threads
 * look, 256 rows at a time. */
static __device__ __forceinline__ int next_row(const int32_t *places, int row, int rows, int place)
{
	for (; row < rows; row += THREADS) {
		int mine = row + (int)threadIdx.x, found = mine < rows && places[mine] == place ? mine : rows;
		__shared__ int lowest[THREADS / WARP];
		for (int i = WARP / 2; i; i /= 2) found = min(found, __shfl_xor_sync(ALL_LANES, found, i));
		__syncthreads();
		if (threadIdx.x % WARP == 0) lowest[threadIdx.x / WARP] = found;
		__syncthreads();
		for (int i = 0; i < THREADS / WARP; i++) found = min(found, lowest[i]);
		if (found < rows) return found;
	}
	return rows;
}

/* Block (row, run of columns). */
static __global__ void __launch_bounds__(THREADS) rows_add_kernel(const struct rows_add a)
{
	grid_begin();
	int row = (int)blockIdx.x, place = a.place[row], column = ((int)blockIdx.y * THREADS + (int)threadIdx.x) * 8;
	/* The first row that goes to a place adds up all of them, in their order: no atomics, so the
	 * bits repeat. */
	if (next_row(a.place, 0, a.rows, place) != row) return;
	bool exists = column < a.columns;
	float sum[8] = {};
	/* Every thread takes part in the search for the next row, also those that have no column. */
	for (int r = row; r < a.rows; r = next_row(a.place, r + 1, a.rows, place)) {
		float d[8];
		unpack8(d, exists ? load8(a.from + (int64_t)r * a.columns + column) : zero8());
#pragma unroll
		for (int i = 0; i < 8; i++) sum[i] += d[i];
	}
	if (!exists) return;
	/* The sum is added to what is there, in the type in which the gradient is kept. */
	if (a.to_f32) {
		float *to = a.to_f32 + place * a.to_ld + column;
#pragma unroll
		for (int i = 0; i < 8; i++) to[i] += sum[i];
	} else {
		bf16 *to = a.to_elem + place * a.to_ld + column;
		float old[8];
		unpack8(old, load8(to));
#pragma unroll
		for (int i = 0; i < 8; i++) sum[i] += old[i];
		store8(to, pack8(sum));
	}
}

static void rows_add(struct ops_context *c, const struct rows_add *a)
{
	CHECKF(a->columns % 8 == 0 && a->to_ld % 8 == 0,
		"rows of %d columns, %lld apart; the CUDA backend takes multiples of 8", a->columns, (long long)a->to_ld);
	unsigned runs = (unsigned)((a->columns / 8 + THREADS - 1) / THREADS);
	if (a->rows > 0) cuda_launch(c, {dim3((unsigned)a->rows, runs), dim3(THREADS), 0, 0}, rows_add_kernel, *a);
}

/* Surplus rows go nowhere. */
static void scatter(struct ops_context *c, struct elem *dx, const struct elem *d, int C, int dx_tail,
	const struct ops_batch *b, int first, int n)
{
	struct rows_add a = {};
	a.to_elem = elems(dx), a.to_ld = C + dx_tail, a.from = elems(d), a.place = b->view.at + first;
	a.rows = MIN(n, b->wanted - first), a.columns = C;
	rows_add(c, &a);
}

static void embed_backward(
	struct ops_context *c, struct ops_weight *table, const struct elem *dx, const struct ops_batch *b, int T)
{
	if (!table->grad) return;
	struct rows_add a = {};
	a.to_f32 = floats(table->grad), a.to_ld = table->cols, a.from = elems(dx), a.place = b->view.ids;
	a.rows = MIN(T, b->rows), a.columns = table->cols;
	rows_add(c, &a);
}

void cuda_rows_backward_entries(struct ops *t)
{
	t->scatter = scatter;
	t->embed_backward = embed_backward;
}
