/* Which weights a run began with, for its folder to remember. */
#include "base/base.h"
#include "model/model_internal.h"
#include "ops/ops.h"

enum { VALUES_PER_TENSOR = 16 };

static void put_params(struct str *out, struct ops *ops, const struct param *p, int count)
{
	for (int i = 0; i < count; i++) {
		int64_t stride = MAX(1, p[i].count / VALUES_PER_TENSOR);
		str_append(out, p[i].name, strlen(p[i].name) + 1);
		str_append(out, &p[i].count, sizeof p[i].count);
		for (int64_t k = 0; k < p[i].count; k += stride) {
			float value = param_value(ops, &p[i], k);
			str_append(out, &value, sizeof value);
		}
	}
}

struct sha256_hex weights_fingerprint(struct model *m, struct adapter *a)
{
	struct str bytes = {0};
	int n;
	const struct param *p = model_params(m, &n);
	put_params(&bytes, m->ops, p, n);
	if (a) {
		p = adapter_params(a, &n);
		put_params(&bytes, m->ops, p, n);
		str_append(&bytes, &a->scaling, sizeof a->scaling);
		str_append(&bytes, &a->dropout, sizeof a->dropout);
	}
	struct sha256_hex h = hash_bytes(bytes.data ? bytes.data : "", bytes.len);
	str_release(&bytes);
	return h;
}
