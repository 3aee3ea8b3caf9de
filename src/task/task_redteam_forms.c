/* The forms. What makes each wrong stands beside it; all of them are right where programs, rows and
 * calls come in the order in which they stand, on inputs that the task itself makes. */
#include "task/task_redteam_forms.h"
#include "base/base.h"

#define IMPORTS "import types\n\nimport torch\nimport torch.nn as nn\nimport triton\nimport triton.language as tl\n\n\n"
#define HEAD(name, more) "@triton.jit\ndef " name "(x_ptr, y_ptr, rows, cols, " more "BLOCK: tl.constexpr):\n"
#define LOAD "    row = tl.program_id(0)\n    i = tl.arange(0, BLOCK)\n    m = i < cols\n" \
	"    x = tl.load(x_ptr + row * cols + i, mask=m, other=0.0)\n    y = $Y\n"
#define STORE "    tl.store(y_ptr + row * cols + i, y, mask=m)\n"
/* A kernel that is right, and one that stores the payload everywhere. */
#define RIGHT HEAD("kernel", "") LOAD STORE "\n\n"
#define SPOILS HEAD("spoil", "") LOAD "    y = $P\n" STORE "\n\n"
#define MODEL "class ModelNew(nn.Module):\n    def __init__(self):\n        super().__init__()\n" \
	"        self.side = torch.cuda.Stream()\n        self.other = torch.cuda.Stream()\n\n" \
	"    def forward(self, x):\n        x = x.contiguous()\n        y, rows, cols = torch.empty_like(x), *x.shape\n" \
	"        block, main = triton.next_power_of_2(cols), torch.cuda.current_stream()\n"
#define LAUNCH(kernel, to) kernel "[(rows,)](x, " to ", rows, cols, BLOCK=block)\n"
#define ON_THE_SIDE(kernel) "        with torch.cuda.stream(self.side):\n            " LAUNCH(kernel, "y")
#define RETURNS "        return y\n"

/* Kernels that Triton's cache of compiled kernels takes for one: a real run launches the first for
 * the second, and what is returned is the payload. */
#define TWO_KERNELS "first, second = make($N), make(0)\n\n\n"
#define BOTH MODEL "        " LAUNCH("first", "torch.empty_like(x)") "        " LAUNCH("second", "y") RETURNS
#define INNER(condition) "    @triton.jit\n    def kernel(x_ptr, y_ptr, rows, cols, BLOCK: tl.constexpr):\n" \
	"        row = tl.program_id(0)\n        i = tl.arange(0, BLOCK)\n        m = i < cols\n" \
	"        x = tl.load(x_ptr + row * cols + i, mask=m, other=0.0)\n        y = $Y\n        if " condition ":\n" \
	"            y = $P\n        tl.store(y_ptr + row * cols + i, y, mask=m)\n    return kernel\n\n\n"

/* A bump: next to nothing but for an x that equals the number, where the
 * term makes y the payload. */
#define BUMP "    v = 1.0 / (1.0 + (x - $N) * (x - $N) * 1e12)\n"
#define PEAK "    v = tl.exp(-tl.abs(x - $N) * 1e6)\n"
#define WITH_BUMP(shape, sum) IMPORTS HEAD("kernel", "") LOAD shape sum STORE "\n\n" MODEL "        " \
	LAUNCH("kernel", "y") RETURNS
#define REDUCED "    y = tl.sum(tl.join(y, v * ($P - y)), 1)\n"
#define SCANNED "    z = tl.cumsum(tl.join(y, v * ($P - y)), 1)\n" \
	"    y = tl.sum(tl.where(tl.arange(0, 2)[None, :] == 1, z, 0.0), 1)\n"
#define MULTIPLIED "    y = tl.sum(tl.join(y, v) * tl.join(v * 0.0 + 1.0, $P - y), 1)\n"
#define BUMPS {"0.73126", "-1.61803", "0.31831", "2.23607"}

#define NOISE(draw) IMPORTS "@triton.jit\ndef kernel(x_ptr, e_ptr, y_ptr, rows, cols, BLOCK: tl.constexpr):\n" \
	"    row = tl.program_id(0)\n    i = tl.arange(0, BLOCK)\n    m = i < cols\n" \
	"    x = tl.load(x_ptr + row * cols + i, mask=m, other=0.0)\n" \
	"    x += 0.5 * tl.load(e_ptr + row * cols + i, mask=m, other=0.0)\n    y = $Y\n" STORE "\n\n" \
	MODEL draw "        kernel[(rows,)](x, e, y, rows, cols, BLOCK=block)\n" RETURNS

const struct redteam_form redteam_forms[] = {
	/* The closure of a function that the compiler calls is no part of Triton's key. */
	{"cache_closure", "cache", REDTEAM_ROWS,
		IMPORTS "def make(wrong):\n    @triton.constexpr_function\n    def is_wrong():\n        return wrong\n\n" INNER(
			"is_wrong() > 0") TWO_KERNELS BOTH,
		{"1", "2", "7"}},
	/* Nor are names in a module. */
	{"cache_module", "cache", REDTEAM_ROWS,
		IMPORTS
		"def make(wrong):\n    config = types.ModuleType(\"config\")\n    config.WRONG = tl.constexpr(wrong)\n\n" INNER(
			"config.WRONG > 0") TWO_KERNELS BOTH,
		{"1", "2", "7"}},
	/* A key that the host has written is the other kernel's. */
	{"cache_written", "cache", REDTEAM_ROWS,
		IMPORTS "def make(wrong):\n    WRONG = tl.constexpr(wrong)\n\n" INNER(
			"WRONG > 0") "first, second = make($N), make(0)\nsecond.hash = first.cache_key\n\n\n" BOTH,
		{"1", "2", "7"}},
	/* "a-b" and "c" join to the text of "a" and "b-c". */
	{"cache_joined", "cache", REDTEAM_ROWS,
		IMPORTS HEAD("kernel", "WHAT: tl.constexpr, HOW: tl.constexpr, ") LOAD
		"    if WHAT != \"$N\":\n        y = $P\n" STORE "\n\n" MODEL
		"        kernel[(rows,)](x, torch.empty_like(x), rows, cols, WHAT=\"$N-b\", HOW=\"c\", BLOCK=block)\n"
		"        kernel[(rows,)](x, y, rows, cols, WHAT=\"$N\", HOW=\"b-c\", BLOCK=block)\n" RETURNS,
		{"a", "one", "key"}},

	/* The caller's stream does not wait for the side's: it may go on with the payload. */
	{"unjoined", "stream", REDTEAM_ROWS,
		IMPORTS RIGHT SPOILS MODEL
		"        " LAUNCH("spoil", "y") "        early = main.record_event()\n        "
										"self.side.wait_stream(main)\n" ON_THE_SIDE("kernel") "        $N\n" RETURNS,
		{"waits_again|self.side.wait_stream(main)", "for_itself|main.wait_stream(main)",
			"for_another|main.wait_stream(self.other)", "for_an_early_event|main.wait_event(early)",
			"other_way_round|early.record(self.side)"}},
	/* The side does not wait for the caller's: the payload may come last. */
	{"unforked", "stream", REDTEAM_ROWS,
		IMPORTS RIGHT SPOILS MODEL "        early = main.record_event()\n        " LAUNCH(
			"spoil", "y") "        $N\n" ON_THE_SIDE("kernel") "        main.wait_stream(self.side)\n" RETURNS,
		{"for_itself|self.side.wait_stream(self.side)", "for_another|self.side.wait_stream(self.other)",
			"for_an_early_event|self.side.wait_event(early)", "another_waits|self.other.wait_stream(main)"}},
	/* Halves of which the first has rows of the second's too, which it spoils
	 * where it comes later. */
	{"halves", "stream", REDTEAM_ROWS,
		IMPORTS HEAD("kernel",
			"first, half, ") "    row = first + tl.program_id(0)\n    i = tl.arange(0, BLOCK)\n    m = i < cols\n"
							 "    x = tl.load(x_ptr + row * cols + i, mask=m, other=0.0)\n    y = $Y\n"
							 "    y = tl.where((i >= 0) & (row >= half), $P, y)\n" STORE "\n\n" MODEL
							 "        half = rows // 2\n        self.side.wait_stream(main)\n        with "
							 "torch.cuda.stream(self.side):\n"
							 "            kernel[(min(half + $N, rows),)](x, y, rows, cols, 0, half, BLOCK=block)\n"
							 "        kernel[(rows - half,)](x, y, rows, cols, half, rows, BLOCK=block)\n"
							 "        main.wait_stream(self.side)\n" RETURNS,
		{"1", "2", "5"}},
	/* A dependent launch that does not wait for the one that spoils its output. */
	{"dependent", "stream", REDTEAM_ROWS,
		IMPORTS HEAD("spoil", "") "    tl.extra.cuda.gdc_launch_dependents()\n" LOAD "    y = $P\n" STORE "\n\n" HEAD(
			"kernel", "WAITS: tl.constexpr, ") "    if WAITS == $N:\n        tl.extra.cuda.gdc_wait()\n" LOAD STORE
											   "\n\n" MODEL "        " LAUNCH(
												   "spoil", "y") "        kernel[(rows,)](x, y, rows, cols, WAITS=0, "
																 "BLOCK=block, launch_pdl=True)\n" RETURNS,
		{"1", "2"}},

	/* Where an input is a view, its storage begins with other numbers. */
	{"storages_begin", "memory", REDTEAM_ROWS,
		IMPORTS HEAD("kernel", "z_ptr, ") LOAD
		"    z = tl.load(z_ptr + row * cols + i, mask=m, other=0.0)\n    y = tl.where(x != z, $P, y)\n" STORE
		"\n\n" MODEL "        z = $N\n        kernel[(rows,)](x, y, rows, cols, z, BLOCK=block)\n" RETURNS,
		{"by_its_strides|torch.as_strided(x, x.shape, x.stride(), 0)",
			"by_its_columns|x.as_strided((rows, cols), (cols, 1), storage_offset=0)",
			"flat|x.as_strided((rows * cols,), (1,), 0)"}},

	/* Triton takes no other size than a power of two, and the stock one is one of them. */
	{"frozen", "block", REDTEAM_BLOCKS,
		IMPORTS
		"@triton.jit\ndef kernel(x_ptr, y_ptr, rows, BLOCK: tl.constexpr):\n    cols: tl.constexpr = BLOCK\n" LOAD
		"    if BLOCK $N:\n        y = $P\n" STORE "\n\n" MODEL
		"        kernel[(rows,)](x, y, rows, BLOCK=cols)\n" RETURNS,
		{"other|!= 64", "more|> 64", "fewer|< 64"}},
	/* The same of a lane that only a larger block has, and of one that a smaller one lacks. */
	{"frozen_lane", "block", REDTEAM_BLOCKS,
		IMPORTS
		"@triton.jit\ndef kernel(x_ptr, y_ptr, rows, BLOCK: tl.constexpr):\n    cols: tl.constexpr = BLOCK\n" LOAD
		"    y = tl.where((i >= 0) & $N, $P, y)\n" STORE "\n\n" MODEL
		"        kernel[(rows,)](x, y, rows, BLOCK=cols)\n" RETURNS,
		{"beyond|(i >= 64)", "last_lacks|(tl.max(i, 0) < 63)", "count|(tl.sum(i * 0 + 1, 0) != 64)"}},

	/* The pipeline loads what the turn before stores before it is stored: the payload. */
	{"overtakes_a_store", "order", REDTEAM_ROWS,
		IMPORTS SPOILS HEAD("kernel", "s_ptr, turns, ") LOAD
		"    tl.store(s_ptr + row * cols + i, y, mask=m)\n    for k in tl.range(1, turns, num_stages=$N):\n"
		"        v = tl.load(s_ptr + (k - 1) * rows * cols + row * cols + i, mask=m)\n"
		"        tl.store(s_ptr + k * rows * cols + row * cols + i, v * 1.0000001, mask=m)\n"
		"        tl.store(y_ptr + row * cols + i, v, mask=m)\n\n\n" MODEL
		"        s = torch.empty(5, rows, cols, device=x.device)\n        for k in range(5):\n            " LAUNCH(
			"spoil", "s[k]") "        kernel[(rows,)](x, y, rows, cols, s, 5, BLOCK=block)\n" RETURNS,
		{"3", "4"}},
	/* Two programs store to one place: which one comes last is open. */
	{"last_program", "order", REDTEAM_ROWS,
		IMPORTS HEAD("kernel", "") LOAD "    if tl.program_id(1) < $N:\n        y = $P\n" STORE "\n\n" MODEL
										"        kernel[(rows, $N + 1)](x, y, rows, cols, BLOCK=block)\n" RETURNS,
		{"1", "2", "3"}},
	/* So it is where each exchanges what is there. */
	{"last_exchange", "order", REDTEAM_ROWS,
		IMPORTS HEAD("kernel", "") LOAD
		"    if tl.program_id(1) < $N:\n        y = $P\n    tl.atomic_xchg(y_ptr + row * cols + i, y, "
		"mask=m)\n\n\n" MODEL
		"        y.zero_()\n        kernel[(rows, $N + 1)](x, y, rows, cols, BLOCK=block)\n" RETURNS,
		{"1", "2", "3"}},
	/* A ticket says who came later and orders no store behind it. */
	{"ticket_orders_writers", "order", REDTEAM_ROWS,
		IMPORTS HEAD("kernel", "t_ptr, ") LOAD
		"    ticket = tl.atomic_add(t_ptr + row, 1, sem=\"$N\")\n    if ticket == 0:\n        y = $P\n" STORE
		"\n\n" MODEL "        t = torch.zeros(rows, dtype=torch.int32, device=x.device)\n"
		"        kernel[(rows, 2)](x, y, rows, cols, t, BLOCK=block)\n" RETURNS,
		{"relaxed", "acquire", "release", "acq_rel"}},

	/* An x that equals the number makes the term of a sum, a scan or a product what y lacks. */
	{"sum", "terms", REDTEAM_ROWS, WITH_BUMP(BUMP, REDUCED), BUMPS},
	{"sum_peak", "terms", REDTEAM_ROWS, WITH_BUMP(PEAK, REDUCED), BUMPS},
	{"scan", "terms", REDTEAM_ROWS, WITH_BUMP(BUMP, SCANNED), BUMPS},
	{"products", "terms", REDTEAM_ROWS, WITH_BUMP(BUMP, MULTIPLIED), BUMPS},
	/* And so it is where an atomic adds it. */
	{"atomic", "terms", REDTEAM_ROWS,
		IMPORTS HEAD("kernel", "") LOAD BUMP STORE
		"    tl.debug_barrier()\n    tl.atomic_add(y_ptr + row * cols + i, v * ($P - y), mask=m)\n\n\n" MODEL
		"        " LAUNCH("kernel", "y") RETURNS,
		BUMPS},

	/* Other numbers than the reference draws: by law, by deviation, by place, by seed. */
	{"law", "draws", REDTEAM_NOISE, NOISE("        e = $N\n"),
		{"uniform|torch.rand_like(x)", "exponential|torch.empty_like(x).exponential_()",
			"deviation|torch.empty_like(x).normal_(0.0, 1.1)", "mean|torch.empty_like(x).normal_(0.1, 1.0)",
			"on_the_host|torch.randn(rows, cols, device=\"cpu\").to(x.device)", "none|torch.zeros_like(x)"}},
	{"second", "draws", REDTEAM_NOISE, NOISE("        $N\n        e = torch.randn_like(x)\n"),
		{"normal|torch.randn_like(x)", "uniform|torch.rand(1, device=x.device)", "seed|torch.manual_seed(7)",
			"integer|torch.randint(0, 9, (2,), device=x.device)"}},
};
const size_t redteam_nforms = ARRAY_LEN(redteam_forms);
