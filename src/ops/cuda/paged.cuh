/* paged: what the two kinds of attention over pages share. paged.cu: a row of a sequence (decode),
 * and the operation; paged_tiles.cu: tiles of a sequence's rows. */
#ifndef HONE_CUDA_PAGED_CUH
#define HONE_CUDA_PAGED_CUH
#include "attention_step.cuh"
#include "cuda_device.cuh"

struct paged_args {
	const bf16 *q;       /* row stride q_ld, head h at h * HD */
	int64_t q_ld;        /* in elements */
	const bf16 *kpages;  /* (pages, NKV, OPS_PAGE, HD) */
	const bf16 *vpages;  /* (pages, NKV, OPS_PAGE, HD) */
	float *partial;      /* decode: (T, chunks, NH, HD + 2): o, m, l */
	int *arrived;        /* decode: chunks of a pair in partial, by the block of its first; 0 between launches */
	bool leaves_parts;   /* decode: all of them lie in partial then, for cuda_merge */
	unsigned *thin;      /* decode: a counter to clear (struct thin_wait), or NULL */
	bf16 *att;           /* row stride att_ld */
	int64_t att_ld;      /* in elements */
	struct batch_view b; /* whose rows, positions and pages */
	int S;               /* tiles: sequences */
	int NH;              /* query heads */
	int NKV;             /* key heads */
	int HD;              /* columns of a head */
	int group;           /* query heads of a key head, or of a share of them */
	int shares;          /* decode: of a group that is too large for one walk, each with a walk of its own; else 1 */
	int pack;            /* tiles: heads of a group that share a block's keys */
	int T;               /* rows of q and att */
	float scale_log2;    /* log2(e) / sqrt(HD) */
};

/* KEYS keys of one head from position `first` on, out of pages into a tile of COLS
 * columns, those of the head from `column` on; what lies at `end` and behind, or behind
 * the head's width, is zeros. */
template <int KEYS, int HD, bool WHOLE, int COLS, int THREADS>
static __device__ __forceinline__ void pages_load(uint32_t tile, const bf16 *pages, const int32_t *table,
	const struct paged_args &a, int kv, int first, int end, int column = 0)
{
	constexpr int PIECES = COLS / 8;
	const int width = width_of<HD, WHOLE>(a.HD);
#pragma unroll 4
	for (int at = (int)threadIdx.x; at < KEYS * PIECES; at += THREADS) {
		int row = at / PIECES, piece = at % PIECES, position = first + row;
		bool exists = position < end && (WHOLE || column + piece * 8 < width);
		int64_t page = exists ? table[position / OPS_PAGE] : 0;
		const char *from = (const char *)(pages + (page * a.NKV + kv) * OPS_PAGE * width) +
			page_at<HD, WHOLE>(position % OPS_PAGE, column / 8 + piece, width);
		copy_16(tile + tile_at<COLS>(row, piece), exists ? from : (const char *)pages, exists);
	}
}

/* Attention of batches whose sequences have more than one row. */
void cuda_paged_tiles(struct ops_context *, struct paged_args);
#endif
