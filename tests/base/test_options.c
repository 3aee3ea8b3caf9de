/* Options: every way to write them, recipes under the command line, and what a wrong one says. */
#include "base_test.h"

struct settings {
	bool flag, json;
	int64_t steps, threads;
	double rate, share;
	const char *loss, *path;
	struct option_list adapters;
};
static const struct option_def defs[] = {
	{"flag", OPTION_BOOL, offsetof(struct settings, flag), "a switch", NULL},
	{"json", OPTION_BOOL, offsetof(struct settings, json), "one JSON object", NULL},
	{"max_steps", OPTION_INT, offsetof(struct settings, steps), "number of updates", NULL},
	{"learning_rate", OPTION_FLOAT, offsetof(struct settings, rate), "step size", NULL},
	{"threads", OPTION_INT, offsetof(struct settings, threads), "threads", "0 to 4096"},
	{"top_p", OPTION_FLOAT, offsetof(struct settings, share), "nucleus mass", "1e-6 to 1"},
	{"beta", OPTION_FLOAT, offsetof(struct settings, rate), "weight", "0 or more"},
	{"loss_type", OPTION_STR, offsetof(struct settings, loss), "which loss", "grpo|dr_grpo|dapo"},
	{"output_dir", OPTION_STR, offsetof(struct settings, path), "folder", NULL},
	{"adapter", OPTION_LIST, offsetof(struct settings, adapters), "folders", NULL},
};

/* The same options where some do nothing without others. */
static const struct option_def needy[] = {
	{"flag", OPTION_BOOL, offsetof(struct settings, flag), "a switch", NULL},
	{"json", OPTION_BOOL, offsetof(struct settings, json), "one JSON object", NULL},
	{"max_steps", OPTION_INT, offsetof(struct settings, steps), "number of updates", NULL},
	{"top_p", OPTION_FLOAT, offsetof(struct settings, share), "nucleus mass", NULL},
	{"threads", OPTION_INT, offsetof(struct settings, threads), "threads", NULL},
	{"loss_type", OPTION_STR, offsetof(struct settings, loss), "which loss", NULL},
	{"output_dir", OPTION_STR, offsetof(struct settings, path), "folder", NULL},
	{"adapter", OPTION_LIST, offsetof(struct settings, adapters), "folders", NULL},
	OPTIONS_NEED("top_p adapter", "max_steps>10 | flag"),
	OPTIONS_NEED("adapter", "loss_type!=dapo"),
	OPTIONS_NEED("json", "loss_type=d* | $HONE_TEST_NEEDS"),
	OPTIONS_NEED("threads json absent", "!output_dir"),
	OPTIONS_NEED("threads", "@run | @walk"),
	OPTIONS_NEED("flag", "@run | @sit"),
	OPTIONS_NEED("top_p", "!absent | !threads"),
};

static const struct option_def *table = defs;
static size_t table_count = ARRAY_LEN(defs);
static struct settings s;
static struct err err;
static int npos;
static char *argv_left[32];

/* Splits line at single spaces and parses it over fresh settings. */
static int parse(const char *line)
{
	static char buffer[1024];
	int argc = 0;
	snprintf(buffer, sizeof(buffer), "rl%s%s", line[0] ? " " : "", line);
	for (char *p = strtok(buffer, " "); p; p = strtok(NULL, " ")) argv_left[argc++] = p;
	argv_left[argc] = NULL;
	s = (struct settings){.steps = 10, .rate = 1e-6, .loss = "grpo"};
	err = (struct err){0};
	npos = -1;
	return options_parse("rl", "train", table, table_count, &s, argc, argv_left, &npos, &err);
}

static void ways_to_write_values(void **state)
{
	assert_int_equal(parse(""), 0);
	assert_int_equal(npos, 0);
	assert_int_equal(s.steps, 10);
	assert_int_equal(parse("--max_steps 5 --learning-rate=2.5e-4 --loss_type dapo --output-dir x=y"), 0);
	assert_int_equal(s.steps, 5);
	assert_true(s.rate == 2.5e-4);
	assert_string_equal(s.loss, "dapo");
	assert_string_equal(s.path, "x=y");
	assert_int_equal(parse("--max-steps -3 --output_dir="), 0);
	assert_int_equal(s.steps, -3);
	assert_string_equal(s.path, "");
	assert_int_equal(parse("--max_steps=1 --max_steps=2"), 0);
	assert_int_equal(s.steps, 2);
	assert_int_equal(parse("--output_dir=--odd"), 0);
	assert_string_equal(s.path, "--odd");
}

static void switches(void **state)
{
	static const struct {
		const char *line;
		bool flag;
	} rows[] = {{"--flag", true}, {"--flag true", true}, {"--flag=true", true}, {"--flag=false", false},
		{"--flag false", false}, {"--no-flag", false}, {"--flag --no_flag", false}, {"--no-flag --flag", true},
		{"--flag truth", true}};
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		assert_int_equal(parse(rows[i].line), 0);
		assert_int_equal(s.flag, rows[i].flag);
	}
	assert_int_equal(npos, 1); /* "truth" is a positional word */
	assert_string_equal(argv_left[1], "truth");
}

static void positional_words_move_to_the_front(void **state)
{
	assert_int_equal(parse("a --max_steps 3 b --flag - -- --c -d"), 0);
	assert_int_equal(npos, 5);
	static const char *const expected[] = {"a", "b", "-", "--c", "-d"};
	for (size_t i = 0; i < 5; i++) assert_string_equal(argv_left[1 + i], expected[i]);
	assert_true(s.flag);
	assert_int_equal(s.steps, 3);
}

static void usage(const char *line, const char *words)
{
	assert_int_equal(parse(line), ERR_USAGE);
	assert_int_equal(err.code, ERR_USAGE);
	if (!strstr(err.text, words)) fail_msg("%s: error is \"%s\", expected \"%s\" in it", line, err.text, words);
}

static void wrong_options_say_what_was_expected(void **state)
{
	usage("--learning_rat 1", "did you mean --learning_rate?");
	usage("--lerning-rate=1", "did you mean --learning_rate?");
	usage("--no-flagg", "did you mean --flag?");
	usage("--no-max_steps", "--no-max_steps: unknown option");
	usage("--zzzzzz", "`hone rl --help`");
}

static void wrong_values_say_what_was_expected(void **state)
{
	usage("--max_steps many", "--max_steps: expected an integer, found \"many\"");
	usage("--max_steps 1.5", "expected an integer");
	usage("--max_steps=", "expected an integer");
	usage("--max_steps 99999999999999999999", "expected an integer");
	usage("--max_steps 5x", "expected an integer");
	usage("--learning_rate nan", "expected a finite number");
	usage("--learning_rate 1e999", "expected a finite number");
	usage("--loss_type ppo", "expected one of grpo|dr_grpo|dapo, found \"ppo\"");
	usage("--loss_type grp", "expected one of");
	usage("--loss_type grpox", "expected one of");
	usage("--loss_type=", "expected one of");
	usage("--flag=yes", "expected true or false");
	usage("--no-flag=true", "takes no value");
	usage("--max_steps", "expected a value");
	usage("--output_dir --flag", "expected a value");
	usage("-x", "-x: unknown option");
	usage("--recipe", "expected a value");
}

static void ranges_hold(void **state)
{
	assert_int_equal(parse("--threads 0 --top_p 1 --beta 0"), 0);
	assert_int_equal(parse("--threads 4096 --top_p 0.000001 --beta 1e300"), 0);
	assert_int_equal(s.threads, 4096);
	usage("--threads -1", "--threads: expected an integer, 0 to 4096, found \"-1\"");
	usage("--threads 4097", "0 to 4096");
	usage("--threads 4294967297", "0 to 4096");
	usage("--threads 9223372036854775807", "0 to 4096");
	usage("--top_p 0", "--top_p: expected a finite number, 1e-6 to 1, found \"0\"");
	usage("--top_p 1.0000001", "1e-6 to 1");
	usage("--beta -1e-300", "expected a finite number, 0 or more");
}

static void lists_grow(void **state)
{
	char *dir = scratch_make(), *path = path_join(dir, "r.yaml"),
		 *line = xasprintf("--recipe %s --adapter x --adapter=y", path), *recipe = xasprintf("--recipe %s", path);
	/* On the command line each one is added. */
	assert_int_equal(parse("--adapter a --max_steps 1 --adapter b"), 0);
	assert_int_equal(s.adapters.count, 2);
	assert_string_equal(s.adapters.items[1], "b");
	/* A recipe's list is whole, and the first on the command line replaces it. */
	write_text(path, "adapter: [a, b, c]\n");
	assert_int_equal(parse(recipe), 0);
	assert_int_equal(s.adapters.count, 3);
	assert_string_equal(s.adapters.items[2], "c");
	assert_int_equal(parse(line), 0); /* not a, b, c, x, y */
	assert_int_equal(s.adapters.count, 2);
	assert_string_equal(s.adapters.items[0], "x");
	write_text(path, "adapter: one\n");
	assert_int_equal(parse(recipe), 0);
	assert_int_equal(s.adapters.count, 1);
	/* What is no list of texts, or too long a one. */
	write_text(path, "adapter: [a, 5]\n");
	usage(recipe, "adapter[1]: expected text");
	write_text(path, "adapter: 5\n");
	usage(recipe, "adapter: expected text, found 5");
	struct str many = {0};
	for (int i = 0; i <= OPTION_LIST_MAX; i++) str_printf(&many, "%sx%d", i ? ", " : "adapter: [", i);
	str_puts(&many, "]\n");
	write_text(path, many.data);
	usage(recipe, "adapter: given more than 32 times");
	str_release(&many);
	free(path);
	free(line);
	free(recipe);
	scratch_remove(dir);
}

static void recipe_is_under_the_command_line(void **state)
{
	char *dir = scratch_make(), *path = path_join(dir, "r.yaml");
	/* The command line wins, wherever --recipe stands in it. */
	write_text(path, "max_steps: 1e3\nlearning-rate: 2\nloss_type: dr_grpo\nflag: true\noutput_dir: null\n");
	char *line = xasprintf("--max_steps 7 --recipe %s --no-flag word", path);
	assert_int_equal(parse(line), 0);
	assert_int_equal(s.steps, 7);
	assert_true(s.rate == 2);
	assert_string_equal(s.loss, "dr_grpo");
	assert_false(s.flag);
	assert_null(s.path);
	assert_int_equal(npos, 1);
	free(line);
	line = xasprintf("--recipe=%s", path);
	assert_int_equal(parse(line), 0);
	assert_int_equal(s.steps, 1000);

	/* What a recipe may not say; each message names the file, the key and what was found. */
	static const struct {
		const char *yaml, *words;
	} bad[] = {
		{"max_step: 5\n", "max_step: unknown option; did you mean max_steps?"},
		{"max_steps: 1.5\n", "max_steps: expected an integer, found 1.5"},
		{"max_steps: '5'\n", "expected an integer"},
		{"flag: yes\n", "flag: expected true or false, found \"yes\""},
		{"loss_type: x\n", "expected one of"},
		{"output_dir: [a]\n", "expected text, found [\"a\"]"},
		{"output_dir: 5\n", "expected text"},
		{"threads: 5000\n", "threads: expected an integer, 0 to 4096, found 5000"},
		{"threads: 5e3\n", "0 to 4096"},
		{"top_p: 2\n", "1e-6 to 1"},
		{"beta: -0.5\n", "0 or more"},
		{"- a\n", "mapping"},
		{"a: [\n", "line"},
	};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		write_text(path, bad[i].yaml);
		usage(line, bad[i].words);
		assert_non_null(strstr(err.text, path));
	}
	usage("--recipe /nonexistent.yaml", "/nonexistent.yaml");
	free(line);
	free(path);
	scratch_remove(dir);
}

/* A recipe of another command's: its settings alone, its messages under the option's name. */
static void recipe_of_an_option(void **state)
{
	char *dir = scratch_make(), *path = path_join(dir, "r.yaml"), *odd = path_join(dir, "none.yaml");
	write_text(path, "max_steps: 12\nadapter: [q]\n");
	s = (struct settings){.steps = 10, .loss = "grpo"};
	err = (struct err){0};
	assert_int_equal(options_recipe("rl", "base_recipe", defs, ARRAY_LEN(defs), &s, path, &err), 0);
	assert_int_equal(s.steps, 12);
	assert_string_equal(s.adapters.items[0], "q");
	assert_string_equal(s.loss, "grpo");
	assert_int_equal(options_recipe("rl", "base_recipe", defs, ARRAY_LEN(defs), &s, odd, &err), ERR_USAGE);
	char *want = xasprintf("--base_recipe: %s", odd);
	assert_memory_equal(err.text, want, strlen(want));
	/* A bare name is that of a recipe that ships with hone, and is found
	 * wherever the program is. */
	s.steps = 10;
	assert_int_equal(options_recipe("rl", "base_recipe", defs, 0, &s, "paper-frontend", &err), ERR_USAGE);
	assert_non_null(strstr(err.text, "recipes/paper-frontend.yaml: "));
	assert_int_equal(options_recipe("rl", "base_recipe", defs, 0, &s, "no-such-recipe", &err), ERR_USAGE);
	assert_non_null(strstr(err.text, "--base_recipe: no-such-recipe: "));
	free(path);
	free(odd);
	free(want);
	scratch_remove(dir);
}

/* What a command line prints, with stdout in a file meanwhile. */
static struct str help_of(const char *line)
{
	char *dir = scratch_make(), *path = path_join(dir, "out");
	fflush(stdout);
	int saved = dup(1), fd = open(path, O_WRONLY | O_CREAT, 0600);
	dup2(fd, 1);
	int rc = parse(line);
	fflush(stdout);
	dup2(saved, 1);
	close(saved);
	close(fd);
	assert_int_equal(rc, 1);
	struct str out = {0};
	assert_int_equal(file_read(path, 100000, &out, NULL), 0);
	free(path);
	scratch_remove(dir);
	return out;
}

static void help_lists_all_options(void **state)
{
	struct str out = help_of("--max_steps nonsense --help");
	for (size_t i = 0; i < ARRAY_LEN(defs); i++) assert_non_null(strstr(out.data, defs[i].name));
	assert_non_null(strstr(out.data, "step size [1e-06]"));
	assert_non_null(strstr(out.data, "which loss (grpo|dr_grpo|dapo) [grpo]"));
	assert_null(strstr(out.data, "refused on the command line")); /* no row of this table says what is needed */
	str_release(&out);
}

/* Each row of what options need is a line of the help, and nothing else is. */
static void help_says_what_options_need(void **state)
{
	table = needy;
	table_count = ARRAY_LEN(needy);
	struct str out = help_of("--help");
	table = defs;
	table_count = ARRAY_LEN(defs);
	const char *needs = strstr(out.data, "\nrefused on the command line");
	assert_non_null(needs);
	assert_string_equal(needs,
		"\nrefused on the command line where they would do nothing:\n"
		"only with --max_steps above 10 or --flag: top_p, adapter\n"
		"only with --loss_type other than dapo: adapter\n"
		"only with --loss_type d or $HONE_TEST_NEEDS: json\n"
		"not beside --output_dir: threads, json, absent\n"
		"only for `hone rl run` or `hone rl walk`: threads\n"
		"only for `hone rl run` or `hone rl sit`: flag\n"
		"not beside --absent or --threads: top_p\n");
	str_release(&out);
}

static void json_of_settings(void **state)
{
	assert_int_equal(parse("--flag"), 0);
	json_t *o = options_json(defs, ARRAY_LEN(defs), &s), *expected = NULL;
	static const char text[] = "{\"flag\":true,\"json\":false,\"max_steps\":10,\"learning_rate\":1e-6,\"threads\":0,"
							   "\"top_p\":0.0,\"beta\":1e-6,\"loss_type\":\"grpo\",\"output_dir\":null,\"adapter\":[]}";
	assert_int_equal(json_parse(text, strlen(text), "expected", &expected, &err), 0);
	assert_true(json_equal(o, expected));
	json_decref(o);
	json_decref(expected);
}

static void distances(void **state)
{
	assert_int_equal(name_distance("abc", 3, "abc"), 0);
	assert_int_equal(name_distance("a-c", 3, "a_c"), 0);
	assert_int_equal(name_distance("", 0, "abc"), 3);
	assert_int_equal(name_distance("kitten", 6, "sitting"), 3);
	char big[200];
	memset(big, 'a', sizeof(big));
	assert_true(name_distance(big, sizeof(big), "a") > 30);
}

/* What would do nothing is refused by name with what it needs, and nothing else is. */
static void idle_options_are_refused(void **state)
{
	static const struct {
		const char *line, *says; /* NULL: accepted */
	} rows[] = {
		{"--max_steps 11 --top_p 0.5", NULL},
		{"--flag --top_p 0.5", NULL},
		{"--top_p 0.5", "--top_p does nothing without --max_steps above 10 or --flag: add that, or leave --top_p out"},
		{"--flag --top_p 0.5 --threads 1", "--top_p does nothing beside --absent or --threads: leave one of them out"},
		{"--top_p 0", NULL}, /* switched off */
		{"--flag --no-flag --top_p 1", "--top_p does nothing without"},
		{"--flag --adapter a", NULL},
		{"--flag --adapter a --loss_type dapo", "--adapter does nothing without --loss_type other than dapo"},
		{"--json", "--json does nothing without --loss_type d or $HONE_TEST_NEEDS"},
		{"--json --loss_type dapo", NULL},
		{"--json false", NULL},
		{"--json --loss_type dapo --output_dir x", "--json does nothing beside --output_dir: leave one of them out"},
		{"--json --loss_type dapo --output_dir=", NULL},
		{"run --flag --threads 3", NULL},
		{"walk --threads 3", NULL},
		{"sit --threads 3", "--threads is for `hone rl run` or `hone rl walk` and does nothing here: leave it out"},
		{"walk --flag", "--flag is for `hone rl run` or `hone rl sit`"},
		{"--threads 3", NULL}, /* a word that is missing, or that nobody knows, is the command's to name */
		{"stand --threads 3", NULL},
	};
	table = needy;
	table_count = ARRAY_LEN(needy);
	unsetenv("HONE_TEST_NEEDS");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		int rc = parse(rows[i].line);
		if (rc != (rows[i].says ? ERR_USAGE : 0) || (rows[i].says && !strstr(err.text, rows[i].says)))
			fail_msg("%s: %d, %s", rows[i].line, rc, err.text);
	}
	setenv("HONE_TEST_NEEDS", "1", 1);
	assert_int_equal(parse("--json"), 0);
	unsetenv("HONE_TEST_NEEDS");
	/* They are no options themselves. */
	usage("--absent 1", "unknown option");
	json_t *o = options_json(needy, ARRAY_LEN(needy), &s);
	assert_int_equal(json_object_size(o), 8);
	json_decref(o);
	table = defs;
	table_count = ARRAY_LEN(defs);
}

/* A recipe's keys may stand idle, because a command line may switch off what they are about; the
 * command line's own may not. */
static void idle_keys_of_a_recipe_stand(void **state)
{
	char *dir = scratch_make(), *path = path_join(dir, "r.yaml"), *line = xasprintf("--recipe %s", path),
		 *both = xasprintf("--recipe %s --top_p 0.5", path);
	write_text(path, "top_p: 0.25\nadapter: [a]\n");
	table = needy;
	table_count = ARRAY_LEN(needy);
	assert_int_equal(parse(line), 0);
	assert_true(s.share == 0.25 && s.adapters.count == 1);
	usage(both, "--top_p does nothing without");
	table = defs;
	table_count = ARRAY_LEN(defs);
	free(line);
	free(both);
	free(path);
	scratch_remove(dir);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(idle_options_are_refused),
	cmocka_unit_test(idle_keys_of_a_recipe_stand),
	cmocka_unit_test(ways_to_write_values),
	cmocka_unit_test(switches),
	cmocka_unit_test(positional_words_move_to_the_front),
	cmocka_unit_test(wrong_options_say_what_was_expected),
	cmocka_unit_test(wrong_values_say_what_was_expected),
	cmocka_unit_test(ranges_hold),
	cmocka_unit_test(lists_grow),
	cmocka_unit_test(recipe_is_under_the_command_line),
	cmocka_unit_test(recipe_of_an_option),
	cmocka_unit_test(help_lists_all_options),
	cmocka_unit_test(help_says_what_options_need),
	cmocka_unit_test(json_of_settings),
	cmocka_unit_test(distances),
};
TAP_MAIN(tests)
