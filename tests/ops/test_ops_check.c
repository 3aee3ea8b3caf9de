/* The device "check" refuses what a GPU would not forgive: each rule of src/ops/ops_check.c is
 * broken once, in a process of its own, which must end by naming it; what
 * keeps the rules passes. */
#include "ops/ops.h"
#include "base/base.h"
#include "ops/ops_check_record.h"
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#define VALUES 4 /* of the one array that a rule has */
struct at_hand {
	struct ops *o;
	struct f32 *p; /* (VALUES) */
	float host[2 * VALUES];
};
typedef void rule_fn(struct at_hand *h);

/* ---- memory: what is named lies in what was allocated ---- */

static struct f32 *behind(struct at_hand *h, int bytes) { return (struct f32 *)(void *)((char *)h->p + bytes); }
static struct ops_weight weight(struct at_hand *h, int cols)
{
	return (struct ops_weight){.rows = 1, .cols = cols, .ld = cols, .w = (struct elem *)(void *)h->p};
}

static void all_of_it(struct at_hand *h)
{
	struct ops_weight w = weight(h, VALUES);
	h->o->put(h->o->ctx, &w, h->host, DTYPE_F32);
	h->o->get(h->o->ctx, h->host, &w);
	h->o->put_f32(h->o->ctx, h->p, h->host, VALUES);
	h->o->put_f32(h->o->ctx, behind(h, 4), h->host, VALUES - 1);
	h->o->get_f32(h->o->ctx, h->host, h->p, VALUES);
	h->o->get_i32(h->o->ctx, (int32_t *)(void *)h->host, (struct i32 *)(void *)h->p, VALUES);
	for (int slot = 0; slot < 2; slot++) {
		h->o->fetch_f32(h->o->ctx, slot, h->p, VALUES);
		h->o->fetched_f32(h->o->ctx, slot, h->host, VALUES);
	}
	h->o->fetch_f32(h->o->ctx, 0, h->p, VALUES);
	h->o->fetched_f32(h->o->ctx, 0, h->host, VALUES);
	h->o->pages_copy(h->o->ctx, (struct elem *)(void *)h->p, 2, 2, 1, &(int32_t){0}, &(int32_t){1}, 1);
	h->o->release(h->o->ctx, NULL);
}
static void put_too_much(struct at_hand *h)
{
	struct ops_weight w = weight(h, VALUES + 1);
	h->o->put(h->o->ctx, &w, h->host, DTYPE_F32);
}
static void put_f32_too_much(struct at_hand *h) { h->o->put_f32(h->o->ctx, h->p, h->host, VALUES + 1); }
static void put_f32_behind(struct at_hand *h) { h->o->put_f32(h->o->ctx, behind(h, 4), h->host, VALUES); }
static void put_f32_before(struct at_hand *h) { h->o->put_f32(h->o->ctx, behind(h, -4), h->host, 1); }
static void get_f32_too_much(struct at_hand *h) { h->o->get_f32(h->o->ctx, h->host, h->p, VALUES + 1); }
static void fetch_too_much(struct at_hand *h) { h->o->fetch_f32(h->o->ctx, 0, h->p, VALUES + 1); }
static void get_i32_too_much(struct at_hand *h)
{
	h->o->get_i32(h->o->ctx, (int32_t *)(void *)h->host, (struct i32 *)(void *)h->p, VALUES + 1);
}
static void pages_too_many(struct at_hand *h)
{
	h->o->pages_copy(h->o->ctx, (struct elem *)(void *)h->p, 3, 2, 1, &(int32_t){0}, &(int32_t){1}, 1);
}
static void release_unknown(struct at_hand *h) { h->o->release(h->o->ctx, behind(h, 4)); }
static void release_twice(struct at_hand *h)
{
	h->o->release(h->o->ctx, h->p);
	h->o->release(h->o->ctx, h->p);
}
static void released_and_used(struct at_hand *h)
{
	h->o->release(h->o->ctx, h->p);
	h->o->put_f32(h->o->ctx, h->p, h->host, 1);
}
static void never_released(struct at_hand *h) { ops_free(h->o); }

/* ---- fetches and pages ---- */

static void slot_above(struct at_hand *h) { h->o->fetch_f32(h->o->ctx, 2, h->p, 1); }
static void slot_below(struct at_hand *h) { h->o->fetch_f32(h->o->ctx, -1, h->p, 1); }
static void fetch_twice(struct at_hand *h)
{
	h->o->fetch_f32(h->o->ctx, 1, h->p, 1);
	h->o->fetch_f32(h->o->ctx, 1, h->p, 1);
}
static void fetched_nothing(struct at_hand *h) { h->o->fetched_f32(h->o->ctx, 0, h->host, 1); }
static void fetched_other_slot(struct at_hand *h)
{
	h->o->fetch_f32(h->o->ctx, 0, h->p, 1);
	h->o->fetched_f32(h->o->ctx, 1, h->host, 1);
}
static void page_read_and_written(struct at_hand *h)
{
	const int32_t to[] = {0, 1}, from[] = {2, 0};
	h->o->pages_copy(h->o->ctx, (struct elem *)(void *)h->p, 1, VALUES, 1, to, from, 2);
}
static void page_written_twice(struct at_hand *h)
{
	const int32_t to[] = {0, 0}, from[] = {2, 1};
	h->o->pages_copy(h->o->ctx, (struct elem *)(void *)h->p, 1, VALUES, 1, to, from, 2);
}

/* ---- regions: the calls between begin and end are the same each time ---- */

static void zero_in_region(struct at_hand *h, uint64_t key, int calls, size_t bytes)
{
	if (!h->o->begin(h->o->ctx, key)) return;
	for (int i = 0; i < calls; i++) h->o->zero(h->o->ctx, h->p, bytes);
	h->o->end(h->o->ctx);
}
static void regions_repeat(struct at_hand *h)
{
	for (int turn = 0; turn < 3; turn++) {
		zero_in_region(h, 1, 2, 16);
		zero_in_region(h, 2, 1, 8);
		zero_in_region(h, 3, 100, 4);
	}
	/* Memory that goes takes with it what was recorded of its addresses. */
	h->o->release(h->o->ctx, h->o->alloc(h->o->ctx, 64));
	zero_in_region(h, 1, 1, 8);
}
static void region_with_another_size(struct at_hand *h)
{
	zero_in_region(h, 1, 2, 16);
	zero_in_region(h, 1, 2, 8);
}
static void region_with_more(struct at_hand *h)
{
	zero_in_region(h, 1, 1, 16);
	zero_in_region(h, 1, 2, 16);
}
static void region_with_fewer(struct at_hand *h)
{
	zero_in_region(h, 1, 2, 16);
	zero_in_region(h, 1, 1, 16);
}
static void region_in_region(struct at_hand *h)
{
	h->o->begin(h->o->ctx, 1);
	h->o->begin(h->o->ctx, 2);
}
static void end_alone(struct at_hand *h) { h->o->end(h->o->ctx); }

/* What waits, or speaks with the host, may not stand in a region. */
#define IN_REGION(name, call) \
	static void name(struct at_hand *h) \
	{ \
		struct ops_weight w = weight(h, VALUES); \
		struct ops_weight *all = &w; \
		struct ops *o = h->o; \
		h->o->begin(h->o->ctx, 1); \
		(void)all; \
		call; \
	}
IN_REGION(alloc_inside, o->alloc(o->ctx, 4))
IN_REGION(release_inside, o->release(o->ctx, h->p))
IN_REGION(put_inside, o->put(o->ctx, &w, h->host, DTYPE_F32))
IN_REGION(get_inside, o->get(o->ctx, h->host, &w))
IN_REGION(put_f32_inside, o->put_f32(o->ctx, h->p, h->host, 1))
IN_REGION(get_f32_inside, o->get_f32(o->ctx, h->host, h->p, 1))
IN_REGION(get_elem_inside, o->get_elem(o->ctx, h->host, (struct elem *)(void *)h->p, 1))
IN_REGION(get_i32_inside, o->get_i32(o->ctx, (int32_t *)(void *)h->host, (struct i32 *)(void *)h->p, 1))
IN_REGION(fetch_inside, o->fetch_f32(o->ctx, 0, h->p, 1))
IN_REGION(fetched_inside, o->fetched_f32(o->ctx, 0, h->host, 1))
IN_REGION(pages_inside, o->pages_copy(o->ctx, (struct elem *)(void *)h->p, 1, 1, 1, NULL, NULL, 0))
IN_REGION(batch_inside, o->batch_create(o->ctx, 4, 1, 0, 4, 0))
IN_REGION(choices_inside, o->choices(o->ctx))
IN_REGION(squares_inside, o->sum_squares(o->ctx, &all, 1))
IN_REGION(bind_inside, o->bind(o->ctx, NULL, NULL))
IN_REGION(prepare_inside, o->prepare(o->ctx, NULL))
IN_REGION(forget_inside, o->forget(o->ctx, NULL))

/* ---- a batch: stages are called with the rows that it has ---- */

static void embed_rows(struct at_hand *h, bool is_put, int more)
{
	struct ops *o = h->o;
	const int32_t ids[] = {0, 1, 0}, pos[] = {0, 1, 2}, sequence[] = {0, 0, 0};
	struct ops_batch *b = o->batch_create(o->ctx, 16, 1, 0, 4, 0);
	struct f32 *memory = o->alloc(o->ctx, 64 * sizeof(float)), *x = o->alloc(o->ctx, 64 * sizeof(float));
	struct ops_weight table = {.rows = 2, .cols = 4, .ld = 4, .w = (struct elem *)(void *)memory};
	const float values[8] = {1, 2, 3, 4, 5, 6, 7, 8};
	o->put(o->ctx, &table, values, DTYPE_F32);
	int T = 0;
	if (is_put)
		T = o->batch_put(o->ctx, b, &(struct ops_rows){.T = 3, .S = 1, .ids = ids, .pos = pos, .sequence = sequence});
	/* Rounded up, as a GPU does, and never above what the batch was made for. */
	CHECK(!is_put || (T > 3 && T <= 16));
	o->embed(o->ctx, (struct elem *)(void *)x, &table, b, T + more);
	float found[12];
	o->get_elem(o->ctx, found, (struct elem *)(void *)x, 12);
	CHECK(found[0] == 1 && found[4] == 5 && found[11] == 4);
	o->release(o->ctx, memory);
	o->release(o->ctx, x);
	o->batch_free(o->ctx, b);
}
static void embed_as_put(struct at_hand *h) { embed_rows(h, true, 0); }
static void embed_more(struct at_hand *h) { embed_rows(h, true, 1); }
static void embed_fewer(struct at_hand *h) { embed_rows(h, true, -1); }

/* Two rows of a sequence of one page, the first at `pos`. */
static void heads_at(struct at_hand *h, int pos)
{
	struct ops *o = h->o;
	enum { HD = 8 };
	const int32_t ids[] = {0, 0}, at[] = {pos, pos + 1}, sequence[] = {0, 0}, table[] = {0};
	struct ops_batch *b = o->batch_create(o->ctx, 16, 1, 1, 4, 0);
	struct f32 *rope = o->alloc(o->ctx, 2 * OPS_PAGE * HD * sizeof(float)),
			   *memory = o->alloc(o->ctx, (2 * OPS_PAGE + 16 * 3) * HD * sizeof(float));
	struct elem *kpages = (struct elem *)(void *)memory,
				*vpages = (struct elem *)(void *)((float *)(void *)memory + OPS_PAGE * HD),
				*qkv = (struct elem *)(void *)((float *)(void *)memory + 2 * OPS_PAGE * HD);
	o->zero(o->ctx, rope, 2 * OPS_PAGE * HD * sizeof(float));
	o->zero(o->ctx, memory, (2 * OPS_PAGE + 16 * 3) * HD * sizeof(float));
	int T = o->batch_put(o->ctx, b,
		&(struct ops_rows){.T = 2, .S = 1, .ids = ids, .pos = at, .sequence = sequence, .table = table, .pages = 1});
	o->heads(o->ctx, qkv, qkv, NULL, qkv, kpages, vpages,
		&(struct ops_heads){.NH = 1, .NKV = 1, .HD = HD, .eps = 1e-6f, .rope = rope}, b, T);
	o->release(o->ctx, memory);
	o->release(o->ctx, rope);
	o->batch_free(o->ctx, b);
}
static void heads_within_pages(struct at_hand *h) { heads_at(h, OPS_PAGE - 2); }
static void heads_second_behind(struct at_hand *h) { heads_at(h, OPS_PAGE - 1); }
static void heads_behind_pages(struct at_hand *h) { heads_at(h, OPS_PAGE); }

static const struct {
	const char *what;
	rule_fn *run;
	const char *says; /* NULL: it keeps the rules */
} rules[] = {
#define R(run, says) {#run, run, says}
	R(all_of_it, NULL),
	R(regions_repeat, NULL),
	R(embed_as_put, NULL),
	R(heads_within_pages, NULL),
	R(heads_second_behind, "row 1 has position 32, behind its pages"),
	R(heads_behind_pages, "row 0 has position 32, behind its pages"),
	R(put_too_much, "put: 5 values do not lie in memory"),
	R(put_f32_too_much, "put_f32: 5 values do not lie"),
	R(put_f32_behind, "put_f32: 4 values do not lie"),
	R(put_f32_before, "put_f32: 1 values do not lie"),
	R(get_f32_too_much, "get_f32: 5 values do not lie"),
	R(fetch_too_much, "fetch_f32: 5 values do not lie"),
	R(get_i32_too_much, "get_i32: 5 values do not lie"),
	R(pages_too_many, "pages_copy: 6 values do not lie"),
	R(release_unknown, "was not allocated"),
	R(release_twice, "was not allocated"),
	R(released_and_used, "1 values do not lie"),
	R(never_released, "1 arrays were not released"),
	R(slot_above, "slot 2"),
	R(slot_below, "slot -1"),
	R(fetch_twice, "slot 1 holds what nobody has taken"),
	R(fetched_nothing, "nothing was fetched in slot 0"),
	R(fetched_other_slot, "nothing was fetched in slot 1"),
	R(page_read_and_written, "page 0 is written and read"),
	R(page_written_twice, "page 0 is written and written again"),
	R(region_with_another_size, "call 0 is zero, the first time it was zero; or its pointers or sizes differ"),
	R(region_with_more, "call 1 is zero, the first time there were 1 calls"),
	R(region_with_fewer, "1 calls, the first time there were 2"),
	R(region_in_region, "begin stands inside a region"),
	R(end_alone, "current >= 0"),
	R(alloc_inside, "alloc stands inside"),
	R(release_inside, "release stands inside"),
	R(put_inside, "put stands inside"),
	R(get_inside, "get stands inside"),
	R(put_f32_inside, "put_f32 stands inside"),
	R(get_f32_inside, "get_f32 stands inside"),
	R(get_elem_inside, "get_elem stands inside"),
	R(get_i32_inside, "get_i32 stands inside"),
	R(fetch_inside, "fetch_f32 stands inside"),
	R(fetched_inside, "fetched_f32 stands inside"),
	R(pages_inside, "pages_copy stands inside"),
	R(batch_inside, "batch_create stands inside"),
	R(choices_inside, "choices stands inside"),
	R(squares_inside, "sum_squares stands inside"),
	R(bind_inside, "bind stands inside"),
	R(prepare_inside, "prepare stands inside"),
	R(forget_inside, "forget stands inside"),
	R(embed_more, "embed: called with"),
	R(embed_fewer, "embed: called with"),
#undef R
};

/* Runs a rule in a child and returns what it wrote on standard error; status as waitpid's. */
static void run_rule(rule_fn *run, char *text, size_t len, int *status)
{
	int fds[2];
	assert_int_equal(pipe(fds), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct at_hand h = {.host = {0}};
		struct err err = {0};
		dup2(fds[1], STDERR_FILENO);
		if (ops_open("check", &(struct ops_options){.threads = 1}, &h.o, &err)) _exit(1);
		h.p = h.o->alloc(h.o->ctx, VALUES * sizeof(float));
		run(&h);
		/* What kept the rules has nothing left but the one array. */
		h.o->release(h.o->ctx, h.p);
		ops_free(h.o);
		_exit(0);
	}
	close(fds[1]);
	size_t have = 0;
	for (ssize_t n; have + 1 < len && (n = read(fds[0], text + have, len - 1 - have)) > 0; have += (size_t)n) continue;
	text[have] = 0;
	close(fds[0]);
	assert_int_equal(waitpid(pid, status, 0), pid);
}

static void test_rules(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(rules); i++) {
		char text[4096];
		int status;
		run_rule(rules[i].run, text, sizeof text, &status);
		bool is_right = rules[i].says
			? WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT && strstr(text, rules[i].says)
			: status == 0;
		if (!is_right) fail_msg("%s: status %d: %s", rules[i].what, status, text);
	}
}

/* Of memory that is given back the record forgets for whom rows in it were written: of the first
 * byte to the last, of any number of them, and of nothing around it. */
static void test_forgotten_rows(void **state)
{
	static char rows[16];
	for (int from = 0; from <= 16; from++)
		for (int to = from; to <= 16; to++) {
			struct check_record c;
			record_init(&c);
			for (int i = 0; i < 16; i++) tail_write(&c, rows + i, NULL);
			record_forget(&c, rows + from, rows + to);
			assert_int_equal(c.ntails, 16 - (to - from));
			for (int i = 0; i < c.ntails; i++) {
				const char *of = c.tails[i].of;
				assert_true(of < rows + from || of >= rows + to);
			}
			record_release(&c);
		}
}

/* What an adapter's B held when it was bound counts element by element, to the last one of each
 * part. */
static void test_values_of_b(void **state)
{
	float b[2][3] = {{1, 2, 3}, {4, 5, 6}};
	struct ops_linear l = {.parts = 2};
	struct ops_lora lora = {
		.b = {{.w = (struct elem *)b[0], .rows = 3, .cols = 1}, {.w = (struct elem *)b[1], .rows = 1, .cols = 3}}};
	struct check_record c;
	record_init(&c);
	tail_bind(&c, &l, &lora);
	uint64_t bound = c.tails[0].hash;
	for (int i = 0; i < 6; i++) {
		b[i / 3][i % 3] += 1;
		tail_bind(&c, &l, &lora);
		assert_true(c.tails[0].hash != bound);
		b[i / 3][i % 3] -= 1;
		tail_bind(&c, &l, &lora);
		assert_true(c.tails[0].hash == bound);
	}
	assert_int_equal(c.ntails, 1);
	record_release(&c);
}

/* A device that is described and not opened says the same of itself as the one that is opened. */
static void test_described(void **state)
{
	static const char *const devices[] = {"cpu", "check"};
	const struct ops_options options = {.threads = 1, .adapter_columns = 24};
	struct ops said, cuda, *opened;
	struct err err = {0};
	for (int i = 0; i < 2; i++) {
		assert_int_equal(ops_describe(devices[i], &options, &said, &err), 0);
		assert_int_equal(ops_open(devices[i], &options, &opened, &err), 0);
		assert_string_equal(said.name, opened->name);
		assert_int_equal(said.elem_bytes, opened->elem_bytes);
		assert_int_equal(said.tail, opened->tail);
		assert_int_equal(said.host_memory, opened->host_memory);
		assert_int_equal(said.batch_invariant, opened->batch_invariant);
		assert_memory_equal(said.limits, opened->limits, sizeof *said.limits);
		ops_free(opened);
	}
	assert_int_equal(ops_describe("cuda:2", &options, &cuda, &err), 0);
	assert_string_equal(cuda.name, "cuda");
	assert_int_equal(cuda.elem_bytes, 2);
	assert_int_equal(cuda.tail, 24);
	assert_false(cuda.host_memory || cuda.batch_invariant);
	assert_int_equal(ops_describe("tpu", &options, &cuda, &err), ERR_USAGE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_rules), cmocka_unit_test(test_forgotten_rows),
		cmocka_unit_test(test_values_of_b), cmocka_unit_test(test_described)};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
