/* The operator table: one row an operator, with its PyTorch spellings, its Triton text and its
 * value in double precision. Everything that depends on an operator is a column here, so adding one
 * is adding a row. Accuracy: Triton forms keep fp32 accuracy for small operands (expm1, log1p and
 * tanh from libdevice; no cancellation); softmax-like rows subtract the maximum. */
#include "task/task_graph.h"
#include "base/base.h"
#include <math.h>

#define E(name, expr) \
	static double eval_##name(double a, double b, double c, const double *k) \
	{ (void)b; (void)c; (void)k; return expr; }
static double softplus(double a) { return fmax(a, 0.0) + log1p(exp(-fabs(a))); }
static double sigmoid(double a) { return 1.0 / (1.0 + exp(-a)); }
static double bound(double a, double lo, double hi) { return fmin(fmax(a, lo), hi); }

/* clang-format off */
E(relu, fmax(a, 0.0)) E(sigmoid, sigmoid(a)) E(tanh, tanh(a)) E(gelu, 0.5 * a * (1.0 + erf(a * 0.7071067811865476)))
E(gelu_tanh, 0.5 * a * (1.0 + tanh(0.7978845608028654 * (a + 0.044715 * a * a * a)))) E(silu, a * sigmoid(a))
E(elu, a > 0.0 ? a : expm1(a)) E(selu, 1.0507009873554805 * (a > 0.0 ? a : 1.6732632423543772 * expm1(a)))
E(celu, a > 0.0 ? a : k[0] * expm1(a / k[0])) E(leaky_relu, a > 0.0 ? a : k[0] * a) E(softplus, softplus(a))
E(logsigmoid, -softplus(-a)) E(mish, a * tanh(softplus(a))) E(relu6, bound(a, 0.0, 6.0))
E(hardtanh, bound(a, -1.0, 1.0))
E(hardsigmoid, bound(a + 3.0, 0.0, 6.0) / 6.0) E(hardswish, a * bound(a + 3.0, 0.0, 6.0) / 6.0)
E(softsign, a / (1.0 + fabs(a)))
E(softshrink, a > k[0] ? a - k[0] : a < -k[0] ? a + k[0] : 0.0) E(exp, exp(a)) E(exp_neg_abs, exp(-fabs(a)))
E(gauss, exp(-a * a))
E(abs, fabs(a)) E(neg, -a) E(square, a * a) E(cube, a * a * a) E(sqrt_abs, sqrt(fabs(a) + k[0]))
E(recip_abs, 1.0 / (1.0 + fabs(a)))
E(rsqrt_sq, 1.0 / sqrt(a * a + k[0])) E(log1p_abs, log1p(fabs(a))) E(sin, sin(a)) E(cos, cos(a)) E(erf, erf(a))
E(clamp, bound(a, k[0], k[1])) E(add_c, a + k[0]) E(sub_c, a - k[0]) E(rsub_c, k[0] - a) E(mul_c, a * k[0])
E(div_c, a / k[0])
E(max_c, fmax(a, k[0])) E(min_c, fmin(a, k[0]))
E(add, a + b) E(sub, a - b) E(mul, a * b) E(maximum, fmax(a, b)) E(minimum, fmin(a, b)) E(div_safe, a / (1.0 + fabs(b)))
E(hypot, sqrt(a * a + b * b)) E(gate, a * sigmoid(b)) E(lerp, a + k[0] * (b - a)) E(axpy, a + k[0] * b)
E(absdiff, fabs(a - b)) E(where, a > 0.0 ? b : c)
/* clang-format on */

#define ROW(name, body) static void row_##name(const double *a, int n, double *out) body
														static double row_max(const double *a, int n)
{
	double m = a[0];
	for (int i = 1; i < n; i++) m = fmax(m, a[i]);
	return m;
}
static double row_total(const double *a, int n)
{
	double s = 0.0;
	for (int i = 0; i < n; i++) s += a[i];
	return s;
}
static double row_squares(const double *a, int n, double mean)
{
	double s = 0.0;
	for (int i = 0; i < n; i++) s += (a[i] - mean) * (a[i] - mean);
	return s;
}
static double row_logsumexp(const double *a, int n)
{
	double m = row_max(a, n), s = 0.0;
	for (int i = 0; i < n; i++) s += exp(a[i] - m);
	return m + log(s);
}
static void row_affine(const double *a, int n, double shift, double scale, double *out)
{
	for (int i = 0; i < n; i++) out[i] = (a[i] - shift) * scale;
}

/* clang-format off */
ROW(sum, { *out = row_total(a, n); })
ROW(mean, { *out = row_total(a, n) / n; })
ROW(amax, { *out = row_max(a, n); })
ROW(amin, { double m = a[0]; for (int i = 1; i < n; i++) m = fmin(m, a[i]); *out = m; })
ROW(lse, { *out = row_logsumexp(a, n); })
ROW(var, { *out = row_squares(a, n, row_total(a, n) / n) / n; })
ROW(norm, { *out = sqrt(row_squares(a, n, 0.0)); })
ROW(softmax, { double z = row_logsumexp(a, n); for (int i = 0; i < n; i++) out[i] = exp(a[i] - z); })
ROW(log_softmax, { row_affine(a, n, row_logsumexp(a, n), 1.0, out); })
ROW(layer_norm, { double m = row_total(a, n) / n;
	row_affine(a, n, m, 1.0 / sqrt(row_squares(a, n, m) / n + 1e-5), out); })
ROW(rms_norm, { row_affine(a, n, 0.0, 1.0 / sqrt(row_squares(a, n, 0.0) / n + 1e-6), out); })
ROW(l2_norm, { row_affine(a, n, 0.0, 1.0 / fmax(sqrt(row_squares(a, n, 0.0)), 1e-12), out); })
ROW(l1_norm, { double s = 0.0; for (int i = 0; i < n; i++) s += fabs(a[i]);
	row_affine(a, n, 0.0, 1.0 / fmax(s, 1e-12), out); })
/* clang-format on */

#define U(name, words, consts, t0, t1, triton, max) \
	{#name, words, OP_UNARY, consts, {t0, t1}, triton, eval_##name, NULL, max}
#define B(name, words, consts, t0, t1, triton) {#name, words, OP_BINARY, consts, {t0, t1}, triton, eval_##name, NULL, 0}
#define R(kind, name, words, t0, t1, triton, fn) {#name, words, kind, CONST_NONE, {t0, t1}, triton, NULL, row_##fn, 0}
#define NEG_INF "float(\"-inf\")"

static const struct op_def OPS[] = {
	U(relu, "ReLU", CONST_NONE, "torch.relu($a)", "F.relu($a)", "tl.maximum($a, 0.0)", 0),
	U(sigmoid, "sigmoid", CONST_NONE, "torch.sigmoid($a)", NULL, "tl.sigmoid($a)", 0),
	U(tanh, "tanh", CONST_NONE, "torch.tanh($a)", NULL, "libdevice.tanh($a)", 0),
	U(gelu, "GELU", CONST_NONE, "F.gelu($a)", NULL, "0.5 * $a * (1.0 + tl.erf($a * 0.7071067811865476))", 0),
	U(gelu_tanh, "tanh GELU", CONST_NONE, "F.gelu($a, approximate=\"tanh\")", NULL,
		"0.5 * $a * (1.0 + libdevice.tanh(0.7978845608028654 * ($a + 0.044715 * $a * $a * $a)))", 0),
	U(silu, "SiLU", CONST_NONE, "F.silu($a)", "$a * torch.sigmoid($a)", "$a * tl.sigmoid($a)", 0),
	U(elu, "ELU", CONST_NONE, "F.elu($a)", NULL, "tl.where($a > 0.0, $a, libdevice.expm1($a))", 0),
	U(selu, "SELU", CONST_NONE, "F.selu($a)", NULL,
		"1.0507009873554805 * tl.where($a > 0.0, $a, 1.6732632423543772 * libdevice.expm1($a))", 0),
	U(celu, "CELU", CONST_ALPHA, "F.celu($a, alpha=$k)", NULL, "tl.where($a > 0.0, $a, $k * libdevice.expm1($a / $k))",
		0),
	U(leaky_relu, "leaky ReLU", CONST_SLOPE, "F.leaky_relu($a, $k)", "F.leaky_relu($a, negative_slope=$k)",
		"tl.where($a > 0.0, $a, $k * $a)", 0),
	U(softplus, "softplus", CONST_NONE, "F.softplus($a)", NULL,
		"tl.maximum($a, 0.0) + libdevice.log1p(tl.exp(-tl.abs($a)))", 0),
	U(logsigmoid, "log-sigmoid", CONST_NONE, "F.logsigmoid($a)", NULL,
		"tl.minimum($a, 0.0) - libdevice.log1p(tl.exp(-tl.abs($a)))", 0),
	U(mish, "Mish", CONST_NONE, "F.mish($a)", NULL,
		"$a * libdevice.tanh(tl.maximum($a, 0.0) + libdevice.log1p(tl.exp(-tl.abs($a))))", 0),
	U(relu6, "ReLU6", CONST_NONE, "F.relu6($a)", NULL, "tl.minimum(tl.maximum($a, 0.0), 6.0)", 0),
	U(hardtanh, "hardtanh", CONST_NONE, "F.hardtanh($a)", NULL, "tl.minimum(tl.maximum($a, -1.0), 1.0)", 0),
	U(hardsigmoid, "hardsigmoid", CONST_NONE, "F.hardsigmoid($a)", NULL,
		"tl.minimum(tl.maximum($a + 3.0, 0.0), 6.0) / 6.0", 0),
	U(hardswish, "hardswish", CONST_NONE, "F.hardswish($a)", NULL,
		"$a * tl.minimum(tl.maximum($a + 3.0, 0.0), 6.0) / 6.0", 0),
	U(softsign, "softsign", CONST_NONE, "F.softsign($a)", "$a / (1.0 + torch.abs($a))", "$a / (1.0 + tl.abs($a))", 0),
	U(softshrink, "softshrink", CONST_SHRINK, "F.softshrink($a, $k)", NULL,
		"tl.where($a > $k, $a - $k, tl.where($a < -$k, $a + $k, 0.0))", 0),
	U(exp, "exp", CONST_NONE, "torch.exp($a)", NULL, "tl.exp($a)", 20),
	U(exp_neg_abs, "exp of minus abs", CONST_NONE, "torch.exp(-torch.abs($a))", NULL, "tl.exp(-tl.abs($a))", 0),
	U(gauss, "exp of minus square", CONST_NONE, "torch.exp(-$a * $a)", NULL, "tl.exp(-$a * $a)", 40),
	U(abs, "abs", CONST_NONE, "torch.abs($a)", "$a.abs()", "tl.abs($a)", 0),
	U(neg, "negation", CONST_NONE, "-$a", "torch.neg($a)", "-$a", 0),
	U(square, "square", CONST_NONE, "torch.square($a)", "$a * $a", "$a * $a", 500),
	U(cube, "cube", CONST_NONE, "torch.pow($a, 3)", "$a * $a * $a", "$a * $a * $a", 100),
	U(sqrt_abs, "square root of abs", CONST_EPS, "torch.sqrt(torch.abs($a) + $k)", NULL, "tl.sqrt(tl.abs($a) + $k)", 0),
	U(recip_abs, "reciprocal of one plus abs", CONST_NONE, "1.0 / (1.0 + torch.abs($a))", NULL,
		"1.0 / (1.0 + tl.abs($a))", 0),
	U(rsqrt_sq, "reciprocal square root", CONST_EPS, "torch.rsqrt($a * $a + $k)", NULL, "1.0 / tl.sqrt($a * $a + $k)",
		1000),
	U(log1p_abs, "log of one plus abs", CONST_NONE, "torch.log1p(torch.abs($a))", NULL, "libdevice.log1p(tl.abs($a))",
		0),
	U(sin, "sin", CONST_NONE, "torch.sin($a)", NULL, "tl.sin($a)", 60),
	U(cos, "cos", CONST_NONE, "torch.cos($a)", NULL, "tl.cos($a)", 60),
	U(erf, "erf", CONST_NONE, "torch.erf($a)", NULL, "tl.erf($a)", 0),
	U(clamp, "clamp", CONST_RANGE, "torch.clamp($a, $k, $l)", "$a.clamp(min=$k, max=$l)",
		"tl.minimum(tl.maximum($a, $k), $l)", 0),
	U(add_c, "add a constant", CONST_ADD, "$a + $k", NULL, "$a + $k", 0),
	U(sub_c, "subtract a constant", CONST_ADD, "$a - $k", NULL, "$a - $k", 0),
	U(rsub_c, "subtract from a constant", CONST_ADD, "$k - $a", NULL, "$k - $a", 0),
	U(mul_c, "multiply by a constant", CONST_MUL, "$a * $k", NULL, "$a * $k", 0),
	U(div_c, "divide by a constant", CONST_MUL, "$a / $k", NULL, "$a / $k", 0),
	U(max_c, "maximum with a constant", CONST_BOUND, "torch.clamp($a, min=$k)", "$a.clamp(min=$k)",
		"tl.maximum($a, $k)", 0),
	U(min_c, "minimum with a constant", CONST_BOUND, "torch.clamp($a, max=$k)", "$a.clamp(max=$k)",
		"tl.minimum($a, $k)", 0),

	B(add, "add", CONST_NONE, "$a + $b", NULL, "$a + $b"),
	B(sub, "subtract", CONST_NONE, "$a - $b", NULL, "$a - $b"),
	B(mul, "multiply", CONST_NONE, "$a * $b", NULL, "$a * $b"),
	B(maximum, "maximum", CONST_NONE, "torch.maximum($a, $b)", NULL, "tl.maximum($a, $b)"),
	B(minimum, "minimum", CONST_NONE, "torch.minimum($a, $b)", NULL, "tl.minimum($a, $b)"),
	B(div_safe, "divide by one plus abs", CONST_NONE, "$a / (1.0 + torch.abs($b))", NULL, "$a / (1.0 + tl.abs($b))"),
	B(hypot, "hypotenuse", CONST_NONE, "torch.sqrt($a * $a + $b * $b)", NULL, "tl.sqrt($a * $a + $b * $b)"),
	B(gate, "sigmoid gate", CONST_NONE, "$a * torch.sigmoid($b)", NULL, "$a * tl.sigmoid($b)"),
	B(lerp, "linear mix", CONST_MIX, "$a + $k * ($b - $a)", NULL, "$a + $k * ($b - $a)"),
	B(axpy, "scaled add", CONST_MUL, "$a + $k * $b", NULL, "$a + $k * $b"),
	B(absdiff, "absolute difference", CONST_NONE, "torch.abs($a - $b)", NULL, "tl.abs($a - $b)"),

	{"where", "select by sign", OP_WHERE, CONST_NONE, {"torch.where($a > 0, $b, $c)", NULL}, "tl.where($a > 0, $b, $c)",
		eval_where, NULL, 0},

	R(OP_REDUCE, sum, "row sum", "torch.sum($a, dim=-1$K)", "$a.sum(dim=-1$K)", "tl.sum(tl.where($m, $a, 0.0), axis=0)",
		sum),
	R(OP_REDUCE, mean, "row mean", "torch.mean($a, dim=-1$K)", "$a.mean(dim=-1$K)",
		"tl.sum(tl.where($m, $a, 0.0), axis=0) / cols", mean),
	R(OP_REDUCE, amax, "row maximum", "torch.amax($a, dim=-1$K)", "$a.amax(dim=-1$K)",
		"tl.max(tl.where($m, $a, " NEG_INF "), axis=0)", amax),
	R(OP_REDUCE, amin, "row minimum", "torch.amin($a, dim=-1$K)", "$a.amin(dim=-1$K)",
		"tl.min(tl.where($m, $a, float(\"inf\")), axis=0)", amin),
	R(OP_REDUCE, logsumexp, "row logsumexp", "torch.logsumexp($a, dim=-1$K)", NULL,
		"part = tl.where($m, $a, " NEG_INF
		")\ntop = tl.max(part, axis=0)\n$o = top + tl.log(tl.sum(tl.exp(part - top), axis=0))",
		lse),
	R(OP_REDUCE, var, "row variance", "torch.var($a, dim=-1, unbiased=False$K)", "$a.var(dim=-1, unbiased=False$K)",
		"mean = tl.sum(tl.where($m, $a, 0.0), axis=0) / cols\ndiff = tl.where($m, $a - mean, 0.0)\n$o = tl.sum(diff * "
		"diff, axis=0) / cols",
		var),
	R(OP_REDUCE, norm, "row norm", "torch.norm($a, dim=-1$K)", "torch.sqrt(torch.sum($a * $a, dim=-1$K))",
		"tl.sqrt(tl.sum(tl.where($m, $a * $a, 0.0), axis=0))", norm),

	R(OP_ROW, softmax, "softmax", "torch.softmax($a, dim=-1)", "F.softmax($a, dim=-1)",
		"$o = tl.where($m, $a, " NEG_INF ")\n$o = tl.exp($o - tl.max($o, axis=0))\n$o = $o / tl.sum($o, axis=0)",
		softmax),
	R(OP_ROW, log_softmax, "log-softmax", "torch.log_softmax($a, dim=-1)", "F.log_softmax($a, dim=-1)",
		"$o = tl.where($m, $a, " NEG_INF
		")\n$o = $o - tl.max($o, axis=0)\n$o = $o - tl.log(tl.sum(tl.exp($o), axis=0))",
		log_softmax),
	R(OP_ROW, layer_norm, "layer norm", "F.layer_norm($a, $a.shape[-1:])", NULL,
		"$o = $a - tl.sum(tl.where($m, $a, 0.0), axis=0) / cols\nvar = tl.sum(tl.where($m, $o * $o, 0.0), axis=0) / "
		"cols\n"
		"$o = $o / tl.sqrt(var + 1e-5)",
		layer_norm),
	R(OP_ROW, rms_norm, "RMS norm", "$a * torch.rsqrt(torch.mean($a * $a, dim=-1, keepdim=True) + 1e-6)",
		"F.rms_norm($a, $a.shape[-1:], eps=1e-6)",
		"ms = tl.sum(tl.where($m, $a * $a, 0.0), axis=0) / cols\n$o = $a / tl.sqrt(ms + 1e-6)", rms_norm),
	R(OP_ROW, l2_norm, "L2 norm", "F.normalize($a, dim=-1)", NULL,
		"norm = tl.sqrt(tl.sum(tl.where($m, $a * $a, 0.0), axis=0))\n$o = $a / tl.maximum(norm, 1e-12)", l2_norm),
	R(OP_ROW, l1_norm, "L1 norm", "F.normalize($a, p=1.0, dim=-1)", NULL,
		"norm = tl.sum(tl.where($m, tl.abs($a), 0.0), axis=0)\n$o = $a / tl.maximum(norm, 1e-12)", l1_norm),

	{"linear", "linear layer", OP_MATMUL, CONST_NONE, {"self.$M($a)", NULL}, NULL, NULL, NULL, 0},
	{"matmul", "matrix product", OP_MATMUL, CONST_NONE, {"torch.matmul($a, $b)", "$a @ $b"}, NULL, NULL, NULL, 0},
	{"matmul_t", "product with the transpose", OP_MATMUL, CONST_NONE, {"torch.matmul($a, $b.t())", "$a @ $b.T"}, NULL,
		NULL, NULL, 0},

	/* not among op_list's rows: needs the parameters of an nn.LayerNorm */
	{"layer_norm_p", "layer norm with weight and bias", OP_ROW, CONST_NONE, {"self.norm($a)", NULL},
		"$o = $a - tl.sum(tl.where($m, $a, 0.0), axis=0) / cols\nvar = tl.sum(tl.where($m, $o * $o, 0.0), axis=0) / "
		"cols\n"
		"$o = $o / tl.sqrt(var + 1e-5) * $b + $c",
		NULL, row_layer_norm, 0},
};

const struct op_def *op_find(struct slice name)
{
	for (size_t i = 0; i < ARRAY_LEN(OPS); i++)
		if (strlen(OPS[i].name) == name.len && !memcmp(OPS[i].name, name.data, name.len)) return &OPS[i];
	return NULL;
}

const struct op_def *op_get(const char *name)
{
	const struct op_def *op = op_find((struct slice){name, strlen(name)});
	CHECKF(op != NULL, "no operator named %s", name);
	return op;
}

const struct op_def *op_list(enum op_kind kind, size_t *count)
{
	size_t first = 0;
	while (first < ARRAY_LEN(OPS) && OPS[first].kind != kind) first++;
	size_t end = first;
	while (end < ARRAY_LEN(OPS) && OPS[end].kind == kind) end++;
	*count = end - first;
	return &OPS[first];
}
