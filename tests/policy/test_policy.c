/* A policy opened whole from a folder made here: what its parts are, what is refused and by which
 * words, and that a failed opening leaves nothing (this program runs under a leak checker too). */
#include "policy/policy.h"
#include "text/chat_internal.h"
#include <setjmp.h>
#include <stdlib.h>

#include <cmocka.h>
#include "../leaks.h"

static const struct model_config config = {
	.vocab_size = 300,
	.hidden_size = 16,
	.num_hidden_layers = 1,
	.num_attention_heads = 2,
	.num_key_value_heads = 1,
	.head_dim = 8,
	.intermediate_size = 16,
	.max_position_embeddings = 64,
	.rms_norm_eps = 1e-6,
	.rope_theta = 10000,
	.tie_word_embeddings = true,
	.qk_norm = true,
	.bos_token_id = -1,
	.eos_token_id = 258,
	.pad_token_id = -1,
};
static char *root, *model, *first, *second;

static char *in(const char *dir, const char *name) { return path_join(dir, name); }

/* All of model_device.c again, so that the linker takes these instead: what the backend is
 * told of adapters to come. */
static const char *told[8];
static int ntold, rank_told;
static int open_fails; /* with this error, 0: it does not */
int device_open(const struct device_options *o, struct ops **out, struct err *err)
{
	ntold = o->nadapters;
	rank_told = o->new_rank;
	for (int i = 0; i < ntold; i++) told[i] = o->adapters[i];
	if (open_fails) return err_set(err, open_fails, "the device's words");
	return ops_open(o->device, &(struct ops_options){.threads = o->threads}, out, err);
}

static bool has_no_card;
static size_t most_room; /* that the options allow; 0: all there is */
int device_describe(const struct device_options *o, struct ops *out, size_t *cap, struct err *err)
{
	*cap = most_room;
	if (has_no_card) return err_set(err, ERR_USAGE, "no card of that name");
	return ops_describe(o->device, &(struct ops_options){.threads = o->threads}, out, err);
}

size_t device_room(struct ops *ops)
{
	size_t left, total;
	ops->memory(ops->ctx, &left, &total);
	return total;
}

/* A PEFT folder of the given rank beside the model, without B = 0, so that two of them differ. */
static char *adapter_make(struct policy *p, const char *name, int r, uint64_t seed)
{
	struct err err = {0};
	struct adapter *a;
	char *dir = in(root, name);
	struct adapter_options o = {.r = r, .lora_alpha = 8, .seed = seed};
	if (adapter_create(p->model, &o, &a, &err) || adapter_save(a, dir, model, &err)) fail_msg("%s", err.text);
	adapter_free(a);
	return dir;
}

static int setup(void **state)
{
	static const char *const special[] = {"<|im_start|>", "<|im_end|>", "<|endoftext|>"};
	const char *build = getenv("BUILD");
	struct slice training = {"def kernel(x): return x", 23};
	struct bpe_train_options o = {.vocab_size = 259, .special_tokens = special, .nspecial = 3};
	struct err err = {0};
	struct model *m;
	struct ops *ops;
	root = path_join(build ? build : "build/release", "ref/policy");
	model = in(root, "model");
	char *tokenizer = in(model, "tokenizer.json");
	if ((path_exists(root) && dir_remove(root, &err)) ||
		ops_cpu_create(&(struct ops_options){.threads = 1}, &ops, &err) || model_create(&config, 3, ops, &m, &err) ||
		dir_make(root, &err) || model_save(m, model, &err) || tokenizer_train(&training, 1, &o, tokenizer, &err))
		fail_msg("%s", err.text);
	struct policy p = {.model = m};
	first = adapter_make(&p, "first", 2, 1);
	second = adapter_make(&p, "second", 4, 2);
	free(tokenizer);
	model_free(m);
	ops_free(ops);
	return 0;
}

static int teardown(void **state)
{
	free(root);
	free(model);
	free(first);
	free(second);
	return 0;
}

static struct policy open(struct policy_options o)
{
	struct policy p;
	struct err err = {0};
	o.model = o.model ? o.model : model;
	o.device = "cpu";
	o.threads = 1;
	if (policy_open(&o, &p, &err)) fail_msg("%s", err.text);
	return p;
}

static void refused(struct policy_options o, const char *words)
{
	struct policy p = {.stop_id = 77};
	struct err err = {0};
	o.model = o.model ? o.model : model;
	o.device = o.device ? o.device : "cpu";
	o.threads = 1;
	assert_int_not_equal(policy_open(&o, &p, &err), 0);
	if (!strstr(err.text, words)) fail_msg("\"%s\" does not say \"%s\"", err.text, words);
	assert_true(p.stop_id == 77 && !p.model);
}

/* The rank is the number of rows of an A matrix. */
static int rank_of(struct adapter *a)
{
	int n;
	return (int)adapter_params(a, &n)[0].shape[0];
}

static void test_parts(void **state)
{
	struct policy p = open((struct policy_options){0});
	assert_true(p.ops && p.model && p.tokenizer && !p.adapter && !p.nadapters && !p.chat);
	assert_int_equal(p.stop_id, -1);
	assert_int_equal(p.config.hidden_size, config.hidden_size);
	policy_close(&p);
	policy_close(&p); /* a closed policy is one of zeros */
	p = open((struct policy_options){.chat_template = "chatml"});
	assert_int_equal(p.stop_id, tokenizer_id(p.tokenizer, "<|im_end|>"));
	assert_string_equal(p.chat->name, "chatml");
	policy_close(&p);
}

static void test_adapters(void **state)
{
	struct policy_options several = {.adapters = {.items = {second, first, second}, .count = 3}};
	struct policy p = open(several);
	assert_int_equal(p.nadapters, 3);
	assert_true(
		ntold == 4 && !told[0] && !strcmp(told[1], second) && !strcmp(told[2], first) && !strcmp(told[3], second));
	assert_int_equal(rank_told, 0);
	assert_null(p.adapter);
	assert_true(rank_of(p.adapters[0]) == 4 && rank_of(p.adapters[1]) == 2 && rank_of(p.adapters[2]) == 4);
	policy_close(&p);
	/* A named adapter goes on as it was: the settings of a fresh one do not touch it. */
	p = open((struct policy_options){.adapter = first, .use_peft = true, .lora_r = 8, .lora_alpha = 1});
	assert_int_equal(rank_of(p.adapter), 2);
	assert_true(ntold == 1 && !strcmp(told[0], first) && rank_told == 8);
	policy_close(&p);
	for (int r = 1; r <= 8; r += 7) {
		p = open((struct policy_options){.use_peft = true, .lora_r = r, .lora_alpha = 1, .lora_seed = 5});
		assert_int_equal(rank_of(p.adapter), r);
		policy_close(&p);
	}
	refused((struct policy_options){.use_peft = true, .lora_r = 0, .lora_alpha = 1}, "adapter rank 0; expected 1 to ");
}

static void test_text_only(void **state)
{
	struct err err = {0};
	char *bare = in(root, "bare"), *from = in(model, "config.json"), *to = in(bare, "config.json");
	struct str text = {0};
	if (dir_make(bare, &err) || file_read(from, 1 << 20, &text, &err) ||
		file_write_atomic(to, text.data, text.len, &err) || model_copy_tokenizer(model, bare, &err))
		fail_msg("%s", err.text);
	/* A folder without weights and a device that is not there: neither is asked. */
	struct policy_options o = {
		.model = bare, .device = "cuda", .chat_template = "chatml", .use_peft = true, .lora_r = 2};
	struct policy p;
	o.text_only = true;
	if (policy_open(&o, &p, &err)) fail_msg("%s", err.text);
	assert_true(!p.ops && !p.model && !p.adapter && p.tokenizer && p.stop_id >= 0);
	assert_int_equal(p.config.vocab_size, config.vocab_size);
	policy_close(&p);
	refused((struct policy_options){.model = bare}, "bare");
	str_release(&text);
	free(bare);
	free(from);
	free(to);
}

static void test_refusals(void **state)
{
	refused((struct policy_options){.model = "no/such/folder"}, "no/such/folder");
	refused((struct policy_options){.adapter = model}, "adapter_config.json");
	refused((struct policy_options){.adapters = {.items = {first, model}, .count = 2}}, "adapter_config.json");
	refused((struct policy_options){.device = "tpu"}, "tpu");
	refused((struct policy_options){.chat_template = "llama3"}, model);
	refused((struct policy_options){.chat_template = "chatml", .chat_date = "26 Jul 2024"}, "has no date");
}

static void test_encode(void **state)
{
	struct policy p = open((struct policy_options){0});
	struct err err = {0};
	struct ids ids = {0};
	assert_int_equal(policy_encode(&p, "t", "x<|im_end|>", 11, &ids, &err), 0);
	assert_int_equal(ids.count, 2);
	assert_int_equal(ids.data[1], tokenizer_id(p.tokenizer, "<|im_end|>"));
	assert_int_equal(policy_encode(&p, "t", NULL, 0, &ids, &err), 0);
	assert_string_equal(err.text, "");
	assert_int_equal(ids.count, 2);
	assert_int_equal(policy_encode(&p, "file.txt", "\xff", 1, &ids, &err), ERR_FORMAT);
	assert_non_null(strstr(err.text, "file.txt: "));
	/* A model with fewer rows than the tokenizer has tokens, of which the first ones do. */
	p.config.vocab_size = ids.data[1];
	assert_int_equal(policy_encode(&p, "t", "x", 1, &ids, &err), 0);
	assert_int_equal(policy_encode(&p, "t", "<|im_end|>", 10, &ids, &err), ERR_MISMATCH);
	ids_release(&ids);
	policy_close(&p);
}

/* What is saved opens again with the same values. */
static void test_save(void **state)
{
	struct err err = {0};
	char *dir = in(root, "saved"), *tokenizer = in(dir, "tokenizer.json");
	struct policy p = open((struct policy_options){.use_peft = true, .lora_r = 2, .lora_alpha = 4, .lora_seed = 9}), q;
	if (policy_save(&p, model, dir, &err)) fail_msg("%s", err.text);
	assert_true(path_exists(tokenizer));
	q = open((struct policy_options){.adapter = dir});
	assert_string_equal(weights_fingerprint(p.model, p.adapter).text, weights_fingerprint(q.model, q.adapter).text);
	/* Other weights below the same adapter are others, and so is the adapter itself. */
	assert_string_not_equal(weights_fingerprint(p.model, p.adapter).text, weights_fingerprint(p.model, NULL).text);
	struct model *other;
	if (model_create(&config, 4, p.ops, &other, &err)) fail_msg("%s", err.text);
	assert_string_not_equal(weights_fingerprint(p.model, NULL).text, weights_fingerprint(other, NULL).text);
	assert_string_not_equal(weights_fingerprint(p.model, p.adapter).text, weights_fingerprint(other, p.adapter).text);
	model_free(other);
	policy_close(&q);
	q = open((struct policy_options){.use_peft = true, .lora_r = 2, .lora_alpha = 4, .lora_seed = 10});
	assert_string_not_equal(weights_fingerprint(p.model, p.adapter).text, weights_fingerprint(q.model, q.adapter).text);
	policy_close(&q);
	policy_close(&p);
	/* Without an adapter it is the model that is saved, which then is a folder to open. */
	p = open((struct policy_options){0});
	assert_int_equal(dir_remove(dir, &err), 0);
	if (policy_save(&p, model, dir, &err)) fail_msg("%s", err.text);
	q = open((struct policy_options){.model = dir});
	assert_string_equal(weights_fingerprint(p.model, NULL).text, weights_fingerprint(q.model, NULL).text);
	policy_close(&q);
	policy_close(&p);
	free(dir);
	free(tokenizer);
}

static void open_and_close(void *adapter)
{
	struct policy_options o = {.chat_template = "chatml", .adapters = {.items = {first, second}, .count = 2}};
	if (adapter) o.adapter = adapter;
	else o.use_peft = true, o.lora_r = 2, o.lora_alpha = 4;
	struct policy p = open(o);
	policy_close(&p);
}

/* The sizes of a backend, for a plan: with its memory where there is one, without an
 * error where there is not. */
static void test_describe(void **state)
{
	const struct policy_options o = {.device = "cpu"};
	struct ops sizes;
	size_t room = 0;
	struct err err = {0};
	assert_int_equal(policy_describe(&o, &sizes, &room, &err), 0);
	assert_true(room > 0);
	has_no_card = true;
	assert_int_equal(policy_describe(&o, &sizes, &room, &err), ERR_USAGE);
	assert_string_equal(err.text, "no card of that name");
	has_no_card = false;
	/* A device that is not here is no error; one that is here and does not open is, in its words
	 * and with what does without it. */
	const int absent[] = {ERR_NOT_FOUND, ERR_RANGE}, here[] = {ERR_LIMIT, ERR_INFRA, ERR_UNSUPPORTED, ERR_MISMATCH};
	for (size_t i = 0; i < ARRAY_LEN(absent); i++) {
		open_fails = absent[i], room = 1;
		assert_int_equal(policy_describe(&o, &sizes, &room, &err), 0);
		assert_true(room == 0);
	}
	for (size_t i = 0; i < ARRAY_LEN(here); i++) {
		open_fails = here[i];
		assert_int_equal(policy_describe(&o, &sizes, &room, &err), here[i]);
		assert_string_equal(err.text, "the device's words; with --memory the plan is made without the device");
		most_room = 1 << 20; /* --memory: it is not asked */
		assert_int_equal(policy_describe(&o, &sizes, &room, &err), 0);
		assert_true(room == 1 << 20);
		most_room = 0;
	}
	open_fails = 0;
}

/* What opening would refuse, by the config and the options alone. */
static void test_check(void **state)
{
	struct ops cpu, cuda;
	struct err err = {0};
	struct model_config odd = config;
	struct policy_options o = {.model = "M", .use_peft = true, .lora_r = 2};
	assert_int_equal(ops_describe("cpu", &(struct ops_options){0}, &cpu, &err), 0);
	assert_int_equal(ops_describe("cuda", &(struct ops_options){0}, &cuda, &err), 0);
	assert_int_equal(policy_check(&o, &config, &cuda, &err), 0);
	odd.head_dim = 12;
	assert_int_equal(policy_check(&o, &odd, &cpu, &err), 0);
	assert_int_equal(policy_check(&o, &odd, &cuda, &err), ERR_UNSUPPORTED);
	assert_string_equal(err.text,
		"M: heads of 12 elements; device cuda takes multiples of 8 up to 256; take another model, or --device cpu");
	/* Projections of a fresh adapter, and the folder of one that is there, which has its own. */
	o.lora_target_modules = "q_proj,z_proj";
	assert_int_equal(policy_check(&o, &config, &cuda, &err), ERR_USAGE);
	assert_non_null(strstr(err.text, "\"z_proj\" is unknown"));
	o.use_peft = false;
	assert_int_equal(policy_check(&o, &config, &cuda, &err), 0);
	o.use_peft = true;
	o.adapter = first;
	assert_int_equal(policy_check(&o, &config, &cuda, &err), 0);
	o.adapter = model;
	assert_int_equal(policy_check(&o, &config, &cuda, &err), ERR_NOT_FOUND);
	assert_non_null(strstr(err.text, "adapter_config.json: no such file; expected a PEFT adapter folder"));
}

/* Plans count on what the device has, or on what the options allow where that is less. */
static void test_room(void **state)
{
	struct ops sizes, *ops = NULL;
	struct err err = {0};
	size_t room = 0;
	assert_int_equal(ops_open("cpu", &(struct ops_options){.threads = 1}, &ops, &err), 0);
	size_t whole = device_room(ops);
	ops_free(ops);
	const size_t allowed[] = {0, 12345, SIZE_MAX}, expected[] = {whole, 12345, whole};
	for (size_t i = 0; i < ARRAY_LEN(allowed); i++) {
		most_room = allowed[i];
		struct policy p = open((struct policy_options){.model = model});
		assert_true(p.room == expected[i]);
		policy_close(&p);
		/* A plan alone takes the options' word for it. */
		assert_int_equal(policy_describe(&(struct policy_options){.device = "cpu"}, &sizes, &room, &err), 0);
		assert_true(room == (allowed[i] ? allowed[i] : whole));
	}
	most_room = 0;
}

static void describe(void *ctx)
{
	struct ops sizes;
	size_t room;
	assert_int_equal(policy_describe(&(struct policy_options){.device = "cpu"}, &sizes, &room, NULL), 0);
}

static void open_in_vain(void *ctx)
{
	refused((struct policy_options){.adapter = first, .chat_template = "llama3"}, model);
}

static void test_leaves_nothing(void **state)
{
	leaves_nothing(open_and_close, NULL);
	leaves_nothing(open_and_close, first);
	leaves_nothing(open_in_vain, NULL);
	leaves_nothing(describe, NULL);
}

struct settings {
	int before;
	struct policy_options policy;
};

/* The rows of options write where policy_open reads. */
static void test_options(void **state)
{
	static const struct option_def defs[] = {POLICY_MODEL_OPTION(settings), POLICY_ADAPTER_OPTION(settings, "adapter"),
		POLICY_DEVICE_OPTIONS(settings), POLICY_INVARIANT_OPTION(settings), POLICY_CHAT_OPTIONS(settings),
		POLICY_LORA_OPTIONS(settings)};
	char *argv[] = {"t", "--model", "m", "--device", "cuda:1", "--cuda_libs", "l", "--threads", "3",
		"--batch_invariant", "--chat_template", "plain", "--chat_date", "d", "--use_peft", "--lora_r", "7",
		"--lora_alpha", "0.5", "--lora_dropout", "0.25", "--lora_target_modules", "q_proj"};
	struct settings s = {.before = 1};
	struct err err = {0};
	int npos;
	char *named[] = {"t", "--adapter", "a"};
	/* An adapter that is there has its own rank, so it is named on a line of its own. */
	if (options_parse("t", "t", defs, ARRAY_LEN(defs), &s, ARRAY_LEN(argv), argv, &npos, &err) ||
		options_parse("t", "t", defs, ARRAY_LEN(defs), &s, ARRAY_LEN(named), named, &npos, &err))
		fail_msg("%s", err.text);
	const struct policy_options *o = &s.policy;
	assert_string_equal(o->model, "m");
	assert_string_equal(o->adapter, "a");
	assert_string_equal(o->device, "cuda:1");
	assert_string_equal(o->cuda_libs, "l");
	assert_string_equal(o->chat_template, "plain");
	assert_string_equal(o->chat_date, "d");
	assert_string_equal(o->lora_target_modules, "q_proj");
	assert_true(o->threads == 3 && o->batch_invariant && o->use_peft && o->lora_r == 7 && s.before == 1);
	assert_true(o->lora_alpha == 0.5 && o->lora_dropout == 0.25);
}

int main(void)
{
	cmocka_set_message_output(CM_OUTPUT_TAP);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parts),
		cmocka_unit_test(test_adapters),
		cmocka_unit_test(test_text_only),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_encode),
		cmocka_unit_test(test_save),
		cmocka_unit_test(test_options),
		cmocka_unit_test(test_room),
		cmocka_unit_test(test_describe),
		cmocka_unit_test(test_check),
		cmocka_unit_test(test_leaves_nothing),
	};
	return cmocka_run_group_tests(tests, setup, teardown);
}
