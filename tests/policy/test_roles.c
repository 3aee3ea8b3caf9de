/* Templates of roles: what a hole may name, what it is filled with, and which role comes next. */
#include "policy/roles.h"
#include "base/base.h"
#include <setjmp.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>
#include "../leaks.h"

static char folder[] = "/tmp/hone-roles-XXXXXX";

/* The folder with these texts, in the order of the roles; NULL: there is no such file. */
static void folder_make(const char *const texts[ROLE_COUNT])
{
	struct err err = {0};
	for (int i = 0; i < ROLE_COUNT; i++) {
		char *path = xasprintf("%s/%s.txt", folder, role_name(i));
		unlink(path);
		if (texts[i] && file_write_atomic(path, texts[i], strlen(texts[i]), &err)) fail_msg("%s", err.text);
		free(path);
	}
}

static void test_names(void **state)
{
	static const char *const expected[ROLE_COUNT] = {"test", "profile", "plan", "code"};
	for (int i = 0; i < ROLE_COUNT; i++) assert_string_equal(role_name(i), expected[i]);
}

/* Every hole is looked at, wherever it stands, and the first bad one is named with its file. */
static void test_holes(void **state)
{
	static const struct {
		const char *texts[ROLE_COUNT];
		const char *file; /* that is refused; NULL: none */
		const char *says;
	} rows[] = {
		{{"{{request}}", "{{request}}{{test}}", "{{test}}{{profile}}{{request}}", "{{request}}{{plan}}{{profile}}"},
			NULL, NULL},
		{{NULL, NULL, NULL, "{{request}}"}, NULL, NULL},
		{{NULL, NULL, NULL, "{ request } {{request}} }} {"}, NULL, NULL},
		/* Behind a good hole, at once and later; before one; in a role that is not the last. */
		{{NULL, NULL, NULL, "{{request}}{{other}}"}, "code", "hole {{other}}: "},
		{{NULL, NULL, NULL, "{{request}} {{other}}"}, "code", "hole {{other}}: "},
		{{NULL, NULL, NULL, "{{other}}{{request}}"}, "code", "hole {{other}}: "},
		{{"{{request}}{{test}}", NULL, NULL, "{{request}}"}, "test", "hole {{test}}: "},
		{{"{{request}}{{code}}", NULL, NULL, "{{request}}"}, "test", "hole {{code}}: "},
		{{"{{request}}", "{{request}}{{plan}}", "{{request}}", "{{request}}"}, "profile",
			"hole {{plan}}: expected request, or a role that the folder has and that comes before profile: of test, "
			"profile, plan, code"},
		/* A role that the folder lacks; a name with blanks, of no letters, cut short, too long. */
		{{NULL, "{{request}}", "{{request}}{{test}}", "{{request}}"}, "plan", "hole {{test}}: "},
		{{NULL, NULL, NULL, "{{request}}{{ request}}"}, "code", "hole {{ request}}: "},
		{{NULL, NULL, NULL, "{{request}}{{}}"}, "code", "hole {{}}: "},
		{{NULL, NULL, NULL, "{{request}}{{}}{{request}}"}, "code", "hole {{}}: "},
		{{NULL, NULL, NULL, "{{request}}{{request"}, "code", "hole {{}}: "},
		{{NULL, NULL, NULL, "{{request}}{{reques}}"}, "code", "hole {{reques}}: "},
		{{NULL, NULL, NULL, "{{request}}{{requests}}"}, "code", "hole {{requests}}: "},
		{{NULL, NULL, NULL, "{{request}}{{0123456789012345678901234567890123456789x}}"}, "code",
			"hole {{0123456789012345678901234567890123456789}}: "},
		/* Nothing is asked. */
		{{NULL, NULL, "plan it", "{{request}}"}, "plan", "has no {{request}}: the role would not know what is asked"},
		{{"{{request}}", NULL, NULL, "{{test}}"}, "code", "has no {{request}}: the role would not know what is asked"},
		{{NULL, NULL, NULL, ""}, "code", "has no {{request}}: the role would not know what is asked"},
		/* The last one has to be there. */
		{{"{{request}}", "{{request}}", "{{request}}", NULL}, "code", ""},
	};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct roles *r = NULL;
		struct err err = {0};
		folder_make(rows[i].texts);
		int rc = roles_open(folder, &r, &err);
		if (!rc) roles_free(r);
		if (!rc != !rows[i].file) fail_msg("row %zu: %s", i, rc ? err.text : "was taken");
		if (!rc) continue;
		char *begin = xasprintf("--policy_roles: %s/%s.txt: %s", folder, rows[i].file, rows[i].says);
		if (strncmp(err.text, begin, strlen(begin))) fail_msg("row %zu: %s", i, err.text);
		assert_int_equal(rc, rows[i].texts[ROLE_CODE] ? ERR_FORMAT : ERR_NOT_FOUND);
		free(begin);
	}
}

/* Of every set of files: the chain visits those that are there, in their order. */
static void test_order(void **state)
{
	for (int set = 0; set < 8; set++) {
		const char *texts[ROLE_COUNT] = {[ROLE_CODE] = "{{request}}"};
		struct roles *r;
		struct err err = {0};
		for (int i = 0; i < ROLE_CODE; i++) texts[i] = set >> i & 1 ? "{{request}}" : NULL;
		folder_make(texts);
		if (roles_open(folder, &r, &err)) fail_msg("%s", err.text);
		int role = -1;
		for (int i = 0; i < ROLE_COUNT; i++)
			if (texts[i]) assert_int_equal(role = roles_next(r, role), i);
		roles_free(r);
	}
}

/* What stands between holes stays as it is; what fills them loses the blanks at its end. */
static void test_filled(void **state)
{
	static const char *const texts[ROLE_COUNT] = {"{{request}}", "{{test}}{{request}}", "a{{request}}",
		"<{{plan}}{{request}}{{request}}> {{test}}\n{{profile}} }}\n"};
	static const struct {
		int role;
		const char *request;
		char *said[ROLE_COUNT];
		const char *expected;
	} rows[] = {
		{ROLE_TEST, "q", {NULL}, "q"},
		{ROLE_TEST, "", {NULL}, ""},
		{ROLE_TEST, " \t\r\n", {NULL}, ""},
		{ROLE_TEST, " q \t\r\n", {NULL}, " q"},
		{ROLE_PROFILE, "q", {"t\n\n"}, "tq"},
		{ROLE_PROFILE, "q", {NULL}, "q"},
		{ROLE_PLAN, "q\n", {"t", "p"}, "aq"},
		{ROLE_CODE, "q ", {"t", "p\n", "n\n"}, "<nqq> t\np }}\n"},
		{ROLE_CODE, "q", {NULL, "p", NULL}, "<qq> \np }}\n"},
		/* A hole in what fills a hole is text. */
		{ROLE_CODE, "{{test}}", {"{{plan}}", "p", "n"}, "<n{{test}}{{test}}> {{plan}}\np }}\n"},
	};
	struct roles *r;
	struct err err = {0};
	folder_make(texts);
	if (roles_open(folder, &r, &err)) fail_msg("%s", err.text);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct str out = {0};
		str_puts(&out, "behind ");
		roles_render(r, rows[i].role, rows[i].request, rows[i].said, &out);
		assert_memory_equal(out.data, "behind ", 7);
		if (strcmp(out.data + 7, rows[i].expected)) fail_msg("row %zu: \"%s\"", i, out.data + 7);
		str_release(&out);
	}
	roles_free(r);
}

/* None of the above leaves memory or descriptors behind, errors included. */
static void everything(void *ctx)
{
	test_holes(NULL);
	test_order(NULL);
	test_filled(NULL);
}

static void test_leaves_nothing(void **state)
{
	leaves_nothing(everything, NULL);
	assert_int_equal(dir_remove(folder, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_names), cmocka_unit_test(test_holes),
		cmocka_unit_test(test_order), cmocka_unit_test(test_filled), cmocka_unit_test(test_leaves_nothing)};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	if (!mkdtemp(folder)) return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
