/* libFuzzer entry of recipes: any bytes as a YAML file; what is accepted is JSON, and the same file
 * given as --recipe sets options or is refused by name. */
#include "fuzz.h"

struct settings {
	bool flag;
	int64_t count;
	double rate;
	const char *kind;
};
#define O(type, field, choices) { #field, type, offsetof(struct settings, field), "help", choices }
static const struct option_def defs[] = {
	O(OPTION_BOOL, flag, NULL), O(OPTION_INT, count, NULL), O(OPTION_FLOAT, rate, NULL),
	O(OPTION_STR, kind, "one|two"), /* choices: free strings are kept until the process ends, and this one does not */
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct err err = {0};
	struct settings s = {.kind = "one"};
	char path[64], *argv[] = {"fuzz", "--recipe", path, NULL};
	json_t *recipe = NULL;
	int fd = input_file(data, len, path), npos, rc = yaml_load(path, &recipe, &err);
	if (rc) refusal_check(rc, &err);
	else {
		char *text = json_dumps(recipe, 0);
		CHECK(json_is_object(recipe) && text);
		free(text);
	}
	json_decref(recipe);
	int options_rc = options_parse("fuzz", "fuzz", defs, ARRAY_LEN(defs), &s, 3, argv, &npos, &err);
	CHECK(options_rc == 0 || options_rc == ERR_USAGE);
	if (options_rc) refusal_check(options_rc, &err);
	CHECK(!rc || options_rc);
	close(fd);
	return 0;
}
