/* cuda: the context: the device, its one stream, memory, and the only function
 * that the library shows. */
#include "base/gpu_uuid.h"
#include "few.cuh"
#include "ops_cuda_internal.h"

/* ---- memory ---- */

/* Of all memory, and of what a cap leaves: the smaller ones. */
static void cuda_memory(struct ops_context *c, size_t *free_bytes, size_t *total_bytes)
{
	CUDA_CHECK(cudaMemGetInfo(free_bytes, total_bytes));
	if (!c->memory_cap) return;
	*total_bytes = MIN(*total_bytes, c->memory_cap);
	*free_bytes = MIN(*free_bytes, c->memory_cap - MIN(c->taken_bytes, c->memory_cap));
}

void *device_block(struct ops_context *c, size_t bytes)
{
	void *p = NULL;
	size_t free_bytes = 0, total = 0, rounded = (MAX(bytes, (size_t)1) + 255) / 256 * 256;
	bool is_capped = c->memory_cap && c->taken_bytes + rounded > c->memory_cap;
	cudaError_t rc = is_capped ? cudaErrorMemoryAllocation : cudaMalloc(&p, rounded);
	if (rc != cudaSuccess) cuda_memory(c, &free_bytes, &total);
	CHECKF(rc == cudaSuccess,
		"out of GPU memory: %zu MiB wanted, %zu of %zu MiB are free%s; lower max_sequences, max_context or max_tokens "
		"(%s)",
		rounded >> 20, free_bytes >> 20, total >> 20, is_capped ? " under the cap of --memory or --cuda_card" : "",
		cudaGetErrorName(rc));
	/* Sizes are remembered, as the driver does not tell them when memory goes. */
	if (c->nblocks == c->blocks_cap) {
		c->blocks_cap = MAX(64, 2 * c->blocks_cap);
		c->blocks = (struct block *)xrealloc(c->blocks, (size_t)c->blocks_cap * sizeof *c->blocks);
	}
	c->blocks[c->nblocks++] = {p, rounded};
	c->taken_bytes += rounded;
	return p;
}

void block_release(struct ops_context *c, void *p)
{
	int i = 0;
	if (!p) return;
	while (i < c->nblocks && c->blocks[i].p != p) i++;
	CHECKF(i < c->nblocks, "released GPU memory that was not allocated");
	c->taken_bytes -= c->blocks[i].bytes;
	c->blocks[i] = c->blocks[--c->nblocks];
	CUDA_CHECK(cudaFree(p));
}

static void *cuda_alloc(struct ops_context *c, size_t bytes)
{
	void *p = device_block(c, bytes);
	CUDA_CHECK(cudaMemsetAsync(p, 0, (MAX(bytes, (size_t)1) + 255) / 256 * 256, c->stream));
	return p;
}

/* What was recorded may name the memory that goes. */
static void cuda_release(struct ops_context *c, void *p)
{
	if (!p) return;
	settle(c);
	regions_forget(c);
	CUDA_CHECK(cudaStreamSynchronize(c->stream));
	block_release(c, p);
}

static void cuda_zero(struct ops_context *c, void *p, size_t bytes)
{
	settle(c);
	if (bytes) CUDA_CHECK(cudaMemsetAsync(p, 0, bytes, c->stream));
}

static void cuda_held(struct ops_context *c, struct ops_held *out) { *out = {c->scratch_bytes, product_room(c)}; }

void *scratch_of(struct ops_context *c, size_t bytes)
{
	settle(c); /* sums lie there */
	if (bytes > c->scratch_bytes) {
		CHECKF(!c->is_recording, "a recorded region needs %zu bytes of scratch, its first run %zu", bytes,
			c->scratch_bytes);
		regions_forget(c);
		CUDA_CHECK(cudaStreamSynchronize(c->stream));
		block_release(c, c->scratch);
		c->scratch = device_block(c, bytes);
		c->scratch_bytes = bytes;
	}
	if (c->poison_scratch) CUDA_CHECK(cudaMemsetAsync(c->scratch, 0xff, bytes, c->stream));
	return c->scratch;
}

/* ---- values between host and device ---- */

struct staging *staging_take(struct ops_context *c)
{
	struct staging *s = &c->staging[c->staging_next++ % STAGING_COUNT];
	if (!s->host) {
		CUDA_CHECK(cudaHostAlloc(&s->host, STAGING_BYTES, cudaHostAllocDefault));
		s->device = device_block(c, STAGING_BYTES);
		CUDA_CHECK(cudaEventCreateWithFlags(&s->done, cudaEventDisableTiming));
	} else {
		CUDA_CHECK(cudaEventSynchronize(s->done));
	}
	return s;
}

void staging_sent(struct ops_context *c, struct staging *s) { CUDA_CHECK(cudaEventRecord(s->done, c->stream)); }

struct convert {      /* values of a matrix, as a file holds them, to the working copy and the master */
	const void *from; /* (n) */
	bf16 *w;          /* (rows, cols; row stride ld) */
	float *master;    /* (rows, cols), or NULL: none */
	int64_t n;        /* values */
	int64_t ld;       /* row stride of w */
	int64_t first;    /* the first value's place in the matrix, row by row */
	int cols;         /* columns of the matrix */
	enum dtype dtype; /* of from */
};

static __global__ void convert_kernel(struct convert v)
{
	grid_begin();
	int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
	if (i < v.n) {
		float x;
		if (v.dtype == DTYPE_BF16) x = __bfloat162float(((const bf16 *)v.from)[i]);
		else if (v.dtype == DTYPE_F16) x = __half2float(__ushort_as_half(((const uint16_t *)v.from)[i]));
		else x = ((const float *)v.from)[i];
		int64_t at = v.first + i;
		v.w[at / v.cols * v.ld + at % v.cols] = __float2bfloat16_rn(x);
		if (v.master) v.master[at] = x;
	}
}

#define COPIERS 8               /* threads that fill a pinned buffer */
#define COPY_GRAIN (1 << 20)    /* bytes of a thread's turn */
#define COPY_ALONE (4 << 20)    /* what this thread copies itself */

struct copy {
	char *to;
	const char *from;
};
static void copy_part(void *ctx, int64_t begin, int64_t end, int thread)
{
	const struct copy *job = (const struct copy *)ctx;
	memcpy(job->to + begin, job->from + begin, (size_t)(end - begin));
}

/* A mapped file is read by its page faults, which one thread takes one after the other at a tenth
 * of what the device takes; several at once come near it. */
static void host_copy(struct ops_context *c, void *to, const void *from, size_t bytes)
{
	if (bytes < COPY_ALONE) {
		memcpy(to, from, bytes);
		return;
	}
	struct copy job = {(char *)to, (const char *)from};
	if (!c->copiers) c->copiers = pool_create(MIN(COPIERS, cpu_count()));
	pool_run(c->copiers, (int64_t)bytes, COPY_GRAIN, copy_part, &job);
}

/* Through pinned buffers in turn; what is not fp32, bf16 or fp16 becomes fp32 on the host. */
static void cuda_put(struct ops_context *c, struct ops_weight *w, const void *host, enum dtype dtype)
{
	bool is_direct = dtype == DTYPE_F32 || dtype == DTYPE_BF16 || dtype == DTYPE_F16;
	size_t size = is_direct ? dtype_bytes(dtype) : sizeof(float);
	int64_t total = (int64_t)w->rows * w->cols, most = (int64_t)(STAGING_BYTES / size);
	for (int64_t first = 0; first < total; first += most) {
		int64_t n = MIN(most, total - first);
		struct staging *s = staging_take(c);
		if (is_direct) host_copy(c, s->host, (const char *)host + (size_t)first * size, (size_t)n * size);
		else
			for (int64_t i = 0; i < n; i++) ((float *)s->host)[i] = (float)dtype_load(dtype, host, first + i);
		CUDA_CHECK(cudaMemcpyAsync(s->device, s->host, (size_t)n * size, cudaMemcpyHostToDevice, c->stream));
		struct convert v = {
			s->device, elems(w->w), floats(w->master), n, w->ld, first, w->cols, is_direct ? dtype : DTYPE_F32};
		cuda_launch(c, {dim3((unsigned)((n + 255) / 256)), dim3(256), 0, 0}, convert_kernel, v);
		c->weights_written = true;
		staging_sent(c, s);
	}
}

static void to_host(struct ops_context *c, void *host, const void *device, size_t bytes)
{
	settle(c);
	for (size_t at = 0; at < bytes; at += STAGING_BYTES) {
		size_t n = MIN(STAGING_BYTES, bytes - at);
		CUDA_CHECK(cudaMemcpyAsync(c->pinned, (const char *)device + at, n, cudaMemcpyDeviceToHost, c->stream));
		CUDA_CHECK(cudaStreamSynchronize(c->stream));
		memcpy((char *)host + at, c->pinned, n);
	}
}

static void cuda_get_f32(struct ops_context *c, float *host, const struct f32 *from, int64_t n)
{
	to_host(c, host, from, (size_t)n * sizeof(float));
}
static void cuda_get_i32(struct ops_context *c, int32_t *host, const struct i32 *from, int64_t n)
{
	to_host(c, host, from, (size_t)n * sizeof(int32_t));
}

/* Into pinned memory of its own, behind what was asked so far; the event tells when it is there. */
static void cuda_fetch_f32(struct ops_context *c, int slot, const struct f32 *from, int64_t n)
{
	CHECK(slot >= 0 && slot < OPS_FETCHES && n >= 0 && n <= OPS_FETCH_MAX && !c->is_recording);
	settle(c);
	struct fetch *f = &c->fetches[slot];
	if (!f->host) {
		CUDA_CHECK(cudaHostAlloc(&f->host, OPS_FETCH_MAX * sizeof(float), cudaHostAllocDefault));
		CUDA_CHECK(cudaEventCreateWithFlags(&f->done, cudaEventDisableTiming));
	}
	CUDA_CHECK(cudaMemcpyAsync(f->host, from, (size_t)n * sizeof(float), cudaMemcpyDeviceToHost, c->stream));
	CUDA_CHECK(cudaEventRecord(f->done, c->stream));
	f->n = n;
}
static void cuda_fetched_f32(struct ops_context *c, int slot, float *host, int64_t n)
{
	CHECK(slot >= 0 && slot < OPS_FETCHES && c->fetches[slot].host && n <= c->fetches[slot].n);
	CUDA_CHECK(cudaEventSynchronize(c->fetches[slot].done));
	memcpy(host, c->fetches[slot].host, (size_t)n * sizeof(float));
}

/* n bf16 at the end of host's room for n floats become floats, front to back. */
static void widen(float *host, int64_t n)
{
	const uint16_t *raw = (const uint16_t *)host + n;
	for (int64_t i = 0; i < n; i++) host[i] = bf16_to_f32(raw[i]);
}

static void cuda_get_elem(struct ops_context *c, float *host, const struct elem *from, int64_t n)
{
	to_host(c, (uint16_t *)host + n, from, (size_t)n * sizeof(bf16));
	widen(host, n);
}

static void cuda_get(struct ops_context *c, float *host, const struct ops_weight *w)
{
	if (w->master) {
		cuda_get_f32(c, host, w->master, (int64_t)w->rows * w->cols);
		return;
	}
	int64_t n = (int64_t)w->rows * w->cols;
	settle(c);
	CUDA_CHECK(
		cudaMemcpy2DAsync((uint16_t *)host + n, (size_t)w->cols * sizeof(bf16), w->w, (size_t)w->ld * sizeof(bf16),
			(size_t)w->cols * sizeof(bf16), (size_t)w->rows, cudaMemcpyDeviceToHost, c->stream));
	CUDA_CHECK(cudaStreamSynchronize(c->stream));
	widen(host, n);
}

static void cuda_put_f32(struct ops_context *c, struct f32 *to, const float *host, int64_t n)
{
	size_t bytes = (size_t)n * sizeof(float);
	settle(c);
	for (size_t at = 0; at < bytes; at += STAGING_BYTES) {
		struct staging *s = staging_take(c);
		size_t part = MIN(STAGING_BYTES, bytes - at);
		host_copy(c, s->host, (const char *)host + at, part);
		CUDA_CHECK(cudaMemcpyAsync((char *)to + at, s->host, part, cudaMemcpyHostToDevice, c->stream));
		staging_sent(c, s);
	}
}

/* ---- pages ---- */

static __global__ void pages_copy_kernel(bf16 *kv, int64_t plane, int64_t page, const int32_t *pairs, int n)
{
	grid_begin();
	const uint4 *from = (const uint4 *)(kv + blockIdx.y * plane + pairs[n + blockIdx.x] * page);
	uint4 *to = (uint4 *)(kv + blockIdx.y * plane + pairs[blockIdx.x] * page);
	for (int64_t i = threadIdx.x; i < page / 8; i += blockDim.x) to[i] = from[i];
}

static void cuda_pages_copy(struct ops_context *c, struct elem *kv, int planes, int64_t plane, int64_t page,
	const int32_t *dst, const int32_t *src, int n)
{
	CHECK(page % 8 == 0 && plane % 8 == 0 && planes > 0 && planes < 65536);
	/* One run of bytes is the driver's, which moves 4 % more of them a second: what it moves
	 * is the ceiling that `hone bench gpu` holds reading to. */
	if (planes == 1 && n == 1) {
		CUDA_CHECK(cudaMemcpyAsync(elems(kv) + dst[0] * page, elems(kv) + src[0] * page, (size_t)page * sizeof(bf16),
			cudaMemcpyDeviceToDevice, c->stream));
		return;
	}
	int most = (int)(STAGING_BYTES / (2 * sizeof(int32_t)));
	for (int first = 0; first < n; first += most) {
		int count = MIN(most, n - first);
		struct staging *s = staging_take(c);
		memcpy(s->host, dst + first, (size_t)count * sizeof *dst);
		memcpy((int32_t *)s->host + count, src + first, (size_t)count * sizeof *src);
		CUDA_CHECK(
			cudaMemcpyAsync(s->device, s->host, 2 * (size_t)count * sizeof *src, cudaMemcpyHostToDevice, c->stream));
		cuda_launch(c, {dim3((unsigned)count, (unsigned)planes), dim3(256), 0, 0}, pages_copy_kernel, elems(kv), plane,
			page, (const int32_t *)s->device, count);
		staging_sent(c, s);
	}
}

void cuda_memory_entries(struct ops *t)
{
	t->alloc = cuda_alloc;
	t->release = cuda_release;
	t->memory = cuda_memory;
	t->held = cuda_held;
	t->zero = cuda_zero;
	t->put = cuda_put;
	t->get = cuda_get;
	t->put_f32 = cuda_put_f32;
	t->get_f32 = cuda_get_f32;
	t->get_elem = cuda_get_elem;
	t->get_i32 = cuda_get_i32;
	t->fetch_f32 = cuda_fetch_f32;
	t->fetched_f32 = cuda_fetched_f32;
	t->pages_copy = cuda_pages_copy;
}

/* ---- the context ---- */

static void context_free(struct ops_context *c)
{
	if (!c) return;
	/* Nothing may run any more when its memory goes; a context that failed half-way
	 * has only some of this. */
	if (c->stream) {
		CUDA_CHECK(cudaStreamSynchronize(c->stream));
		regions_forget(c);
	}
	ranks_link_close(c);
	lt_close(c);
	for (int i = 0; i < STAGING_COUNT; i++) {
		if (!c->staging[i].host) continue;
		CUDA_CHECK(cudaFreeHost(c->staging[i].host));
		block_release(c, c->staging[i].device);
		CUDA_CHECK(cudaEventDestroy(c->staging[i].done));
	}
	for (int i = 0; i < OPS_FETCHES; i++) {
		if (!c->fetches[i].host) continue;
		CUDA_CHECK(cudaFreeHost(c->fetches[i].host));
		CUDA_CHECK(cudaEventDestroy(c->fetches[i].done));
	}
	if (c->pinned) CUDA_CHECK(cudaFreeHost(c->pinned));
	block_release(c, c->scratch);
	block_release(c, c->workspace);
	if (c->stream) CUDA_CHECK(cudaStreamDestroy(c->stream));
	free(c->blocks);
	pool_free(c->copiers);
	free(c->cuda_libs);
	free(c);
}

static void cuda_close(struct ops *t) { context_free(t ? t->ctx : NULL); }

#define CAPABILITY_MIN 80 /* bf16 products and copies beside the arithmetic, which everything here is made of */

static const char device_advice[] = "nvidia-smi and dmesg tell of the driver and the GPU; or take --device cpu";

/* Whether there is a driver, a device of that number, and code in here that it runs; code: what
 * that was made from, 80 or 90. */
static int device_check(int device, cudaDeviceProp *props, int *code, struct err *err)
{
	/* Whether there is a GPU at all, and one of this number. */
	int count = 0;
	cudaError_t rc = cudaGetDeviceCount(&count);
	if (rc == cudaErrorInsufficientDriver || rc == cudaErrorNoDevice || (rc == cudaSuccess && !count))
		return err_set(err, ERR_NOT_FOUND,
			"device cuda: no NVIDIA GPU or no driver for CUDA 13 (580 or later) was found (%s); use --device cpu",
			rc ? cudaGetErrorName(rc) : "0 devices");
	if (rc != cudaSuccess)
		return err_set(
			err, ERR_INFRA, "device cuda: %s (%s); %s", cudaGetErrorString(rc), cudaGetErrorName(rc), device_advice);
	if (device < 0 || device >= count)
		return err_set(err, ERR_RANGE, "device cuda:%d: this machine has cuda:0 to cuda:%d", device, count - 1);
	/* Whether it can do what the kernels do, and whether this library has code for it. */
	rc = cudaGetDeviceProperties(props, device);
	if (rc == cudaSuccess && props->major * 10 + props->minor < CAPABILITY_MIN)
		return err_set(err, ERR_UNSUPPORTED,
			"device cuda:%d: %s has compute capability %d.%d, which cannot multiply bf16; 8.0 (A100, RTX 30) or later "
			"is needed; use --device cpu",
			device, props->name, props->major, props->minor);
	if (rc == cudaSuccess) rc = cudaSetDevice(device);
	cudaFuncAttributes attributes;
	if (rc == cudaSuccess) rc = cudaFuncGetAttributes(&attributes, (const void *)pages_copy_kernel);
	if (rc == cudaErrorNoKernelImageForDevice || rc == cudaErrorInvalidDeviceFunction)
		return err_set(err, ERR_UNSUPPORTED,
			"device cuda:%d: %s has compute capability %d.%d, for which this libhone_cuda.so holds no code", device,
			props->name, props->major, props->minor);
	if (rc != cudaSuccess)
		return err_set(err, ERR_INFRA, "device cuda:%d: %s (%s); %s", device, cudaGetErrorString(rc),
			cudaGetErrorName(rc), device_advice);
	*code = attributes.ptxVersion;
	return 0;
}

/* What the device is, then less where it is to be held to another card. A card that has more than
 * the device is none that the device can stand for. */
static int card_of(
	struct ops_context *c, const cudaDeviceProp *p, int code, const struct ops_card *held, struct err *err)
{
	struct card *card = &c->card;
	snprintf(card->name, sizeof card->name, "%.60s", p->name);
	card->capability = p->major * 10 + p->minor;
	card->shared_block = (int)p->sharedMemPerBlockOptin;
	card->shared_all = (int)p->sharedMemPerMultiprocessor;
	c->sms = p->multiProcessorCount;
	if (held->capability) {
		if (held->capability > card->capability || held->shared_bytes > card->shared_block)
			return err_set(err, ERR_RANGE,
				"--cuda_card %s: compute capability %d.%d and %d KiB of shared memory a block; %s has %d.%d and %d "
				"KiB, so it cannot stand for that card",
				held->name, held->capability / 10, held->capability % 10, held->shared_bytes >> 10, card->name,
				card->capability / 10, card->capability % 10, card->shared_block >> 10);
		snprintf(card->name, sizeof card->name, "%.30s", held->name);
		card->capability = held->capability;
		card->shared_block = held->shared_bytes;
		card->shared_all = held->shared_bytes + 1024;
		c->sms = MIN(c->sms, held->sms);
	}
	card->is_hopper = card->capability / 10 == 9 && code == 90;
	return 0;
}

/* All work goes through one stream of our own, with a workspace and pinned memory that live as long
 * as the context. Where another program holds the GPU, or --memory gives less than this, it is said
 * here, before anything was done. */
static int context_fill(struct ops_context *c, struct err *err)
{
	size_t free_bytes, total;
	cuda_memory(c, &free_bytes, &total);
	if (free_bytes < WORKSPACE_BYTES)
		return err_set(err, ERR_LIMIT,
			"device cuda:%d: %zu of %zu MiB are free%s, products alone need %zu MiB; end what else runs there, which "
			"nvidia-smi lists, or take another device",
			c->device, free_bytes >> 20, total >> 20,
			c->memory_cap ? " under the cap of --memory or --cuda_card, beside what the driver is taken to need" : "",
			WORKSPACE_BYTES >> 20);
	/* What is not there for lack of memory, or on a device that has failed, is named. */
	const char *what = "stream";
	cudaError_t rc = cudaStreamCreateWithFlags(&c->stream, cudaStreamNonBlocking);
	if (rc == cudaSuccess) {
		what = "pinned memory of the host";
		rc = cudaHostAlloc(&c->pinned, STAGING_BYTES, cudaHostAllocDefault);
	}
	if (rc != cudaSuccess)
		return err_set(err, ERR_INFRA,
			"device cuda:%d gives no %s: %s (%s); is the host's memory, or the GPU, used up?", c->device, what,
			cudaGetErrorString(rc), cudaGetErrorName(rc));
	c->workspace = device_block(c, WORKSPACE_BYTES);
	CUDA_CHECK(cudaMemsetAsync(c->workspace, 0, WORKSPACE_BYTES, c->stream));
	return 0;
}

static const struct ops_limits limits = CUDA_LIMITS;

extern "C" __attribute__((visibility("default"))) int hone_cuda_open(
	const char *abi, int device, const struct ops_options *o, struct ops **out, struct err *err);
int hone_cuda_open(const char *abi, int device, const struct ops_options *o, struct ops **out, struct err *err)
{
	/* The library is loaded at run time, so it may be older than the program: its tables would not
	 * fit. */
	if (strcmp(abi, HONE_OPS_ABI) != 0)
		return err_set(err, ERR_MISMATCH,
			"libhone_cuda.so was built for another version of hone (interface %.12s, the program's is %.12s); run make",
			HONE_OPS_ABI, abi);
	if (o->adapter_columns < 0 || o->adapter_columns % 64)
		return err_set(err, ERR_RANGE, "adapter_columns is %d, expected a multiple of 64", o->adapter_columns);
	cudaDeviceProp props;
	int code = 0, rc = device_check(device, &props, &code, err);
	if (rc) return rc;
	/* Where the library does not open, or memory is short, the context has to be given back. */
	struct ops_context *c = (struct ops_context *)xcalloc(1, sizeof *c);
	c->device = device;
	c->tail = o->adapter_columns;
	c->batch_invariant = o->batch_invariant;
	c->memory_cap = o->memory_cap;
	c->poison_scratch = o->poison_scratch;
	c->cuda_libs = o->cuda_libs ? xstrdup(o->cuda_libs) : NULL;
	c->taken_bytes = CUDA_DRIVER_BYTES;
	if ((rc = card_of(c, &props, code, &o->card, err)) || (rc = lt_open(c, o->cuda_libs, err)) ||
		(rc = context_fill(c, err))) {
		context_free(c);
		return rc;
	}
	few_open(c);
	/* Each family of operations enters its own functions into the table. */
	struct ops *t = &c->table;
	t->name = "cuda";
	gpu_uuid_text((const unsigned char *)props.uuid.bytes, props.name, t->uuid, sizeof t->uuid);
	t->ctx = c;
	t->elem_bytes = sizeof(bf16);
	t->tail = c->tail;
	t->batch_invariant = c->batch_invariant;
	t->limits = &limits;
	t->close = cuda_close;
#define X(name) cuda_##name##_entries(t);
	CUDA_FAMILIES(X)
#undef X
	*out = t;
	return 0;
}
