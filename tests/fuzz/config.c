/* libFuzzer entry of a model folder's configs. The first byte says which file the rest is, the
 * others are good: 0 config.json, 1 generation_config.json, 2 adapter_config.json. What is accepted
 * as a model is written out and read back equal. */
#include "fuzz.h"
#include "model/model.h"

#include <sys/stat.h>

static const char *const names[] = {"config.json", "generation_config.json", "adapter_config.json"};
static const char good_config[] =
	"{\"architectures\": [\"LlamaForCausalLM\"], \"vocab_size\": 5, \"hidden_size\": 4, \"num_hidden_layers\": 1,"
	" \"num_attention_heads\": 2, \"intermediate_size\": 4}";

/* folder/NAME is a link to the descriptor number of NAME, which every input replaces. */
enum { DESCRIPTOR = 500 };
static char folder[] = "/tmp/fuzz_config_XXXXXX", written[sizeof folder + 2];
static struct ops *ops;
static struct model *model;

static void folder_remove(void)
{
	struct err err;
	model_free(model);
	ops_free(ops);
	dir_remove(folder, &err);
}

static void folder_make(void)
{
	struct err err = {0};
	struct model_config c;
	CHECK(mkdtemp(folder));
	snprintf(written, sizeof written, "%s/w", folder);
	CHECK(!mkdir(written, 0700));
	for (int i = 0; i < (int)ARRAY_LEN(names); i++) {
		char *path = path_join(folder, names[i]), target[64];
		int fd = input_file(good_config, sizeof good_config - 1, target);
		CHECK(dup2(fd, DESCRIPTOR + i) == DESCRIPTOR + i && !close(fd));
		snprintf(target, sizeof target, "/proc/self/fd/%d", DESCRIPTOR + i);
		CHECK(!symlink(target, path));
		free(path);
	}
	CHECKF(!model_config_load(folder, &c, &err), "%s", err.text);
	CHECKF(!ops_cpu_create(&(struct ops_options){.threads = 1}, &ops, &err) && !model_create(&c, 1, ops, &model, &err),
		"%s", err.text);
	atexit(folder_remove);
}

static void put(int which, const void *data, size_t len)
{
	char path[64];
	int fd = input_file(data, len, path);
	CHECK(dup2(fd, DESCRIPTOR + which) == DESCRIPTOR + which && !close(fd));
}

static void fuzz_model(void)
{
	struct err err = {0};
	struct model_config c, again;
	int rc = model_config_load(folder, &c, &err);
	if (rc) {
		refusal_check(rc, &err);
		return;
	}
	CHECK(model_config_params(&c) > 0);
	CHECKF(!model_config_save_as(written, &c, DTYPE_F32, &err) && !model_config_load(written, &again, &err), "%s",
		err.text);
	CHECK(!memcmp(&c, &again, sizeof c));
}

/* Without weights no adapter opens; the config is read first. */
static void fuzz_adapter(void)
{
	struct err err = {0};
	struct adapter *a;
	refusal_check(adapter_open(model, folder, &a, &err), &err);
	CHECK(!a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	if (!model) folder_make();
	if (!len) return 0;
	int which = data[0] % (int)ARRAY_LEN(names);
	put(0, good_config, sizeof good_config - 1);
	put(1, "{}", 2);
	put(which, data + 1, len - 1);
	if (which == 2) fuzz_adapter();
	else fuzz_model();
	return 0;
}
