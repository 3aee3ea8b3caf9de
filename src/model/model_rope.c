/* The table of rotary angles, (positions, 2, HD/2): cosines then sines of each position. Angles are
 * fp32 products of fp32 factors, as Hugging Face computes them: a more exact table would be a
 * different model far out in the context. */
#include "model/model_internal.h"
#include "base/base.h"

#include <math.h>
#include <stdlib.h>

/* Llama 3: long waves are stretched by factor, short ones kept, those between blended. */
static float llama3_stretch(const struct model_config *c, float freq)
{
	float factor = (float)c->rope_factor, low = (float)c->rope_low_freq_factor, high = (float)c->rope_high_freq_factor,
		  positions = (float)c->rope_original_positions;
	float wavelength = 2 * (float)M_PI / freq;
	if (wavelength < positions / high) return freq;
	if (wavelength > positions / low) return freq / factor;
	float smooth = (positions / wavelength - low) / (high - low);
	return (1 - smooth) * freq / factor + smooth * freq;
}

void model_ensure_rope(struct model *m, int positions)
{
	if (positions <= m->rope_positions) return;
	/* The table only grows: the angles of a position do not depend on how many there are. */
	const struct model_config *c = &m->config;
	int H = c->head_dim / 2;
	size_t bytes = size_mul(size_mul((size_t)positions, (size_t)c->head_dim), sizeof(float));
	float *freq = xmalloc(size_mul((size_t)H, sizeof *freq)), *table = xmalloc(bytes);
	/* Frequencies fall from dimension to dimension; a model trained for longer contexts stretches
	 * the slow ones. */
	for (int i = 0; i < H; i++) {
		freq[i] = 1.0f / powf((float)c->rope_theta, (float)(2 * i) / (float)c->head_dim);
		if (c->rope_factor) freq[i] = llama3_stretch(c, freq[i]);
	}
	for (int p = 0; p < positions; p++) {
		float *row = table + (size_t)p * (size_t)c->head_dim;
		for (int i = 0; i < H; i++) {
			row[i] = cosf((float)p * freq[i]);
			row[H + i] = sinf((float)p * freq[i]);
		}
	}
	/* The old table goes before the new one is allocated, and every layer has to learn the new
	 * address. */
	if (m->rope) m->ops->release(m->ops->ctx, m->rope);
	m->rope = m->ops->alloc(m->ops->ctx, bytes);
	m->ops->put_f32(m->ops->ctx, m->rope, table, (int64_t)positions * c->head_dim);
	m->rope_positions = positions;
	for (int l = 0; l < c->num_hidden_layers; l++) m->layers[l].heads.rope = m->rope;
	free(freq);
	free(table);
}
