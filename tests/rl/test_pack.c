/* Packed batches against what they mean: whatever stands once, each answer's token is
 * predicted from the tokens before it, and what is equal stands once. The batch is read by
 * its own description alone, from a row back to where its sequence begins and on to the
 * row that this follows. */
#include "rl/rl_pack.h"
#include "base/base.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

enum { PROMPTS = 4, EACH = 7, SEQUENCES = PROMPTS * EACH, PROMPT_MAX = 5, ANSWER_MAX = 8, HISTORY_MAX = 32 };

static int32_t prompts[PROMPTS][PROMPT_MAX], answers[SEQUENCES][ANSWER_MAX];
static float temperatures[SEQUENCES][ANSWER_MAX];
static struct pack_sequence sequences[SEQUENCES];

/* Few tokens and temperatures, so that beginnings are shared; some answers
 * are equal, some empty. */
static void sequences_draw(uint64_t seed)
{
	uint64_t at = 0;
	for (int p = 0; p < PROMPTS; p++)
		for (int i = 0; i < PROMPT_MAX; i++) prompts[p][i] = (int32_t)(rng_u32(seed, 0, at++) % 3);
	for (int s = 0; s < SEQUENCES; s++) {
		int p = s / EACH;
		sequences[s] = (struct pack_sequence){.prompt = prompts[p],
			.nprompt = 1 + p,
			.answer = answers[s],
			.count = (int)(rng_u32(seed, 1, at++) % (ANSWER_MAX + 1)),
			.temperature = p % 2 ? temperatures[s] : NULL};
		for (int i = 0; i < ANSWER_MAX; i++) {
			answers[s][i] = (int32_t)(rng_u32(seed, 2, at++) % 2);
			temperatures[s][i] = rng_u32(seed, 3, at++) % 4 ? 1.0f : 0.5f;
		}
	}
}

static float temperature_of(const struct pack_sequence *s, int k) { return s->temperature ? s->temperature[k] : 0; }

/* How many of the first `count` sequences begin as s does up to position
 * `at`, which is included. */
static int begin_alike(int count, const struct pack_sequence *s, int at)
{
	int alike = 0;
	for (int i = 0; i < count; i++) {
		const struct pack_sequence *b = &sequences[i];
		bool is_alike = b->prompt == s->prompt && at < b->nprompt + b->count;
		for (int k = 0; is_alike && k <= at - s->nprompt; k++)
			is_alike = b->answer[k] == s->answer[k] && temperature_of(b, k) == temperature_of(s, k);
		alike += is_alike;
	}
	return alike;
}

/* Rows of the batch and head rows that the first `count` sequences need. */
static void needed(int count, bool shares, int *rows, int *heads)
{
	*rows = *heads = 0;
	for (int i = 0; i < count; i++)
		for (int at = 0; at < sequences[i].nprompt + sequences[i].count; at++) {
			bool is_new = !shares || !begin_alike(i, &sequences[i], at);
			*rows += is_new;
			*heads += is_new && at >= sequences[i].nprompt;
		}
}

/* The tokens up to a row of the batch, and how many. */
static int history(const struct batch *b, int row, int32_t *tokens)
{
	int32_t back[HISTORY_MAX];
	int n = 0;
	while (row >= 0) {
		int s = b->packed.S - 1;
		while (b->packed.start[s] > row) s--;
		assert_true(n < HISTORY_MAX && row < b->packed.T);
		back[n++] = b->ids[row];
		row = row > b->packed.start[s] ? row - 1 : b->packed.follows ? b->packed.follows[s] : -1;
	}
	for (int i = 0; i < n; i++) tokens[i] = back[n - 1 - i];
	return n;
}

/* Each loss row asks for its own token, behind its own tokens, at its own temperature. */
static void meaning_check(const struct pack *p, int count)
{
	int loss = 0;
	for (int i = 0; i < count; i++) {
		const struct pack_sequence *s = &sequences[i];
		for (int k = 0; k < s->count; k++, loss++) {
			const struct head_row *h = &p->head[p->head_of[loss]];
			int32_t tokens[HISTORY_MAX];
			assert_int_equal(history(&p->batch, h->at, tokens), s->nprompt + k);
			assert_int_equal(p->batch.packed.pos[h->at], s->nprompt + k - 1);
			assert_memory_equal(tokens, s->prompt, (size_t)s->nprompt * sizeof *tokens);
			assert_memory_equal(tokens + s->nprompt, s->answer, (size_t)k * sizeof *tokens);
			assert_int_equal(h->target, s->answer[k]);
			assert_true(h->temperature == temperature_of(s, k));
		}
	}
	assert_int_equal(p->nloss, loss);
	/* A head row's members are its loss rows, in order. */
	assert_int_equal(p->member_begin[0], 0);
	assert_int_equal(p->member_begin[p->nhead], loss);
	for (int h = 0; h < p->nhead; h++) {
		assert_true(p->member_begin[h] < p->member_begin[h + 1]);
		for (int m = p->member_begin[h]; m < p->member_begin[h + 1]; m++) {
			assert_int_equal(p->head_of[p->member[m]], h);
			assert_true(m == p->member_begin[h] || p->member[m - 1] < p->member[m]);
		}
	}
}

/* As many of the sequences as there is room for, then the next batch from there. */
static void pack_check(struct pack *p, bool shares, int max_tokens)
{
	int count = 0, rows, heads;
	pack_clear(p);
	while (count < SEQUENCES && pack_add(p, &sequences[count])) count++;
	needed(count, shares, &rows, &heads);
	assert_true(p->T == rows && p->nhead == heads && rows <= max_tokens);
	/* The one that was refused would not have fitted. */
	if (count < SEQUENCES) {
		needed(count + 1, shares, &rows, &heads);
		assert_true(rows > max_tokens);
	}
	pack_close(p);
	assert_int_equal(p->batch.packed.T, p->T);
	assert_true((p->batch.packed.follows != NULL) == shares);
	meaning_check(p, count);
}

static void test_packs(void **state)
{
	static const int sizes[] = {40, 90, 500};
	for (size_t z = 0; z < ARRAY_LEN(sizes); z++)
		for (int shares = 0; shares < 2; shares++) {
			struct pack p;
			pack_init(&p, sizes[z], shares);
			for (uint64_t seed = 1; seed <= 8; seed++) {
				sequences_draw(seed);
				pack_check(&p, shares, sizes[z]);
			}
			pack_release(&p);
		}
}

/* A pass takes so many sequences and no more, however short they are. */
static void test_many_sequences(void **state)
{
	const int32_t token = 1;
	const struct pack_sequence s = {.prompt = &token, .nprompt = 1, .answer = &token, .count = 1};
	struct pack p;
	pack_init(&p, 4 * PASS_SEQUENCES_MAX, false);
	pack_clear(&p);
	for (int i = 0; i < PASS_SEQUENCES_MAX; i++) assert_true(pack_add(&p, &s));
	assert_false(pack_add(&p, &s));
	pack_close(&p);
	assert_int_equal(p.batch.packed.S, PASS_SEQUENCES_MAX);
	assert_int_equal(p.T, 2 * PASS_SEQUENCES_MAX);
	pack_release(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_packs), cmocka_unit_test(test_many_sequences)};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
