/* The CUDA launcher over a driver that fails (fake_cuda.c): each of its
 * calls, one after another. */
#include "runner/cuda/driver.h"
#include "fake_device.h"
#include <unistd.h>

/* One whole life: a context, a candidate with a timed trial, its tape of other sizes with a trial
 * in shared memory, a reset, the next candidate. Ends where a real runner would. */
struct life {
	char code[32]; /* of the first fault; "": there was none; "start": no launcher came to be */
	bool is_wrong; /* a trial without a fault had other outputs than it should */
};

static bool life_trial(struct replay *r, bool is_timed, bool is_shared, struct life *out)
{
	static const enum runner_clock questions[] = {RUNNER_CONTROL, RUNNER_SPAN, RUNNER_WALL};
	struct asked a = {.questions = questions, .n = ARRAY_LEN(questions)};
	struct err err = {0};
	struct launcher_clock clock = {take_next, 300};
	struct launcher_shared shared = {-1, 4096, -1, 4096};
	struct runner_given given = {.bytes = 64};
	struct runner_trial trial = {.ninputs = 1, .inputs = &given, .is_timed = is_timed, .deadline_ms = 300};
	struct runner_result result = {0};
	asked = &a;
	for (int i = 0; i < 16; i++) input[i] = (float)i;
	memset(output, 0x11, sizeof output);
	/* Shared: inputs and outputs are files of memory, a page each. */
	if (is_shared) {
		shared.given_fd = memfd_make("given", 4096, &err);
		shared.outputs_fd = memfd_make("outputs", 4096, &err);
		assert_int_equal(pwrite(shared.given_fd, input, sizeof input, 0), sizeof input);
	}
	replay_run(r, &trial,
		&(struct replay_given){
			(const uint8_t *)input, is_shared ? 4096 : sizeof input, NULL, &clock, is_shared ? &shared : NULL, NULL},
		output, sizeof output, &result);
	if (is_shared) {
		assert_true(pread(shared.outputs_fd, output, sizeof output, 0) > 0);
		close(shared.given_fd);
		close(shared.outputs_fd);
	}
	/* Whatever way they came, the outputs are the inputs and 1. */
	for (int i = 0; i < 16 && !result.has_fault; i++) out->is_wrong |= ((float *)output)[i] != (float)i + 1;
	if (result.has_fault) snprintf(out->code, sizeof out->code, "%s", result.fault.code);
	runner_result_release(&result);
	return !out->code[0];
}

static bool life_load(struct launcher *l, struct replay **r, const char *text, struct life *out)
{
	char image[128] = "\177ELF";
	struct runner_binary b = binary_of(ADD_ARGS, 3);
	struct runner_binaries list = {(const uint8_t *)image, sizeof image, 1, &b};
	struct runner_fault fault = {0};
	struct tape *t = NULL;
	struct err err = {0};
	snprintf(image + 4, sizeof image - 4, "add");
	b.bytes = sizeof image;
	b.shared_bytes = 100000;
	b.global_scratch_bytes = *r ? 512 : 128;
	assert_int_equal(tape_parse(text, strlen(text), &t, &err), 0);
	if (*r ? replay_reload(*r, t, &list, &fault) : replay_create(t, l, &list, r, &fault))
		snprintf(out->code, sizeof out->code, "%s", fault.code);
	return !out->code[0];
}

static void live(int fails_at, int result, bool lasts, struct life *out)
{
	char said[256] = "";
	struct launcher *l = NULL;
	struct runner_device device;
	struct runner_fault fault = {0};
	struct replay *r = NULL;
	const char *one = TAPE("", ADD, VIEW(1, 16)), *other = TAPE("", ADD ", " ADD, VIEW(1, 16));
	*out = (struct life){.code = ""};
	((void (*)(void))dlsym(library, "fake_reset"))();
	((void (*)(int))dlsym(library, "fake_takes_ptx"))(1);
	((void (*)(int, int, int))dlsym(library, "fake_fail"))(fails_at, result, lasts);
	if (launcher_cuda_create(0, MIB, &l, &device, said, sizeof said)) {
		snprintf(out->code, sizeof out->code, "start");
		return;
	}
	bool goes_on = life_load(l, &r, one, out) && life_trial(r, true, false, out) && life_load(l, &r, other, out) &&
		life_trial(r, false, true, out);
	if (goes_on && replay_reset(r, &fault)) {
		snprintf(out->code, sizeof out->code, "%s", fault.code);
		goes_on = false;
	}
	if (goes_on) goes_on = life_load(l, &r, one, out) && life_trial(r, false, false, out);
	if (r) replay_free(r);
}

/* Each call of the driver fails, one after another: with an error that means nothing to a
 * candidate, with one for an argument that is wrong, and for memory that is not there; once, and
 * from then on. No fault that is the machine's is charged to a candidate, nothing passes that was
 * not computed, and nobody waits for what cannot end. */
static void test_each_call_fails(void **state)
{
	static const struct {
		int result;
		const char *codes; /* that it may end with */
	} errors[] = {{999, "start gpu-lost unshared"}, {CU_INVALID_VALUE, "start argument unshared gpu-lost"},
		{CU_OUT_OF_MEMORY, "start no-room unshared gpu-lost memory"}};
	int failed = 0, ended = 0;
	for (size_t e = 0; e < ARRAY_LEN(errors); e++)
		for (int lasts = 0; lasts < 2; lasts++)
			for (int at = 1, is_over = 0; !is_over; at++) {
				struct life life;
				live(at, errors[e].result, lasts, &life);
				is_over = fake("fake_calls") < at;
				bool is_listed = !life.code[0] || strstr(errors[e].codes, life.code);
				if (!is_listed || life.is_wrong || fake("fake_stuck") || (is_over && life.code[0])) {
					print_error("error %d at call %d%s: ended with \"%s\", outputs %s, %d times stuck\n",
						errors[e].result, at, lasts ? " and behind" : "", life.code, life.is_wrong ? "wrong" : "right",
						fake("fake_stuck"));
					failed++;
				}
				ended += life.code[0] != 0;
			}
	((void (*)(int, int, int))dlsym(library, "fake_fail"))(0, 0, 0);
	/* Calls that only give back may fail unnoticed; all others end something. */
	print_message("# %d lives ended early\n", ended);
	assert_true(ended > 500);
	assert_int_equal(failed, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_call_fails),
	};
	fake_open();
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("launcher_cuda_fails", tests, NULL, NULL);
}
