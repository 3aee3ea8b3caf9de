/* config.json field by field: defaults, both ends of each range, and the ways to write the rotary
 * angles and the ids that end a sequence. */
#include "model/model.h"
#include "base/base.h"
#include <math.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

static char folder[64];
static int folder_make(void **state)
{
	snprintf(folder, sizeof folder, "/tmp/hone-config-XXXXXX");
	return mkdtemp(folder) ? 0 : -1;
}
static int folder_remove(void **state) { return dir_remove(folder, NULL); }

/* Reads a llama's config.json in which the fields of `patch` are others; one that is "absent" is
 * not there. */
static int load(const char *patch, struct model_config *c, struct err *err)
{
	static const char base[] =
		"{\"architectures\": [\"LlamaForCausalLM\"], \"vocab_size\": 50, \"hidden_size\": 24, "
		"\"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"head_dim\": 6, "
		"\"intermediate_size\": 36, \"max_position_embeddings\": 64}";
	json_t *o = json_loads(base, 0, NULL), *p = json_loads(patch, 0, NULL), *v;
	const char *key;
	if (!p) fail_msg("%s", patch);
	json_object_update(o, p);
	json_object_foreach(p, key, v)
	{
		if (json_is_string(v) && !strcmp(json_string_value(v), "absent")) json_object_del(o, key);
	}
	char *path = path_join(folder, "config.json");
	*err = (struct err){0};
	*c = (struct model_config){0};
	json_dump_file(o, path, 0);
	int rc = model_config_load(folder, c, err);
	free(path);
	json_decref(o);
	json_decref(p);
	return rc;
}

/* Each size at both ends of its range and behind them, absent and null. */
static void test_sizes(void **state)
{
	static const struct {
		const char *name;
		size_t at;
		int least;
		int most;
		int otherwise;      /* where it is absent; -1: it may not be */
		int null;           /* where it is null; -1: it may not be */
		const char *beside; /* what the ends need */
	} sizes[] = {
		{"vocab_size", offsetof(struct model_config, vocab_size), 1, 1 << 24, -1, -1, ""},
		{"hidden_size", offsetof(struct model_config, hidden_size), 1, 1 << 17, -1, -1, ""},
		{"num_hidden_layers", offsetof(struct model_config, num_hidden_layers), 1, 1024, -1, -1, ""},
		{"num_attention_heads", offsetof(struct model_config, num_attention_heads), 1, 4096, -1, -1,
			", \"num_key_value_heads\": 1"},
		{"intermediate_size", offsetof(struct model_config, intermediate_size), 1, 1 << 20, -1, -1, ""},
		{"num_key_value_heads", offsetof(struct model_config, num_key_value_heads), 1, 4096, 4, 4,
			", \"num_attention_heads\": 4096"},
		{"head_dim", offsetof(struct model_config, head_dim), 2, 4096, 6, 6, ""},
		{"max_position_embeddings", offsetof(struct model_config, max_position_embeddings), 1, 1 << 24, 2048, 2048, ""},
	};
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		const int ends[] = {sizes[i].least - 1, sizes[i].least, sizes[i].most, sizes[i].most + 1};
		struct model_config c;
		struct err err;
		for (int k = 0; k < 4; k++) {
			char *patch = xasprintf("{\"%s\": %d%s}", sizes[i].name, ends[k], sizes[i].beside);
			bool is_inside = k == 1 || k == 2;
			int rc = load(patch, &c, &err);
			if (is_inside ? rc != 0 : !rc || !strstr(err.text, sizes[i].name))
				fail_msg("%s: %d %s", patch, rc, err.text);
			if (is_inside) assert_int_equal(*(int *)((char *)&c + sizes[i].at), ends[k]);
			free(patch);
		}
		/* Absent, and null, which is another thing to some fields. */
		for (int k = 0; k < 2; k++) {
			char *patch = xasprintf("{\"%s\": %s}", sizes[i].name, k ? "null" : "\"absent\"");
			int rc = load(patch, &c, &err), want = k ? sizes[i].null : sizes[i].otherwise;
			if (want < 0 ? !rc || !strstr(err.text, sizes[i].name) : rc || *(int *)((char *)&c + sizes[i].at) != want)
				fail_msg("%s: %d %s", patch, rc, err.text);
			free(patch);
		}
	}
}

/* What stands in place of "off", and what does not; numbers with a bound on one side or both. */
static void test_switches_and_numbers(void **state)
{
	static const struct {
		const char *patch;
		const char *said; /* NULL: it is read */
	} cases[] = {
		{"{\"attention_bias\": null}", NULL},
		{"{\"attention_bias\": false}", NULL},
		{"{\"attention_bias\": 0}", NULL},
		{"{\"attention_bias\": 0.0}", NULL},
		{"{\"attention_bias\": \"\"}", NULL},
		{"{\"attention_bias\": []}", NULL},
		{"{\"attention_bias\": {}}", NULL},
		{"{\"attention_bias\": true}", "\"attention_bias\" is set"},
		{"{\"attention_bias\": 1}", "is set"},
		{"{\"attention_bias\": 0.5}", "is set"},
		{"{\"attention_bias\": \"x\"}", "is set"},
		{"{\"attention_bias\": [0]}", "is set"},
		{"{\"attention_bias\": {\"a\": 0}}", "is set"},
		{"{\"hidden_act\": \"silu\"}", NULL},
		{"{\"layer_types\": [\"full_attention\"]}", NULL},
		{"{\"layer_types\": [1]}", "layer_types[0]"},
		/* Rotary factors of a part of a head. */
		{"{\"partial_rotary_factor\": 1}", NULL},
		{"{\"partial_rotary_factor\": 0}", NULL},
		{"{\"partial_rotary_factor\": 2}", "partial_rotary_factor"},
		{"{\"rope_scaling\": {\"partial_rotary_factor\": 1}}", NULL},
		{"{\"rope_scaling\": {\"partial_rotary_factor\": 0}}", NULL},
		{"{\"rope_scaling\": {\"partial_rotary_factor\": 2}}", "partial_rotary_factor"},
		{"{\"rope_scaling\": {\"other\": 0}}", NULL},
		{"{\"rope_scaling\": {\"other\": 1}}", "\"other\" among the rope"},
		{"{\"rope_scaling\": \"x\"}", "must be an object"},
		{"{\"rope_scaling\": {\"type\": \"default\"}}", NULL},
		{"{\"rope_scaling\": {\"rope_type\": \"linear\"}}", "rope type \"linear\""},
		/* Numbers. */
		{"{\"rms_norm_eps\": 0}", "rms_norm_eps 0 must"},
		{"{\"rms_norm_eps\": 1}", "rms_norm_eps 1 must"},
		{"{\"rms_norm_eps\": 0.999}", NULL},
		{"{\"rms_norm_eps\": 1e-30}", NULL},
		{"{\"rope_theta\": 1}", NULL},
		{"{\"rope_theta\": 0.99}", "rope_theta 0.99 must"},
		{"{\"rope_theta\": 1e12}", "rope_theta 1e+12"},
		{"{\"rope_theta\": 9e11}", NULL},
		{"{\"num_key_value_heads\": 3}", "num_attention_heads 4 is no multiple"},
		{"{\"head_dim\": 5}", "head_dim 5 must be even"},
		{"{\"head_dim\": 3}", "head_dim 3"},
	};
	int bad = 0;
	/* All rows are told. */
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct model_config c;
		struct err err;
		int rc = load(cases[i].patch, &c, &err);
		bool ok = cases[i].said ? rc < 0 && strstr(err.text, cases[i].said) : rc == 0;
		if (!ok) print_message("# %s: %d %s\n", cases[i].patch, rc, err.text);
		bad += !ok;
	}
	assert_int_equal(bad, 0);
}

#define LLAMA3(factor, low, high, more) "{\"rope_type\": \"llama3\", \"factor\": " factor \
	", \"low_freq_factor\": " low ", \"high_freq_factor\": " high more "}"
#define POSITIONS(n) ", \"original_max_position_embeddings\": " n

/* Angles stretched as Llama 3's: under either name, with theta and positions in either place. */
static void test_rope(void **state)
{
	static const struct {
		const char *patch;
		const char *said;
		double theta;
		double factor;
		double low;
		double high;
		int positions;
	} cases[] = {
		{"{}", NULL, 10000, 0, 0, 0, 0},
		{"{\"rope_theta\": 750}", NULL, 750, 0, 0, 0, 0},
		{"{\"rope_parameters\": {\"rope_theta\": 44}}", NULL, 44, 0, 0, 0, 0},
		{"{\"rope_theta\": 44, \"rope_parameters\": {\"rope_theta\": 44}}", NULL, 44, 0, 0, 0, 0},
		{"{\"rope_theta\": null, \"rope_parameters\": {\"rope_theta\": 44}}", NULL, 44, 0, 0, 0, 0},
		{"{\"rope_theta\": 45, \"rope_parameters\": {\"rope_theta\": 44}}", "rope_theta is 45 and 44", 0, 0, 0, 0, 0},
		{"{\"rope_scaling\": " LLAMA3("8", "1", "4", POSITIONS("32")) "}", NULL, 10000, 8, 1, 4, 32},
		{"{\"rope_parameters\": " LLAMA3("8", "0.5", "0.75", ", \"rope_theta\": 5") "}", NULL, 5, 8, 0.5, 0.75, 64},
		{"{\"original_max_position_embeddings\": 16, \"rope_scaling\": " LLAMA3("8", "1", "4", POSITIONS("32")) "}",
			NULL, 10000, 8, 1, 4, 16},
		{"{\"rope_scaling\": " LLAMA3("8", "1", "4", POSITIONS("0")) "}", "original_max", 0, 0, 0, 0, 0},
		/* Bounds of the constants. */
		{"{\"rope_scaling\": " LLAMA3("1", "1", "4", "") "}", NULL, 10000, 1, 1, 4, 64},
		{"{\"rope_scaling\": " LLAMA3("0.99", "1", "4", "") "}", "factor >= 1", 0, 0, 0, 0, 0},
		{"{\"rope_scaling\": " LLAMA3("999999", "1", "4", "") "}", NULL, 10000, 999999, 1, 4, 64},
		{"{\"rope_scaling\": " LLAMA3("1e6", "1", "4", "") "}", "factor >= 1", 0, 0, 0, 0, 0},
		{"{\"rope_scaling\": " LLAMA3("8", "0", "4", "") "}", "0 < low_freq_factor", 0, 0, 0, 0, 0},
		{"{\"rope_scaling\": " LLAMA3("8", "4", "4", "") "}", "low_freq_factor < high", 0, 0, 0, 0, 0},
		/* Both names: each constant has to agree. */
		{"{\"rope_scaling\": " LLAMA3("8", "1", "4", "") ", \"rope_parameters\": " LLAMA3("8", "1", "4", "") "}", NULL,
			10000, 8, 1, 4, 64},
		{"{\"rope_scaling\": " LLAMA3("8", "1", "4", "") ", \"rope_parameters\": " LLAMA3("9", "1", "4", "") "}",
			"contradict", 0, 0, 0, 0, 0},
		{"{\"rope_scaling\": " LLAMA3("8", "1", "4", "") ", \"rope_parameters\": " LLAMA3("8", "2", "4", "") "}",
			"contradict", 0, 0, 0, 0, 0},
		{"{\"rope_scaling\": " LLAMA3("8", "1", "4", "") ", \"rope_parameters\": " LLAMA3("8", "1", "5", "") "}",
			"contradict", 0, 0, 0, 0, 0},
		{"{\"rope_scaling\": " LLAMA3("8", "1", "4", "") ", \"rope_parameters\": " LLAMA3(
			 "8", "1", "4", POSITIONS("32")) "}",
			"contradict", 0, 0, 0, 0, 0},
		{"{\"rope_scaling\": " LLAMA3("8", "1", "4", "") ", \"rope_parameters\": {\"rope_type\": \"default\"}}",
			"contradict", 0, 0, 0, 0, 0},
	};
	int bad = 0;
	/* All rows are told. */
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct model_config c;
		struct err err;
		int rc = load(cases[i].patch, &c, &err);
		bool ok = cases[i].said ? rc < 0 && strstr(err.text, cases[i].said)
								: rc == 0 && c.rope_theta == cases[i].theta && c.rope_factor == cases[i].factor &&
				c.rope_low_freq_factor == cases[i].low && c.rope_high_freq_factor == cases[i].high &&
				c.rope_original_positions == cases[i].positions;
		if (!ok) print_message("# %s: %d %s\n", cases[i].patch, rc, err.text);
		bad += !ok;
	}
	assert_int_equal(bad, 0);
}

/* Ids that end a sequence: one or a list, each once, at most eight; and the two others. */
static void test_tokens(void **state)
{
	struct model_config c;
	struct err err;
	/* None, one each, null, and a list in which some stand twice. */
	assert_int_equal(load("{}", &c, &err), 0);
	assert_true(c.bos_token_id == -1 && c.eos_token_id == -1 && c.pad_token_id == -1 && c.neos_extra == 0);
	assert_int_equal(load("{\"eos_token_id\": 0, \"bos_token_id\": 49, \"pad_token_id\": 0}", &c, &err), 0);
	assert_true(c.bos_token_id == 49 && c.eos_token_id == 0 && c.pad_token_id == 0 && c.neos_extra == 0);
	assert_true(model_config_is_eos(&c, 0) && !model_config_is_eos(&c, 1));
	assert_int_equal(load("{\"eos_token_id\": null, \"bos_token_id\": null, \"pad_token_id\": -1}", &c, &err), 0);
	assert_true(c.bos_token_id == -1 && c.eos_token_id == -1 && c.pad_token_id == -1);
	assert_int_equal(load("{\"eos_token_id\": [7, 3, 7, 49, 3, 1, 2, 4, 5, 6, 6]}", &c, &err), 0);
	static const int rest[] = {3, 49, 1, 2, 4, 5, 6};
	assert_true(c.eos_token_id == 7 && c.neos_extra == 7);
	assert_memory_equal(c.eos_extra, rest, sizeof rest);
	assert_true(model_config_is_eos(&c, 6) && model_config_is_eos(&c, 7) && !model_config_is_eos(&c, 8));
	static const struct {
		const char *patch;
		const char *said;
	} bad[] = {{"{\"eos_token_id\": [0, 1, 2, 3, 4, 5, 6, 7, 8]}", "more than 8 eos ids"},
		{"{\"eos_token_id\": 50}", "ids from 0 to 49"}, {"{\"eos_token_id\": -1}", "ids from 0 to 49"},
		{"{\"eos_token_id\": [3, 50]}", "ids from 0 to 49"}, {"{\"eos_token_id\": \"a\"}", "ids from 0 to 49"},
		{"{\"bos_token_id\": 50}", "bos_token_id"}, {"{\"bos_token_id\": -2}", "bos_token_id"},
		{"{\"pad_token_id\": 50}", "pad_token_id"}};
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		assert_true(load(bad[i].patch, &c, &err) < 0);
		if (!strstr(err.text, bad[i].said)) fail_msg("%s: %s", bad[i].patch, err.text);
	}
}

/* A folder that is none is told apart from one whose file is broken. */
static void test_folder(void **state)
{
	struct model_config c;
	struct err err = {0};
	assert_int_equal(model_config_load("/nonexistent", &c, &err), ERR_NOT_FOUND);
	assert_string_equal(err.text,
		"/nonexistent/config.json: no such file; expected a Hugging Face model folder, as `hone init` and `hone "
		"import` make one too");
	assert_int_equal(model_config_load("/dev/null", &c, &err), ERR_IO);
	assert_null(strstr(err.text, "Hugging Face"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_sizes), cmocka_unit_test(test_switches_and_numbers),
		cmocka_unit_test(test_rope), cmocka_unit_test(test_tokens), cmocka_unit_test(test_folder)};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
