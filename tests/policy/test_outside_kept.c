/* Answers of a policy outside that are kept: they outlive a run, and a question that was
 * answered is not asked again. */
#include "outside_case.h"
#include "policy/policy.h"
#include "base/base.h"

#include <fcntl.h>
#include <unistd.h>

/* Asks with this text and number, and takes the answer; caller frees a->text. */
static void answer_of(struct outside *x, int64_t id, const char *text, struct outside_answer *a)
{
	struct chat_message m = {"user", text};
	struct outside_request r = {.id = id, .task = "t", .stage = "frontend", .messages = &m, .count = 1};
	struct err err = {0};
	if (outside_submit(x, &r, &err) || take(x, a, &err)) fail_msg("%s", err.text);
	assert_int_equal(a->id, id);
	assert_int_equal(outside_waiting(x), 0);
}

/* How many requests the command has met, from the beginning. */
static int lines_in(const char *path)
{
	struct str text = {0};
	struct err err = {0};
	int n = 0;
	if (file_read(path, 1 << 20, &text, &err)) return 0;
	for (size_t i = 0; i < text.len; i++) n += text.data[i] == '\n';
	str_release(&text);
	return n;
}

static struct outside *keeper_open(const char *command, const char *roles, const char *kept)
{
	struct policy_options o = {
		.policy_command = command, .policy_roles = roles, .policy_timeout = 60, .policy_requests = 1};
	struct outside *x;
	struct err err = {0};
	if (outside_open(&o, &x, &err) || outside_keep(x, kept, &err)) fail_msg("%s", err.text);
	return x;
}

/* Answers that are kept outlive the run: each comes back as it was, with whatever
 * number it is asked for, and the command is not asked again. Another question, command
 * or role is another key. */
static void test_kept(void **state)
{
	static const struct {
		const char *text;
		const char *answer; /* NULL: a problem */
		int tokens;
		bool is_cut;
		bool is_broken;
	} rows[] = {{"q", "A", 5, false, false}, {"c", "C", 6, true, false}, {"b", "x\xef\xbf\xbd", 7, false, true},
		{"e", NULL, 0, false, false}};
	char *folder = roles_folder((const char *[]){"code", "{{request}}", NULL}), *asked = path_join(folder, "asked"),
		 *kept = path_join(folder, "kept.jsonl");
	char *command = xasprintf("tee -a %s | sed -u -e 's/.*\"id\":\\([0-9]*\\).*\"content\":\"q\".*/"
							  "{\"id\":\\1,\"answer\":\"A\",\"tokens\":5}/;t' "
							  "-e 's/.*\"id\":\\([0-9]*\\).*\"content\":\"c\".*/"
							  "{\"id\":\\1,\"answer\":\"C\",\"tokens\":6,\"finish\":\"length\"}/;t' "
							  "-e 's/.*\"id\":\\([0-9]*\\).*\"content\":\"b\".*/"
							  "{\"id\":\\1,\"answer\":\"x\\\\u0000\",\"tokens\":7}/;t' "
							  "-e 's/.*\"id\":\\([0-9]*\\).*/{\"id\":\\1,\"error\":\"tired\"}/'",
		asked);
	struct err err = {0};
	struct outside_answer a;
	/* The first run asks for each, the second and third for none. */
	for (int run = 0; run < 3; run++) {
		struct outside *x = keeper_open(command, NULL, kept);
		for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
			answer_of(x, 10 * run + (int)i, rows[i].text, &a);
			assert_int_equal(a.text != NULL, rows[i].answer != NULL);
			if (a.text) assert_string_equal(a.text, rows[i].answer);
			else assert_string_equal(a.problem, "tired");
			assert_true(a.tokens == rows[i].tokens && a.is_cut == rows[i].is_cut && a.is_broken == rows[i].is_broken);
			free(a.text);
		}
		outside_close(x);
		assert_int_equal(lines_in(asked), ARRAY_LEN(rows));
		assert_int_equal(lines_in(kept), ARRAY_LEN(rows));
	}
	/* Half a line at the end is cut off, and what it would have said is asked again; lines that are
	 * no rows stay and say nothing. */
	FILE *f = fopen(kept, "a");
	assert_non_null(f);
	fputs("no row\n[1]\n{\"key\":\"", f);
	assert_int_equal(fclose(f), 0);
	struct outside *x = keeper_open(command, NULL, kept);
	assert_int_equal(lines_in(kept), ARRAY_LEN(rows) + 2);
	answer_of(x, 1, "q", &a);
	free(a.text);
	assert_int_equal(lines_in(asked), ARRAY_LEN(rows));
	answer_of(x, 2, "new", &a);
	assert_string_equal(a.problem, "tired");
	assert_int_equal(lines_in(asked), ARRAY_LEN(rows) + 1);
	assert_int_equal(lines_in(kept), ARRAY_LEN(rows) + 3);
	outside_close(x);
	/* Another command, and the same one behind a role. */
	char *other = xasprintf("%s ", command);
	x = keeper_open(other, NULL, kept);
	answer_of(x, 1, "q", &a);
	free(a.text);
	outside_close(x);
	x = keeper_open(command, folder, kept);
	answer_of(x, 1, "q", &a);
	free(a.text);
	assert_int_equal(lines_in(asked), ARRAY_LEN(rows) + 3);
	outside_close(x);
	/* Forgotten, everything is asked anew. */
	x = keeper_open(command, NULL, kept);
	assert_int_equal(outside_forget(x, &err), 0);
	assert_int_equal(lines_in(kept), 0);
	outside_close(x);
	x = keeper_open(command, NULL, kept);
	answer_of(x, 1, "q", &a);
	free(a.text);
	assert_int_equal(lines_in(asked), ARRAY_LEN(rows) + 4);
	assert_int_equal(lines_in(kept), 1);
	outside_close(x);
	free(other);
	free(command);
	free(asked);
	free(kept);
	folder_remove(folder);
}

/* A process that was started without a standard input opens the file of kept answers as descriptor
 * 0, which is as good as another. */
static void test_kept_as_descriptor_0(void **state)
{
	char *folder = roles_folder((const char *[]){"code", "{{request}}", NULL}), *kept = path_join(folder, "kept.jsonl");
	struct policy_options o = {
		.policy_command = "sed -u -e 's/.*\"id\":\\([0-9]*\\).*/{\"id\":\\1,\"answer\":\"A\",\"tokens\":5}/'",
		.policy_timeout = 60,
		.policy_requests = 1};
	struct outside *x;
	struct outside_answer a;
	struct err err = {0};
	if (outside_open(&o, &x, &err)) fail_msg("%s", err.text);
	/* What the test itself reads comes back before anything can fail. */
	int input = dup(0);
	close(0);
	int rc = outside_keep(x, kept, &err);
	bool is_taken = fcntl(0, F_GETFD) >= 0;
	answer_of(x, 1, "q", &a);
	int lines = lines_in(kept), forgets = outside_forget(x, &err), lines_left = lines_in(kept);
	outside_close(x);
	bool is_closed = fcntl(0, F_GETFD) < 0;
	if (input >= 0) {
		dup2(input, 0);
		close(input);
	}
	assert_int_equal(rc, 0);
	assert_true(is_taken && is_closed);
	assert_int_equal(lines, 1);
	assert_int_equal(forgets, 0);
	assert_int_equal(lines_left, 0);
	free(a.text);
	free(kept);
	folder_remove(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kept),
		cmocka_unit_test(test_kept_as_descriptor_0),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
