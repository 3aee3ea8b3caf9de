/* The CUDA launcher's clock, over a driver without a GPU (fake_cuda.c), whose own clock counts
 * launches. */
#include "fake_device.h"

static void clocked(const char *kind, const char *tape, struct asked *a, struct runner_result *out)
{
	char image[128] = "\177ELF", said[256] = "";
	struct launcher *l = NULL;
	struct runner_device device;
	struct runner_fault fault = {0};
	struct runner_binary b = binary_of(ADD_ARGS, 3);
	struct runner_binaries list = {(const uint8_t *)image, sizeof image, 1, &b};
	struct replay *r = NULL;
	struct tape *t = NULL;
	struct err err = {0};
	/* The pretended driver as new, and a kernel of that kind in the form of a binary. */
	((void (*)(void))dlsym(library, "fake_reset"))();
	((void (*)(int))dlsym(library, "fake_takes_ptx"))(1);
	assert_int_equal(launcher_cuda_create(0, MIB, &l, &device, said, sizeof said), 0);
	b.bytes = sizeof image;
	snprintf(image + 4, sizeof image - 4, "%s", kind);
	assert_int_equal(tape_parse(tape, strlen(tape), &t, &err), 0);
	assert_int_equal(replay_create(t, l, &list, &r, &fault), 0);
	/* One trial that is timed, by whatever the asker wants to know. */
	struct runner_given given = {.bytes = 64, .may_change = true};
	struct runner_trial trial = {.ninputs = 1, .inputs = &given, .is_timed = true, .deadline_ms = 300};
	struct launcher_clock clock = {take_next, 300};
	for (int i = 0; i < 16; i++) input[i] = (float)i;
	memset(output, 0x11, sizeof output);
	asked = a;
	replay_run(r, &trial, &(struct replay_given){(const uint8_t *)input, sizeof input, NULL, &clock, NULL, NULL},
		output, sizeof output, out);
	replay_free(r);
	if (!out->has_fault) assert_int_equal(fake("fake_allocated"), 0);
}

static void test_clock(void **state)
{
	static const enum runner_clock questions[] = {
		RUNNER_EMPTY, RUNNER_SPAN, RUNNER_WALL, RUNNER_CONTROL, RUNNER_SPAN, RUNNER_PAPER};
	struct asked a = {.questions = questions, .n = ARRAY_LEN(questions)};
	struct runner_result r = {0};
	/* Two launches of a kernel that spoils its input: memory that was not made anew would show. */
	clocked("spoil", TAPE("", ADD ", " ADD, VIEW(1, 16)), &a, &r);
	if (r.has_fault) fail_msg("%s: %s", r.fault.code, r.fault.text);
	assert_string_equal(r.untimed, "");
	assert_true(r.memory_bytes >= 64 + 64 + 512);
	const int64_t found[] = {a.ns[0], a.ns[1], a.ns[3], a.ns[4], a.ns[5]}, want[] = {0, 2000, 3000, 2000, 2000};
	for (int i = 0; i < 5; i++)
		if (found[i] / 10 != want[i] / 10)
			fail_msg("answer %d: expected %lld ns, found %lld", i, (long long)want[i], (long long)found[i]);
	assert_true(a.ns[2] > 0);
	for (int i = 0; i < 5; i++) assert_true(i == 2 || a.ungated[i] == 0);
	/* `paper` replays on memory as it was left: the outputs are those of one more span. The second
	 * launch reads what the first one spoiled. */
	assert_true(((float *)output)[0] == 8 && ((float *)output)[1] == 2);
	runner_result_release(&r);
}

/* A tape that cannot be queued as a whole is asked nothing, and says why. */
static void test_clock_refuses(void **state)
{
	static const enum runner_clock questions[] = {RUNNER_SPAN};
	struct asked a = {.questions = questions, .n = 1};
	struct runner_result r = {0};
	const char *cast =
		"{\"op\": \"copy\", \"line\": 1, \"dst\": {\"buffer\": 2, \"offset\": 0, \"dtype\": \"float8_e5m2\", "
		"\"shape\": [16], \"stride\": [1]}, \"src\": " VIEW(0, 16) "}";
	char *text = xasprintf("{\"version\": 2, " BUFFERS ", " KERNEL("") ", \"rows\": [%s, " ADD "], \"outputs\": [" VIEW(
							   1, 16) "], \"tuple\": false}",
		cast);
	clocked("add", text, &a, &r);
	if (r.has_fault) fail_msg("%s: %s", r.fault.code, r.fault.text);
	assert_true(a.at == 0 && strstr(r.untimed, "8-bit float"));
	runner_result_release(&r);
	free(text);
	/* A kernel that never ends costs the runner, whatever was asked. */
	clocked("hang", TAPE("", ADD, VIEW(1, 16)), &a, &r);
	assert_string_equal(r.fault.code, "timeout");
	runner_result_release(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_clock),
		cmocka_unit_test(test_clock_refuses),
	};
	fake_open();
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("launcher_cuda_clock", tests, NULL, NULL);
}
