/* Which device and which card a verifier takes: what options mean, what they
 * must not mean together. */
#include "verify/gpu_steps.h"
#include "base/base.h"
#include "cost/cost.h"
#include "runner/runner.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

static void test_devices(void **state)
{
	static const struct {
		const char *text;
		bool is_good;
		int count, numbers[3];
	} cases[] = {{NULL, true, 0, {0}}, {"cpu", true, 0, {0}}, {"cuda", true, 1, {0}}, {"cuda:0", true, 1, {0}},
		{"cuda:7", true, 1, {7}}, {"cuda:0,1", true, 2, {0, 1}}, {"cuda:3,0,12", true, 3, {3, 0, 12}},
		{"cuda:64", false, 0, {0}}, {"cuda:", false, 0, {0}}, {"cuda:x", false, 0, {0}}, {"cuda:1x", false, 0, {0}},
		{"cuda:1,", false, 0, {0}}, {"cuda:,1", false, 0, {0}}, {"cuda:1,1", false, 0, {0}},
		{"cuda:0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16", false, 0, {0}}, {"cuda0", false, 0, {0}},
		{"gpu", false, 0, {0}}, {"", false, 0, {0}}};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct device_list list;
		struct err err = {0};
		int rc = setup_devices(cases[i].text, &list, &err);
		if ((rc == 0) != cases[i].is_good) fail_msg("device %s: %s", cases[i].text, err.text);
		if (rc) assert_int_equal(rc, ERR_USAGE);
		else if (list.count != cases[i].count) fail_msg("device %s: %d", cases[i].text, list.count);
		for (int k = 0; k < 3 && k < cases[i].count; k++) assert_int_equal(list.numbers[k], cases[i].numbers[k]);
	}
}

static void test_cards(void **state)
{
	struct vm_gpu gpu;
	struct err err = {0};
	assert_int_equal(setup_gpu(NULL, NULL, &gpu, &err), 0);
	assert_string_equal(gpu.name, VM_GPU_DEFAULT);
	assert_true(gpu.capability == 90 && gpu.shared_bytes == 232448 && gpu.sms == 132);
	assert_int_equal(setup_gpu("a100", NULL, &gpu, &err), 0);
	assert_true(gpu.capability == 80 && gpu.shared_bytes == 166912 && gpu.sms == 108);
	assert_int_equal(setup_gpu("B9000", NULL, &gpu, &err), ERR_USAGE);
	assert_non_null(strstr(err.text, "RTX 4090"));
}

/* A device is the card of its name; what it has less of than the table says holds. */
static void test_card_of_a_device(void **state)
{
	static const struct {
		const char *device, *card;
		int capability;
	} cases[] = {{"NVIDIA H200", "H200", 90}, {"NVIDIA H100 80GB HBM3", "H100", 90},
		{"NVIDIA A100-SXM4-40GB", "A100", 80}, {"NVIDIA GeForce RTX 4090", "RTX 4090", 89}, {"NVIDIA L40S", "L40S", 89},
		{"NVIDIA L40", NULL, 89}, {"NVIDIA H2000", NULL, 90}};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct runner_device d = {
			.capability = cases[i].capability, .sms = 7, .shared_bytes = 90000, .memory_bytes = 5, .driver = 13000};
		struct vm_gpu gpu = {0};
		struct err err = {0};
		snprintf(d.name, sizeof d.name, "%s", cases[i].device);
		int rc = setup_gpu(NULL, &d, &gpu, &err);
		if (!cases[i].card) {
			assert_int_equal(rc, ERR_UNSUPPORTED);
			assert_non_null(strstr(err.text, "--gpu"));
			continue;
		}
		if (rc) fail_msg("%s: %s", cases[i].device, err.text);
		assert_string_equal(gpu.name, cases[i].card);
		assert_true(gpu.sms == 7 && gpu.shared_bytes == 90000 && gpu.memory_bytes == 5);
	}
	/* Another card of the same capability may be named, to live within its
	 * limits; none of another. */
	struct runner_device h200 = {
		.name = "NVIDIA H200", .capability = 90, .sms = 132, .shared_bytes = 232448, .memory_bytes = (int64_t)1 << 40};
	struct vm_gpu gpu;
	struct err err = {0};
	assert_int_equal(setup_gpu("H100", &h200, &gpu, &err), 0);
	assert_true(gpu.memory_bytes < (int64_t)86 << 30);
	/* A newer device stands for an older card, by that card's limits; not the other way round, nor
	 * for Hopper's own code. */
	assert_int_equal(setup_gpu("a100", &h200, &gpu, &err), 0);
	assert_true(
		gpu.capability == 80 && gpu.shared_bytes == 166912 && gpu.sms == 108 && gpu.memory_bytes < (int64_t)80 << 30);
	assert_int_equal(setup_gpu("rtx4090", &h200, &gpu, &err), 0);
	assert_true(gpu.capability == 89 && gpu.shared_bytes == 101376 && gpu.memory_bytes < (int64_t)24 << 30);
	struct runner_device a100 = h200, next = h200;
	a100.capability = 80, next.capability = 100;
	assert_int_equal(setup_gpu("rtx4090", &a100, &gpu, &err), ERR_USAGE);
	assert_non_null(strstr(err.text, "sm_89"));
	assert_int_equal(setup_gpu("H200", &next, &gpu, &err), ERR_USAGE);
}

/* Numbers next to zero become zeros of their sign, and nothing else changes. */
static void test_subnormals(void **state)
{
	float floats[] = {1e-40f, -1e-45f, 0.0f, -0.0f, 1.17549435e-38f, -1.0f, INFINITY, NAN};
	float wanted[] = {0.0f, -0.0f, 0.0f, -0.0f, 1.17549435e-38f, -1.0f, INFINITY, NAN};
	assert_true(gpu_cause_flush(DTYPE_F32, (uint8_t *)floats, sizeof floats));
	assert_memory_equal(floats, wanted, sizeof floats);
	assert_false(gpu_cause_flush(DTYPE_F32, (uint8_t *)floats, sizeof floats));
	uint16_t shorts[] = {0x0001, 0x8040, 0x0080, 0x3f80, 0x7fff}, kept[] = {0x0000, 0x8000, 0x0080, 0x3f80, 0x7fff};
	assert_true(gpu_cause_flush(DTYPE_BF16, (uint8_t *)shorts, sizeof shorts));
	assert_memory_equal(shorts, kept, sizeof kept);
	/* Half precision's are ordinary numbers in fp32; integers are none at all. */
	uint16_t halves[] = {0x0001, 0x83ff};
	assert_false(gpu_cause_flush(DTYPE_F16, (uint8_t *)halves, sizeof halves));
	assert_false(gpu_cause_flush(DTYPE_I32, (uint8_t *)halves, sizeof halves));
}

/* The largest finite magnitude of what is floating, whatever lies between. */
static void test_largest(void **state)
{
	uint8_t given[64] = {0};
	float a[] = {1.5f, -70.0f, INFINITY, NAN};
	int32_t b[] = {100000};
	memcpy(given + 8, a, sizeof a);
	memcpy(given + 32, b, sizeof b);
	struct runner_given inputs[] = {{.offset = 8, .bytes = sizeof a, .dtype = DTYPE_F32},
		{.offset = 32, .bytes = sizeof b, .dtype = DTYPE_I32}, {.offset = 32, .bytes = sizeof b, .dtype = DTYPE_COUNT}};
	struct oracle_trial t = {.ninputs = 3, .inputs = inputs, .given = given, .given_bytes = sizeof given};
	assert_true(gpu_cause_largest(&t) == 70.0);
	t.ninputs = 0;
	assert_true(gpu_cause_largest(&t) == 0.0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_devices),
		cmocka_unit_test(test_cards),
		cmocka_unit_test(test_card_of_a_device),
		cmocka_unit_test(test_subnormals),
		cmocka_unit_test(test_largest),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("device", tests, NULL, NULL);
}
