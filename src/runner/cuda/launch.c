/* launch: one kernel of a tape on the GPU, as Triton 3.6 calls its kernels.
 *
 * The parameters are the arguments of the IR's function in order, each in the size of its type,
 * then two pointers: global scratch and profile scratch. A tensor descriptor is a tensor map of
 * 128 bytes (or, where the compiler did not make one: base, sizes, strides and padding), then
 * its sizes (i32) and strides (i64). The grid's first size is multiplied by the cluster's; a
 * block has 32 threads for each warp of the *compiled* kernel, which warp specialisation makes
 * more than the tape's. */
#include "runner/cuda/gpu_internal.h"
#include "tape/tape.h"
#include "base/dtype.h"
#include "base/base.h"
#include <stdlib.h>

#define SHARED_STATIC_BYTES 49152 /* what a block may have without asking */
#define PORTABLE_CLUSTER 8
#define SCRATCH_ALIGN 256
#define SCRATCH_BYTES_MAX ((uint64_t)4 << 30)
#define WORDS_MAX (2 * TAPE_ARGS_MAX + 3)

/* ---- loading ---- */

static int bad_binary(struct runner_fault *f, const char *name, const char *what)
{
	char text[512];
	snprintf(text, sizeof text, "kernel %.200s: %s", name, what);
	return launcher_fault(f, "bad-binary", -1, 0, text);
}

static void args_copy(struct cuda_kernel *k, const struct runner_binary *b)
{
	size_t bytes = 1, at = 0;
	for (int i = 0; i < b->nargs; i++) bytes += strlen(b->args[i]) + 1;
	k->binary = *b;
	k->binary.name = NULL;
	k->arg_texts = xmalloc(bytes);
	for (int i = 0; i < b->nargs; i++) {
		size_t len = strlen(b->args[i]) + 1;
		memcpy(k->arg_texts + at, b->args[i], len);
		k->binary.args[i] = k->arg_texts + at;
		at += len;
	}
}

/* As much shared memory as the card lets a block have, as Triton's own loader asks for. */
static int shared_set(struct cuda *c, struct cuda_kernel *k, const char *name, struct runner_fault *fault)
{
	int fixed = 0;
	cu_result r = c->cu.FuncGetAttribute(&fixed, CU_FUNC_SHARED_SIZE_BYTES, k->function);
	if (k->binary.shared_bytes + fixed > c->facts.shared_bytes) {
		char text[256];
		snprintf(text, sizeof text, "kernel %.100s needs %lld bytes of shared memory, a block has at most %lld", name,
			(long long)k->binary.shared_bytes + fixed, (long long)c->facts.shared_bytes);
		return launcher_fault(fault, "out-of-resources", -1, 0, text);
	}
	if (!r && k->binary.shared_bytes > SHARED_STATIC_BYTES) {
		r = c->cu.FuncSetCacheConfig(k->function, CU_CACHE_SHARED);
		if (!r)
			r = c->cu.FuncSetAttribute(
				k->function, CU_FUNC_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)c->facts.shared_bytes - fixed);
	}
	return cuda_check(c, r, "preparing a kernel", -1, fault);
}

/* Whether an ELF image's two tables lie in it. A driver that is given half an image looks
 * for the rest for ever. */
static bool elf_is_whole(const uint8_t *image, uint64_t bytes)
{
	struct {
		uint64_t at;    /* offset in the image */
		uint16_t size;  /* bytes of an entry */
		uint16_t count; /* entries */
	} tables[2];
	static const struct {
		int at;
		int size;
		int count;
	} places[2] = {{32, 54, 56}, {40, 58, 60}}; /* offsets of those in the header: program headers, section headers */
	bool is_whole = true;
	for (int i = 0; i < 2; i++) {
		memcpy(&tables[i].at, image + places[i].at, 8);
		memcpy(&tables[i].size, image + places[i].size, 2);
		memcpy(&tables[i].count, image + places[i].count, 2);
		uint64_t length = (uint64_t)tables[i].size * tables[i].count;
		is_whole &= length == 0 || (tables[i].at <= bytes && length <= bytes - tables[i].at);
	}
	return is_whole;
}

/* A binary is an ELF image; the driver finds its end by itself, so it must really be one and lie in
 * memory of our own that does not change while the driver reads. */
static int module_load(struct cuda *c, struct cuda_kernel *k, const struct runner_binary *b, const uint8_t *image,
	struct runner_fault *fault)
{
	if (b->bytes < 64 || memcmp(image, "\177ELF", 4)) return bad_binary(fault, b->name, "the binary is no ELF image");
	if (!elf_is_whole(image, (uint64_t)b->bytes))
		return bad_binary(fault, b->name, "the binary ends before its tables");
	uint8_t *copy = xcalloc(1, (size_t)b->bytes + 64);
	memcpy(copy, image, (size_t)b->bytes);
	cu_result r = c->cu.ModuleLoadData(&k->module, copy);
	free(copy);
	if (!r) r = c->cu.ModuleGetFunction(&k->function, k->module, b->name);
	return r ? cuda_check(c, r, "loading a binary", -1, fault) : 0;
}

int cuda_kernel_load(struct cuda *c, int kernel, const struct runner_binaries *list, struct runner_fault *fault)
{
	const struct tape_kernel *tk = &c->tape->kernels[kernel];
	const struct runner_binary *b = &list->binaries[kernel];
	/* A kernel of an earlier tape is still loaded under its hash, and the binary's,
	 * and is taken as it is. */
	struct slice parts[] = {
		{tk->hash.text, strlen(tk->hash.text)}, {(const char *)list->data + b->offset, (size_t)b->bytes}};
	struct sha256_hex hash = hash_parts(parts, ARRAY_LEN(parts));
	for (int i = 0; i < c->ncached; i++)
		if (!strcmp(c->cached[i].hash.text, hash.text)) {
			c->kernels[kernel] = &c->cached[i];
			return 0;
		}
	/* The room never grows, since c->kernels points into it: what does not fit is refused. */
	if (c->ncached == TAPE_KERNELS_MAX * 2)
		return launcher_fault(fault, "memory", -1, 0, "more kernels than one candidate may load");
	struct cuda_kernel k = {.hash = hash};
	int rc = module_load(c, &k, b, list->data + b->offset, fault);
	args_copy(&k, b);
	if (!rc) rc = shared_set(c, &k, b->name, fault);
	/* Clusters of more than 8 blocks run on some cards only, so they have to be allowed. */
	if (!rc && tk->num_ctas > PORTABLE_CLUSTER)
		rc = cuda_check(c, c->cu.FuncSetAttribute(k.function, CU_FUNC_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1),
			"allowing a cluster of more than 8", -1, fault);
	if (rc) {
		cuda_kernel_release(c, &k);
		return rc;
	}
	c->cached[c->ncached] = k;
	c->kernels[kernel] = &c->cached[c->ncached++];
	return 0;
}

void cuda_kernel_release(struct cuda *c, struct cuda_kernel *k)
{
	if (k->module && !c->is_spent) c->cu.ModuleUnload(k->module);
	free(k->arg_texts);
	*k = (struct cuda_kernel){0};
}

/* ---- parameters ---- */

/* One launch's parameters: the driver gets a pointer to each. */
struct params {
	int count; /* parameters */
	int nmaps;
	void *at[WORDS_MAX];
	uint64_t words[WORDS_MAX];
	struct cu_tensor_map maps[TAPE_ARGS_MAX / 3];
};

static void word_add(struct params *p, uint64_t word)
{
	p->words[p->count] = word;
	p->at[p->count] = &p->words[p->count];
	p->count++;
}

/* The bits of a float in the type of its parameter; a double where the type says nothing else. */
static uint64_t float_bits(double value, const char *type)
{
	static const struct {
		const char *name;
		enum dtype dtype;
	} types[] = {{"f64", DTYPE_F64}, {"f32", DTYPE_F32}, {"f16", DTYPE_F16}, {"bf16", DTYPE_BF16}};
	uint64_t bits = 0;
	for (size_t i = 0; i < ARRAY_LEN(types); i++)
		if (!strcmp(types[i].name, type)) dtype_store(types[i].dtype, &bits, 0, value);
	return bits;
}

/* Sizes and strides of a tensor map go from the innermost dimension outwards; strides are bytes and
 * leave the innermost out. */
static int map_encode(struct cuda *c, const struct tape_descriptor *d, const struct runner_tensor_map *m,
	struct cu_tensor_map *out, int row, struct runner_fault *fault)
{
	const struct tape_view *v = &d->view;
	uint64_t sizes[TAPE_DESCRIPTOR_DIMS_MAX], strides[TAPE_DESCRIPTOR_DIMS_MAX] = {0};
	uint32_t box[TAPE_DESCRIPTOR_DIMS_MAX], steps[TAPE_DESCRIPTOR_DIMS_MAX];
	if (!c->cu.TensorMapEncodeTiled)
		return launcher_fault(fault, "unsupported-op", row, 0, "this driver makes no tensor maps");
	if (m->ndim != v->ndim)
		return launcher_fault(
			fault, "argument", row, 0, "a descriptor has other dimensions than its kernel's tensor map");
	for (int i = 0; i < v->ndim; i++) {
		int from = v->ndim - 1 - i;
		sizes[i] = (uint64_t)v->shape[from];
		box[i] = (uint32_t)m->block[from];
		steps[i] = 1;
		if (i > 0) strides[i - 1] = (uint64_t)v->stride[from] * (uint64_t)m->element_bytes;
	}
	if (m->is_fp4_padded) sizes[0] *= 2;
	/* The compiler numbers 64-bit floats and bfloat16 otherwise than the driver. */
	static const int host_types[16] = {0, 1, 2, 3, 4, 5, 6, 7, 10, 8, 9, 11, 12, 13, 14, 15};
	int type = m->element_type < 16 ? host_types[m->element_type] : m->element_type;
	cu_result r = c->cu.TensorMapEncodeTiled(out, type, (uint32_t)v->ndim,
		(void *)(uintptr_t)(cuda_data(c, v->buffer) + (uint64_t)v->offset_bytes), sizes, strides, box, steps,
		CU_MAP_INTERLEAVE_NONE, m->swizzle, CU_MAP_L2_PROMOTION_128B,
		d->nan_padding ? CU_MAP_FILL_NAN : CU_MAP_FILL_ZERO);
	return cuda_check(c, r, "making a tensor map", row, fault);
}

static int descriptor_add(struct cuda *c, struct params *p, const struct tape_arg *a, const struct runner_binary *b,
	int row, struct runner_fault *fault)
{
	const struct tape_view *v = &a->descriptor->view;
	int rc = 0;
	if (b->nmaps) {
		if (p->nmaps == b->nmaps)
			return launcher_fault(fault, "argument", row, 0, "more descriptors than the kernel has tensor maps");
		rc = map_encode(c, a->descriptor, &b->maps[p->nmaps], &p->maps[p->nmaps], row, fault);
		p->at[p->count++] = &p->maps[p->nmaps++];
	} else {
		word_add(p, cuda_data(c, a->buffer) + (uint64_t)a->offset_bytes);
		for (int d = 0; d < v->ndim; d++) word_add(p, (uint64_t)v->shape[d]);
		for (int d = 0; d < v->ndim; d++) word_add(p, (uint64_t)v->stride[d]);
		word_add(p, a->descriptor->nan_padding);
	}
	for (int d = 0; d < v->ndim; d++) word_add(p, (uint64_t)v->shape[d]);
	for (int d = 0; d < v->ndim; d++) word_add(p, (uint64_t)v->stride[d]);
	return rc;
}

/* An element of what a parameter or constant starts with: no row writes to it (replay.c). */
static double value_of(const struct cuda *c, const struct tape_arg *a)
{
	const struct cuda_buffer *b = &c->buffers[a->buffer];
	return tape_arg_value(a, b->given ? b->given : b->host);
}

/* Each argument against the type of the IR's: a tape whose arguments are others than the kernel's
 * would make the driver read what is not there. */
static int params_make(struct cuda *c, const struct tape_row *row, int index, const struct cuda_kernel *k,
	struct params *p, struct runner_fault *fault)
{
	const struct runner_binary *b = &k->binary;
	int rc = 0;
	for (int i = 0; i < row->nargs && !rc; i++) {
		const struct tape_arg *a = &row->args[i];
		/* The type is looked up by the words so far, not by i: a descriptor adds several. */
		const char *type = p->count < b->nargs ? b->args[p->count] : "";
		bool is_pointer = type[0] == '*', is_descriptor = !strncmp(type, "!tt.tensordesc", 14),
			 is_float = strchr("fb", type[0]) && type[0];
		/* A descriptor that became no tensor map begins with its base, a pointer. */
		bool fits = a->kind == TAPE_ARG_POINTER ? is_pointer
			: a->kind == TAPE_ARG_FLOAT         ? is_float
			: a->kind == TAPE_ARG_VALUE         ? is_float
			: a->kind == TAPE_ARG_INT           ? type[0] == 'i' || is_pointer
												: is_descriptor || is_pointer;
		if (!fits) {
			char text[200];
			snprintf(text, sizeof text, "argument %d does not fit the kernel, which has %.60s there", i,
				type[0] ? type : "nothing");
			return launcher_fault(fault, "argument", index, row->line, text);
		}
		if (a->kind == TAPE_ARG_DESCRIPTOR) rc = descriptor_add(c, p, a, b, index, fault);
		else if (a->kind == TAPE_ARG_POINTER) word_add(p, cuda_data(c, a->buffer) + (uint64_t)a->offset_bytes);
		else if (a->kind == TAPE_ARG_VALUE) word_add(p, float_bits(value_of(c, a), type));
		else word_add(p, a->kind == TAPE_ARG_FLOAT ? float_bits(a->f, type) : (uint64_t)a->i);
	}
	/* Too few words would make the driver read behind them. */
	if (!rc && p->count != b->nargs)
		rc = launcher_fault(fault, "argument", index, row->line, "the row has fewer arguments than the kernel");
	return rc;
}

/* Scratch memory for all programs of a launch. It grows and is kept; a growth waits for whoever
 * still uses the old one, since freeing does. */
static int scratch_reserve(struct cuda *c, uint64_t bytes, int row, struct runner_fault *fault)
{
	if (bytes <= c->scratch_bytes) return 0;
	if (bytes > SCRATCH_BYTES_MAX)
		return launcher_fault(fault, "memory", row, 0, "a launch needs more than 4 GiB of scratch memory");
	/* Written over behind the stream's own work, since the next candidate may be given it. */
	int rc = 0;
	if (c->scratch)
		rc = cuda_check(c,
			c->cu.MemsetD8Async(
				c->scratch, LAUNCHER_UNWRITTEN, c->scratch_bytes, c->streams[c->tape->rows[row].stream]),
			"writing over scratch memory", row, fault);
	if (rc) return rc;
	if (c->scratch) c->cu.MemFree(c->scratch);
	c->scratch = 0;
	c->scratch_bytes = 0;
	rc = cuda_allocate(c, &c->scratch, bytes, "allocating scratch memory", row, fault);
	if (!rc) c->scratch_bytes = bytes;
	return rc;
}

static int scratch_add(struct cuda *c, const struct tape_row *row, int index, const struct cuda_kernel *k, int ctas,
	struct params *p, struct runner_fault *fault)
{
	uint64_t programs = (uint64_t)row->grid[0] * row->grid[1] * row->grid[2] * (uint64_t)ctas, global, profile;
	if (__builtin_mul_overflow(programs, (uint64_t)k->binary.global_scratch_bytes, &global) ||
		__builtin_mul_overflow(programs, (uint64_t)k->binary.profile_scratch_bytes, &profile) ||
		global > SCRATCH_BYTES_MAX || profile > SCRATCH_BYTES_MAX)
		global = profile = SCRATCH_BYTES_MAX;
	uint64_t second = (global + SCRATCH_ALIGN - 1) / SCRATCH_ALIGN * SCRATCH_ALIGN;
	/* All launches share it: those of other streams must be done with it. */
	int rc = 0;
	for (int s = 0; second + profile && c->tape->nstreams > 1 && s < c->tape->nstreams && !rc; s++)
		rc = cuda_wait(c, c->streams[s], c->deadline_ns, index, fault);
	if (!rc) rc = scratch_reserve(c, second + profile, index, fault);
	word_add(p, global ? c->scratch : 0);
	word_add(p, profile ? c->scratch + second : 0);
	return rc;
}

int cuda_launch(struct cuda *c, int index, cu_stream s, struct runner_fault *fault)
{
	const struct tape_row *row = &c->tape->rows[index];
	const struct tape_kernel *tk = &c->tape->kernels[row->kernel];
	const struct cuda_kernel *k = c->kernels[row->kernel];
	struct params p = {0};
	/* The kernel's parameters, and the scratch memory that it asks for. */
	int rc = params_make(c, row, index, k, &p, fault);
	if (!rc) rc = scratch_add(c, row, index, k, tk->num_ctas, &p, fault);
	if (rc) return rc;
	uint64_t wide = (uint64_t)row->grid[0] * (uint64_t)tk->num_ctas;
	if (wide > INT32_MAX) return launcher_fault(fault, "argument", index, row->line, "the grid is too large");

	/* The attributes that Triton's launcher sets, in its order. */
	struct cu_launch_attribute attributes[4] = {0};
	unsigned n = 0;
	if (tk->is_pdl) {
		attributes[n].id = CU_LAUNCH_PROGRAMMATIC_STREAM_SERIALIZATION;
		attributes[n++].value.number = 1;
	}
	if (tk->is_cooperative) {
		attributes[n].id = CU_LAUNCH_COOPERATIVE;
		attributes[n++].value.number = 1;
	}
	if (tk->num_ctas > 1) {
		attributes[n].id = CU_LAUNCH_CLUSTER_DIMENSION;
		attributes[n].value.dim[0] = (unsigned)tk->num_ctas;
		attributes[n].value.dim[1] = attributes[n].value.dim[2] = 1;
		attributes[++n].id = CU_LAUNCH_CLUSTER_SCHEDULING;
		attributes[n++].value.number = CU_CLUSTER_SCHEDULING_SPREAD;
	}
	/* A cluster's blocks lie side by side in x. */
	struct cu_launch_config config = {.grid = {(unsigned)wide, row->grid[1], row->grid[2]},
		.block = {32 * (unsigned)k->binary.num_warps, 1, 1},
		.shared_bytes = (unsigned)k->binary.shared_bytes,
		.stream = s,
		.attributes = attributes,
		.nattributes = n};
	return cuda_check(c, c->cu.LaunchKernelEx(&config, k->function, p.at, NULL), "launching a kernel", index, fault);
}
