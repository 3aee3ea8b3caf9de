/* The CUDA launcher over a driver without a GPU (fake_cuda.c): what a launch is given, memory and
 * its canaries, what a fault does, and that rows of movement give what they give on the vm. What a
 * real driver and a real GPU make of it is make test-gpu's. */
#include "runner/cuda/driver.h"
#include "fake_device.h"
#include <math.h>
#include <unistd.h>

static bool is_exact;     /* allocations, in what follows */
static bool takes_ptx;    /* the driver, so that strided rows are the launcher's own kernel's */
static int image_tail_at; /* where the image's header has a table that lies 8 bytes too far; 0: nowhere */

/* One replay with one kernel of that kind; *spent tells whether the launcher lived through it. */
static void replay_kind(
	const char *kind, const char *text, const struct runner_binary *base, struct runner_result *out, bool *spent)
{
	struct tape *t = NULL;
	struct err err = {0};
	char image[128] = "\177ELF", said[256] = "";
	struct launcher *l = NULL;
	struct runner_device device;
	/* A fresh fake driver, and the launcher on it. */
	((void (*)(void))dlsym(library, "fake_reset"))();
	((void (*)(int))dlsym(library, "fake_takes_ptx"))(takes_ptx);
	if (tape_parse(text, strlen(text), &t, &err)) fail_msg("%s", err.text);
	if (launcher_cuda_create(0, MIB, &l, &device, said, sizeof said)) fail_msg("%s", said);
	assert_int_equal(device.capability, 90);
	assert_string_equal(device.name, "Fake H200");
	if (is_exact) launcher_cuda_make_exact(l);
	/* The fake driver reads what the kernel does from the image's text. */
	snprintf(image + 4, sizeof image - 4, "%s", kind);
	if (image_tail_at) {
		uint64_t at = sizeof image - 56;
		uint16_t size = 64, count = 1;
		memcpy(image + image_tail_at, &at, 8);
		memcpy(image + (image_tail_at == 32 ? 54 : 58), &size, 2);
		memcpy(image + (image_tail_at == 32 ? 56 : 60), &count, 2);
	}
	struct runner_binary binary = *base;
	binary.bytes = sizeof image;
	struct runner_binaries list = {(const uint8_t *)image, sizeof image, 1, &binary};
	/* One replay of the inputs 0 to 15; *out has the fault or what the runner answers. */
	struct replay *r = NULL;
	*out = (struct runner_result){0};
	for (int i = 0; i < 16; i++) input[i] = (float)i;
	memset(output, 0x11, sizeof output);
	if (replay_create(t, l, &list, &r, &out->fault)) {
		out->has_fault = true;
		return;
	}
	struct runner_given given = {.bytes = 64};
	struct runner_trial trial = {.ninputs = 1, .inputs = &given, .deadline_ms = 300};
	replay_run(r, &trial, &(struct replay_given){(const uint8_t *)input, sizeof input, NULL, NULL, NULL, NULL}, output,
		sizeof output, out);
	if (spent) *spent = replay_is_spent(r);
	replay_free(r);
}

static void test_rows_run(void **state)
{
	struct runner_result r;
	struct runner_binary b = binary_of(ADD_ARGS, 3);
	replay_kind("add", TAPE("", ADD, VIEW(1, 16)), &b, &r, NULL);
	if (r.has_fault) fail_msg("%s: %s", r.fault.code, r.fault.text);
	assert_false(r.has_lineage);
	for (int i = 0; i < 16; i++) assert_true(((float *)output)[i] == (float)i + 1);
	runner_result_release(&r);
	assert_int_equal(((int (*)(void))dlsym(library, "fake_allocated"))(), 0);
	assert_true(((int (*)(void))dlsym(library, "fake_left"))() > 0); /* the process ends; a reset writes over it */
}

/* Memory that nobody wrote is NaN; without an own kernel, strided rows and casts go
 * through the vm's own code. */
static void test_movement(void **state)
{
	struct runner_result r;
	struct runner_binary b = binary_of(ADD_ARGS, 3);
	replay_kind("add",
		TAPE("",
			"{\"op\": \"copy\", \"line\": 1, \"dst\": {\"buffer\": 2, \"offset\": 8, \"dtype\": \"float64\", "
			"\"shape\": [4, 2], "
			"\"stride\": [3, 1]}, \"src\": {\"buffer\": 0, \"offset\": 0, \"dtype\": \"float32\", \"shape\": [4, 2], "
			"\"stride\": [1, 4]}}, "
			"{\"op\": \"fill\", \"line\": 2, \"dst\": {\"buffer\": 2, \"offset\": 400, \"dtype\": \"float64\", "
			"\"shape\": [3], "
			"\"stride\": [1]}, \"value\": 2.5}, "
			"{\"op\": \"fill\", \"line\": 2, \"dst\": {\"buffer\": 2, \"offset\": 448, \"dtype\": \"bfloat16\", "
			"\"shape\": [3], "
			"\"stride\": [1]}, \"value\": \"-inf\"}",
			"{\"buffer\": 2, \"offset\": 0, \"dtype\": \"float64\", \"shape\": [64], \"stride\": [1]}"),
		&b, &r, NULL);
	if (r.has_fault) fail_msg("%s: %s", r.fault.code, r.fault.text);
	/* Rows that the tape wrote have values, those between them are NaN. */
	const double *y = (const double *)output;
	assert_true(isnan(y[0]) && y[1] == 0 && y[2] == 4 && isnan(y[3]) && y[4] == 1 && y[11] == 7 && isnan(y[12]));
	assert_true(y[50] == 2.5 && y[52] == 2.5 && isnan(y[53]));
	uint16_t half[4];
	/* The fills with a bfloat16, and what nobody wrote behind them. */
	memcpy(half, output + 448, sizeof half);
	assert_true(half[0] == 0xff80 && half[2] == 0xff80 && half[3] == 0xffff);
	runner_result_release(&r);
}

/* Where the own kernel moves, dimensions are sorted, joined and divided by: the same bytes as by
 * the vm's code. */
static void test_strided(void **state)
{
	/* shape, steps of dst, steps of src, in bytes of uint8 */
	static const char *const copies[][3] = {{"3, 4, 5", "20, 5, 1", "1, 3, 12"}, /* all the other way round */
		{"3, 4, 5", "1, 3, 12", "20, 5, 1"}, {"2, 3, 1, 7", "21, 7, 99, 1", "32, 7, 5, 1"}, /* two of four join */
		{"4, 16", "16, 1", "0, 1"}, {"64", "1", "0"}, {"1, 1", "7, 7", "3, 3"}, {"7, 9", "9, 1", "1, 7"},
		{"2, 2, 2, 2, 2, 2", "32, 16, 8, 4, 2, 1", "1, 2, 4, 8, 16, 32"}, {"13, 2, 2", "4, 2, 1", "4, 1, 2"}};
	for (size_t i = 0; i < ARRAY_LEN(copies); i++) {
		struct runner_result r;
		struct runner_binary b = binary_of(ADD_ARGS, 3);
		uint8_t by_host[64];
		char *text = xasprintf(
			TAPE("",
				"{\"op\": \"fill\", \"line\": 1, \"dst\": {\"buffer\": 1, \"offset\": 0, \"dtype\": \"uint8\", "
				"\"shape\": [64], \"stride\": [1]}, \"value\": 9}, "
				"{\"op\": \"copy\", \"line\": 1, \"dst\": {\"buffer\": 1, \"offset\": 0, \"dtype\": \"uint8\", "
				"\"shape\": [%s], \"stride\": [%s]}, \"src\": {\"buffer\": 0, \"offset\": 0, \"dtype\": \"uint8\", "
				"\"shape\": [%s], \"stride\": [%s]}}",
				"{\"buffer\": 1, \"offset\": 0, \"dtype\": \"uint8\", \"shape\": [64], \"stride\": [1]}"),
			copies[i][0], copies[i][1], copies[i][0], copies[i][2]);
		for (int own = 0; own < 2; own++) {
			takes_ptx = own;
			replay_kind("add", text, &b, &r, NULL);
			if (r.has_fault) fail_msg("copy %zu: %s: %s", i, r.fault.code, r.fault.text);
			runner_result_release(&r);
			if (!own) memcpy(by_host, output, sizeof by_host);
		}
		takes_ptx = false;
		if (memcmp(by_host, output, sizeof by_host)) fail_msg("copy %zu moves other bytes by the own kernel", i);
		free(text);
	}
}

/* A cast by the own kernel, with gaps on both sides and where one element is all there is: the same
 * bytes as by the vm's code. Types that the kernel does not take stay with that. */
static void test_cast(void **state)
{
	static const char *const casts[][4] = {{"4, 2", "3, 1", "1, 4", "float64"}, {"8", "1", "1", "float64"},
		{"1", "5", "5", "float64"}, {"2, 3", "1, 2", "0, 1", "float64"}, {"4, 2", "3, 1", "1, 4", "float8_e5m2"}};
	for (size_t i = 0; i < ARRAY_LEN(casts); i++) {
		struct runner_result r;
		struct runner_binary b = binary_of(ADD_ARGS, 3);
		uint8_t by_host[128];
		char *text = xasprintf(
			TAPE("",
				"{\"op\": \"fill\", \"line\": 1, \"dst\": {\"buffer\": 2, \"offset\": 0, \"dtype\": \"uint8\", "
				"\"shape\": [128], \"stride\": [1]}, \"value\": 9}, "
				"{\"op\": \"copy\", \"line\": 1, \"dst\": {\"buffer\": 2, \"offset\": 8, \"dtype\": \"%s\", "
				"\"shape\": [%s], \"stride\": [%s]}, \"src\": {\"buffer\": 0, \"offset\": 4, \"dtype\": \"float32\", "
				"\"shape\": [%s], \"stride\": [%s]}}",
				"{\"buffer\": 2, \"offset\": 0, \"dtype\": \"uint8\", \"shape\": [128], \"stride\": [1]}"),
			casts[i][3], casts[i][0], casts[i][1], casts[i][0], casts[i][2]);
		/* By the host first, then by the kernel. */
		for (int own = 0; own < 2; own++) {
			takes_ptx = own;
			replay_kind("add", text, &b, &r, NULL);
			if (r.has_fault) fail_msg("cast %zu: %s: %s", i, r.fault.code, r.fault.text);
			runner_result_release(&r);
			if (!own) memcpy(by_host, output, sizeof by_host);
		}
		takes_ptx = false;
		if (memcmp(by_host, output, sizeof by_host)) fail_msg("cast %zu has other bytes by the own kernel", i);
		free(text);
	}
}

/* Triton's order: the IR's arguments in their own sizes, then two scratch pointers; the grid times
 * the cluster, a block of the compiled warps. */
static void test_launch_has_tritons_form(void **state)
{
	static const char *const args[] = {"*f32", "i32", "i64", "f32", "f16", "f64", "i1"};
	struct runner_result r;
	struct runner_binary b = binary_of(args, 7);
	b.num_warps = 12; /* a kernel that specialises its warps */
	b.shared_bytes = 100000;
	replay_kind("echo",
		TAPE(", \"launch_cooperative_grid\": true, \"maxnreg\": 64",
			LAUNCH("{\"buffer\": 2, \"offset\": 0}, {\"int\": -3}, {\"int\": 1099511627776}, {\"float\": 1.5}, "
				   "{\"float\": 1.5}, "
				   "{\"float\": 0.1}, {\"int\": 1}"),
			"{\"buffer\": 2, \"offset\": 0, \"dtype\": \"int64\", \"shape\": [64], \"stride\": [1]}"),
		&b, &r, NULL);
	if (r.has_fault) fail_msg("%s: %s", r.fault.code, r.fault.text);
	const int64_t *w = (const int64_t *)output;
	double tenth = 0.1;
	assert_true((int32_t)w[0] == -3 && w[1] == (int64_t)1 << 40);
	assert_true(
		(uint32_t)w[2] == 0x3fc00000 && (uint16_t)w[3] == 0x3e00 && !memcmp(&w[4], &tenth, 8) && (w[5] & 0xff) == 1);
	assert_true(w[6] == 0 && w[7] == 0);
	const int64_t shape[] = {2, 3, 4, 32 * 12, 100000, 1, CU_LAUNCH_COOPERATIVE, 0x5eed};
	assert_memory_equal(&w[8], shape, sizeof shape);
	runner_result_release(&r);
}

#define VALUE(b) "{\"value\": {\"buffer\": " #b ", \"offset\": 4, \"dtype\": \"float32\"}}"
#define VALUE_TAPE(kind) "{\"version\": 2, \"buffers\": [{\"kind\": \"input\", \"bytes\": 64, \"input\": 0}, " \
	"{\"kind\": \"temp\", \"bytes\": 512}, " kind "], " KERNEL("") ", \"rows\": [" \
	LAUNCH("{\"buffer\": 1, \"offset\": 0}, " VALUE(2) ", " VALUE(2)) "], \"outputs\": [{\"buffer\": 1, " \
	"\"offset\": 0, \"dtype\": \"int64\", \"shape\": [64], \"stride\": [1]}], \"tuple\": false}"
static const char *const VALUE_ARGS[] = {"*f32", "f32", "f16"};

/* What the host reads of a constant, in the type that the kernel takes; never where it takes a
 * whole number. */
static void test_values(void **state)
{
	struct runner_result r;
	struct runner_binary b = binary_of(VALUE_ARGS, 3);
	const char *text = VALUE_TAPE("{\"kind\": \"const\", \"bytes\": 8, \"data\": \"AAAAAAAAwD8=\"}");
	replay_kind("echo", text, &b, &r, NULL);
	if (r.has_fault) fail_msg("%s: %s", r.fault.code, r.fault.text);
	const int64_t *w = (const int64_t *)output;
	assert_true((uint32_t)w[0] == 0x3fc00000 && (uint16_t)w[1] == 0x3e00);
	runner_result_release(&r);
	static const char *const whole[] = {"*f32", "i32", "f16"};
	b = binary_of(whole, 3);
	replay_kind("echo", text, &b, &r, NULL);
	assert_true(r.has_fault && !strcmp(r.fault.code, "argument"));
	runner_result_release(&r);
}

static void check_fault(
	const char *kind, const char *tape, const struct runner_binary *b, const char *code, bool is_spent)
{
	struct runner_result r;
	bool spent = false;
	replay_kind(kind, tape, b, &r, &spent);
	if (!r.has_fault || strcmp(r.fault.code, code))
		fail_msg("%s: expected %s, found %s: %s", kind, code, r.has_fault ? r.fault.code : "no fault", r.fault.text);
	assert_true(spent == is_spent);
	runner_result_release(&r);
}

/* Exact allocations: a store beside a buffer touches nothing of ours, and no memory is
 * filled that nobody wrote. */
static void test_exact(void **state)
{
	struct runner_result r;
	struct runner_binary b = binary_of(ADD_ARGS, 3);
	bool spent = true;
	is_exact = true;
	replay_kind("beyond", TAPE("", ADD, VIEW(1, 16)), &b, &r, &spent);
	is_exact = false;
	if (r.has_fault) fail_msg("%s: %s", r.fault.code, r.fault.text);
	assert_false(spent);
	for (int i = 0; i < 16; i++) assert_true(((float *)output)[i] == (float)i + 1);
	runner_result_release(&r);
	/* An input that is written to is looked at all the same. */
	is_exact = true;
	check_fault("spoil", TAPE("", ADD, VIEW(1, 16)), &b, "input-modified", false);
	is_exact = false;
	assert_int_equal(((int (*)(void))dlsym(library, "fake_allocated"))(), 0);
}

/* A table of the image that ends behind it: the driver is not asked. The fake
 * image's own header has none. */
static void test_half_a_binary(void **state)
{
	struct runner_result r;
	struct runner_binary b = binary_of(ADD_ARGS, 3);
	for (int i = 0; i < 2; i++) {
		image_tail_at = i ? 40 : 32;
		replay_kind("add", TAPE("", ADD, VIEW(1, 16)), &b, &r, NULL);
		assert_true(
			r.has_fault && !strcmp(r.fault.code, "bad-binary") && strstr(r.fault.text, "ends before its tables"));
		runner_result_release(&r);
	}
	image_tail_at = 0;
}

static void test_faults(void **state)
{
	struct runner_binary b = binary_of(ADD_ARGS, 3), missing = b, large = b, fewer = binary_of(ADD_ARGS, 2);
	missing.name = "missing";
	large.shared_bytes = 232449;
	check_fault("fault", TAPE("", ADD, VIEW(1, 16)), &b, "out-of-bounds", true);
	check_fault("hang", TAPE("", ADD, VIEW(1, 16)), &b, "timeout", true);
	check_fault("beyond", TAPE("", ADD, VIEW(1, 16)), &b, "canary", false);
	check_fault("spoil", TAPE("", ADD, VIEW(1, 16)), &b, "input-modified", false);
	check_fault("add", TAPE("", ADD, VIEW(1, 16)), &missing, "bad-binary", false);
	check_fault("add", TAPE("", ADD, VIEW(1, 16)), &large, "out-of-resources", false);
	check_fault("add", TAPE("", ADD, VIEW(1, 16)), &fewer, "argument", false);
	check_fault("add", TAPE("", LAUNCH("{\"buffer\": 0, \"offset\": 0}, {\"buffer\": 1, \"offset\": 0}"), VIEW(1, 16)),
		&b, "argument", false);
	check_fault("add", TAPE("", LAUNCH("{\"buffer\": 0, \"offset\": 0}, {\"float\": 1}, {\"int\": 1}"), VIEW(1, 16)),
		&b, "argument", false);
	check_fault("add",
		"{\"version\": 2, \"buffers\": [{\"kind\": \"temp\", \"bytes\": 2000000}], \"kernels\": [], \"rows\": [], "
		"\"outputs\": [" VIEW(0, 1) "], \"tuple\": false}",
		&b, "bad-binary", false);
}

/* Two candidates in one process: nothing of the first is left for the second, neither memory nor
 * code, though both call their kernel the same. A launcher whose memory
 * forgets is not used again. */
static void test_reset(void **state)
{
	char image[128] = "\177ELF", said[256] = "";
	struct launcher *l = NULL;
	struct runner_device device;
	struct runner_fault fault = {0};
	struct runner_binary b = binary_of(ADD_ARGS, 3);
	struct runner_binaries list = {(const uint8_t *)image, sizeof image, 1, &b};
	struct replay *r = NULL;
	((void (*)(void))dlsym(library, "fake_reset"))();
	assert_int_equal(launcher_cuda_create(0, MIB, &l, &device, said, sizeof said), 0);
	b.bytes = sizeof image;
	/* Each candidate, its fault, and what the reset after it returns. */
	static const struct {
		const char *kind, *code;
		int reset;
	} rounds[] = {{"add", "", 0}, {"spoil", "input-modified", 0}, {"add", "", 0}, {"break", "", ERR_MISMATCH}};
	/* The first is created, each later one is loaded into the same replay. */
	for (size_t i = 0; i < ARRAY_LEN(rounds); i++) {
		struct tape *t = NULL;
		struct err err = {0};
		struct runner_result out = {0};
		const char *text = TAPE("", ADD, VIEW(1, 16));
		assert_int_equal(tape_parse(text, strlen(text), &t, &err), 0);
		snprintf(image + 4, sizeof image - 4, "%s", rounds[i].kind);
		assert_int_equal(r ? replay_reload(r, t, &list, &fault) : replay_create(t, l, &list, &r, &fault), 0);
		struct runner_given given = {.bytes = 64};
		struct runner_trial trial = {.ninputs = 1, .inputs = &given, .deadline_ms = 300};
		for (int k = 0; k < 16; k++) input[k] = (float)k;
		replay_run(r, &trial, &(struct replay_given){(const uint8_t *)input, sizeof input, NULL, NULL, NULL, NULL},
			output, sizeof output, &out);
		assert_string_equal(out.fault.code, rounds[i].code);
		for (int k = 0; k < 16 && !out.has_fault; k++) assert_true(((float *)output)[k] == (float)k + 1);
		runner_result_release(&out);
		/* Its tape of other sizes, of which memory is another; what the first one
		 * had is written over too. */
		if (!strcmp(rounds[i].kind, "add")) {
			assert_int_equal(tape_parse(text, strlen(text), &t, &err), 0);
			assert_int_equal(replay_reload(r, t, &list, &fault), 0);
			assert_int_equal(fake("fake_left"), 0);
		}
		/* The reset unloads the code and gives back and clears the memory,
		 * or says that it cannot. */
		assert_int_equal(fake("fake_loaded"), 1);
		assert_int_equal(replay_reset(r, &fault), rounds[i].reset);
		assert_int_equal(fake("fake_loaded"), 0);
		assert_int_equal(fake("fake_allocated"), 0);
		assert_true(rounds[i].reset || fake("fake_left") == 0);
		assert_null(replay_tape(r));
	}
	/* The last one broke its reset. */
	assert_true(replay_is_spent(r));
	replay_free(r);
}

/* One trial in memory of another process's: a file of four pages with the inputs behind the first
 * 64 bytes, and one for the outputs. What is found goes into `output`. */
static void replay_shared_text(
	const char *kind, bool has_own, struct runner_binary b, const char *text, struct runner_result *out)
{
	struct tape *t = NULL;
	struct err err = {0};
	char image[128] = "\177ELF", said[256] = "";
	struct launcher *l = NULL;
	struct runner_device device;
	struct runner_fault fault = {0};
	struct replay *r = NULL;
	struct runner_binaries list = {(const uint8_t *)image, sizeof image, 1, &b};
	((void (*)(void))dlsym(library, "fake_reset"))();
	if (has_own) ((void (*)(int))dlsym(library, "fake_takes_ptx"))(1);
	if (tape_parse(text, strlen(text), &t, &err)) fail_msg("%s", err.text);
	assert_int_equal(launcher_cuda_create(0, MIB, &l, &device, said, sizeof said), 0);
	snprintf(image + 4, sizeof image - 4, "%s", kind);
	b.bytes = sizeof image;
	assert_int_equal(replay_create(t, l, &list, &r, &fault), 0);

	struct launcher_shared shared = {memfd_make("given", 16384, &err), 16384, memfd_make("outputs", 8192, &err), 8192};
	for (int i = 0; i < 16; i++) input[i] = (float)i;
	assert_int_equal(pwrite(shared.given_fd, input, sizeof input, 64), sizeof input);
	struct runner_given given = {.offset = 64, .bytes = 64}, param = {.name = "w", .offset = 64, .bytes = 8};
	struct runner_trial trial = {.ninputs = 1,
		.inputs = &given,
		.nparams = 1,
		.params = &param,
		.deadline_ms = 300,
		.output_offset = {128},
		.shared_given_bytes = 16384};
	replay_run(r, &trial, &(struct replay_given){NULL, 16384, NULL, NULL, &shared, NULL}, NULL, 8192, out);
	assert_true(pread(shared.outputs_fd, output, sizeof output, 128) > 0);
	/* A lost context takes its mappings with it. */
	assert_int_equal(fake("fake_mapped"), replay_is_spent(r) ? 2 : 0);
	close(shared.given_fd);
	close(shared.outputs_fd);
	replay_free(r);
}

static void replay_shared(const char *kind, bool has_own, const char *rows, const char *view, struct runner_result *out)
{
	char *text = xasprintf(TAPE("", "%s", "%s"), rows, view);
	replay_shared_text(kind, has_own, binary_of(ADD_ARGS, 3), text, out);
	free(text);
}

/* Values of a parameter that lies there. */
static void test_shared_values(void **state)
{
	struct runner_result r;
	replay_shared_text("echo", false, binary_of(VALUE_ARGS, 3),
		VALUE_TAPE("{\"kind\": \"param\", \"bytes\": 8, \"name\": \"w\"}"), &r);
	if (r.has_fault) fail_msg("%s: %s", r.fault.code, r.fault.text);
	const int64_t *w = (const int64_t *)output;
	assert_true((uint32_t)w[0] == 0x3f800000 && (uint16_t)w[1] == 0x3c00); /* the second of 0, 1, 2, ... */
	runner_result_release(&r);
}

/* Inputs come from there and outputs go there, with gaps closed; the input, which is mapped for
 * reading alone, is looked at with the launcher's own kernel and without. */
static void test_shared(void **state)
{
	struct runner_result r;
	for (int has_own = 0; has_own < 2; has_own++) {
		int before = fake("fake_read_only");
		/* A right kernel, one that writes its input, one that faults. */
		replay_shared("add", has_own, ADD, VIEW(1, 16), &r);
		if (r.has_fault) fail_msg("%s: %s", r.fault.code, r.fault.text);
		for (int i = 0; i < 16; i++) assert_true(((float *)output)[i] == (float)i + 1);
		assert_int_equal(fake("fake_read_only"), before + 1);
		runner_result_release(&r);
		replay_shared("spoil", has_own, ADD, VIEW(1, 16), &r);
		assert_string_equal(r.fault.code, "input-modified");
		runner_result_release(&r);
		replay_shared("fault", has_own, ADD, VIEW(1, 16), &r);
		assert_string_equal(r.fault.code, "out-of-bounds");
		runner_result_release(&r);
	}
	/* An output with gaps is closed by the launcher's own kernel; without it the output cannot be
	 * shared. */
	static const char EVERY_OTHER[] =
		"{\"buffer\": 1, \"offset\": 4, \"dtype\": \"float32\", \"shape\": [7], \"stride\": [2]}";
	replay_shared("add", true, ADD, EVERY_OTHER, &r);
	if (r.has_fault) fail_msg("%s: %s", r.fault.code, r.fault.text);
	for (int i = 0; i < 7; i++) assert_true(((float *)output)[i] == (float)(2 * i + 1) + 1);
	runner_result_release(&r);
	replay_shared("add", false, ADD, EVERY_OTHER, &r);
	assert_string_equal(r.fault.code, "unshared");
	runner_result_release(&r);
}

/* Binaries and devices through the wire; hostile ones are refused. */
static void test_wire(void **state)
{
	struct runner_binary b = binary_of(ADD_ARGS, 3), *list = &b;
	struct err err = {0};
	/* A binary with a value in every field goes out and comes back. */
	b.offset = 5;
	b.bytes = 90;
	b.shared_bytes = 1 << 17;
	b.global_scratch_bytes = 384;
	b.nmaps = 1;
	b.maps[0] = (struct runner_tensor_map){
		.swizzle = 3, .element_bytes = 2, .element_type = 6, .ndim = 2, .block = {16, 64}};
	json_t *o = runner_binaries_json(list, 1);
	struct runner_binaries back = {0};
	assert_int_equal(runner_binaries_parse(o, 95, &back, &err), 0);
	assert_int_equal(back.count, 1);
	const struct runner_binary *r = back.binaries;
	assert_string_equal(r->args[2], "i32");
	assert_true(r->offset == 5 && r->bytes == 90 && r->shared_bytes == 1 << 17 && r->global_scratch_bytes == 384);
	assert_true(r->nmaps == 1 && r->maps[0].block[1] == 64 && r->maps[0].swizzle == 3 && r->num_warps == 4);
	free(back.binaries);
	/* One that ends behind the bytes, and one with no warps. */
	assert_int_equal(runner_binaries_parse(o, 94, &back, &err), ERR_RANGE);
	json_object_set_new(json_array_get(o, 0), "num_warps", json_integer(0));
	assert_int_equal(runner_binaries_parse(o, 95, &back, &err), ERR_RANGE);
	json_decref(o);
	/* A device comes back to the bit. */
	struct runner_device d = {.name = "NVIDIA H200",
							 .capability = 90,
							 .sms = 132,
							 .shared_bytes = 232448,
							 .driver = 13000},
						 e;
	o = runner_device_json(&d);
	assert_int_equal(runner_device_parse(o, &e, &err), 0);
	assert_memory_equal(&d, &e, sizeof d);
	json_decref(o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows_run),
		cmocka_unit_test(test_movement),
		cmocka_unit_test(test_strided),
		cmocka_unit_test(test_cast),
		cmocka_unit_test(test_launch_has_tritons_form),
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_shared_values),
		cmocka_unit_test(test_exact),
		cmocka_unit_test(test_half_a_binary),
		cmocka_unit_test(test_faults),
		cmocka_unit_test(test_reset),
		cmocka_unit_test(test_shared),
		cmocka_unit_test(test_wire),
	};
	fake_open();
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("launcher_cuda", tests, NULL, NULL);
}
