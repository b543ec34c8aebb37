/* latent.c - the latent cache: its layout and the host's upkeep between steps. */
#include "native/backends/cpu/latent.h"

#include "native/backends/cpu/backend.h"
#include "native/engine/checked.h"
#include "native/quant/quant.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Positions whose rolling state a window that is not closed yet may need. */
static int32_t reach(int32_t ratio) { return ratio == 4 ? 2 * ratio : ratio; }

int32_t cpu_latent_state_from(int32_t ratio, int32_t length)
{
    const int32_t open = length - length % ratio;
    return ratio != 4 ? open : open < ratio ? 0 : open - ratio;
}

int32_t cpu_latent_raw_from(const ds4_cache_desc *d, int32_t length)
{
    return length < d->window ? 0 : length - d->window + 1;
}

/* Appends n elements of `bytes` to *at; false if that overflows. */
static bool append(uint64_t n, uint64_t bytes, uint64_t *at)
{
    return checked_mul(n, bytes, &bytes) && checked_add(*at, bytes, at) && checked_add(*at, 63, &bytes) &&
           ((*at = bytes / 64 * 64), true);
}

static bool to_page(uint64_t *at)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t end;
    return checked_add(*at, page - 1, &end) && ((*at = end / page * page), true);
}

static bool lay_stream(const ds4_cache_desc *d, int32_t ratio, int32_t width, latent_stream *s, uint64_t *at)
{
    const int64_t slots = (int64_t)reach(ratio) + d->rewind, n_rows = d->n_ctx / ratio;
    s->width = width;
    s->cols = ratio == 4 ? 2 * width : width;
    s->n_state = (int32_t)(slots < d->n_ctx ? slots : d->n_ctx);
    s->row_bytes = (size_t)ds4_row_bytes(d->type, width);
    s->state = (size_t)*at;
    if (s->row_bytes == 0 || !append((uint64_t)s->n_state, 2 * sizeof(float) * (uint64_t)s->cols, at) || !to_page(at))
        return false;
    s->rows = (size_t)*at;
    return append((uint64_t)n_rows, s->row_bytes, at) && to_page(at);
}

static bool lay_layer(const ds4_cache_desc *d, int32_t ratio, latent_layer *l)
{
    const int64_t slots = (int64_t)d->window + d->rewind;
    uint64_t at = 0;
    l->ratio = ratio;
    l->n_raw = (int32_t)(slots < d->n_ctx ? slots : d->n_ctx);
    if (!append((uint64_t)l->n_raw, ds4_row_bytes(d->type, d->head_dim), &at) || !to_page(&at))
        return false;
    if (ratio > 0 && !lay_stream(d, ratio, d->head_dim, &l->stream[DS4_STREAM_LATENT], &at))
        return false;
    if (ratio == 4 && !lay_stream(d, ratio, d->index_dim, &l->stream[DS4_STREAM_INDEX], &at))
        return false;
    l->bytes = (size_t)at;
    return at <= SIZE_MAX / 2;
}

cpu_latent *cpu_latent_layout(const ds4_cache_desc *d)
{
    const bool rows = d->type == DS4_TYPE_F32 || d->type == DS4_TYPE_F16 || d->type == DS4_TYPE_Q8_0;
    if (!rows || d->n_ctx < 1 || d->n_layer < 1 || d->n_layer > 4096 || d->head_dim < 16 || d->head_dim > 4096 ||
        d->head_dim % 16 || d->window < 1 || d->rewind < 1 || !d->ratios || d->rope_dim < 0 || d->rope_dim > d->head_dim)
        return NULL;
    cpu_latent *latent = calloc(1, sizeof *latent + (size_t)d->n_layer * sizeof latent->layers[0]);
    uint64_t at = 0;
    bool fits = latent != NULL;
    for (int32_t i = 0; i < d->n_layer && fits; i++) {
        latent_layer *l = &latent->layers[i];
        const int32_t ratio = d->ratios[i];
        fits = (ratio == 0 || ratio == 4 || ratio == 128) && (ratio != 4 || (d->index_dim > 0 && d->index_dim <= 4096)) &&
               lay_layer(d, ratio, l);
        l->offset = (size_t)at;
        fits = fits && checked_add(at, l->bytes, &at) && at < SIZE_MAX / 2;
    }
    if (fits && d->carry > 0) {
        latent->n_carry = d->rewind < d->n_ctx ? d->rewind + 1 : d->n_ctx;
        latent->carry = (size_t)at;
        fits = append((uint64_t)latent->n_carry, sizeof(float) * (uint64_t)d->carry, &at) && to_page(&at) && at < SIZE_MAX / 2;
    }
    if (!fits || ds4_row_bytes(d->type, d->head_dim) == 0) {
        free(latent);
        return NULL;
    }
    latent->raw_bytes = (size_t)ds4_row_bytes(d->type, d->head_dim);
    latent->bank_bytes = (size_t)at;
    return latent;
}

uint64_t ds4_latent_bank_bytes(const ds4_cache_desc *d)
{
    cpu_latent *latent = cpu_latent_layout(d);
    const uint64_t bytes = latent ? latent->bank_bytes : 0;
    free(latent);
    return bytes;
}

void cpu_latent_put(const cpu_kernels *k, int32_t type, const float *x, int32_t n, uint8_t *row)
{
    if (type == DS4_TYPE_F32)
        memcpy(row, x, (size_t)n * sizeof(float));
    else if (type == DS4_TYPE_F16)
        k->to_f16((uint16_t *)(void *)row, x, n);
    else
        ds4_quantize_row(type, x, n, row);
}

void cpu_latent_get(const cpu_kernels *k, int32_t type, const uint8_t *row, int32_t n, float *x)
{
    if (type == DS4_TYPE_F16)
        k->from_f16(x, (const uint16_t *)(const void *)row, n);
    else
        ds4_dequant_row(type, row, n, x);
}

float *cpu_latent_carried(const ds4_cache *c, int32_t bank, int32_t position)
{
    uint8_t *rows = c->base + (size_t)bank * c->latent->bank_bytes + c->latent->carry;
    return (float *)(void *)rows + (size_t)(position % c->latent->n_carry) * (size_t)c->d.carry;
}

/* ---- between steps ---- */

static uint8_t *layer_at(const ds4_cache *c, int32_t bank, int32_t layer)
{
    return c->base + (size_t)bank * c->latent->bank_bytes + c->latent->layers[layer].offset;
}

void cpu_latent_release(ds4_cache *c, int32_t bank, int32_t from_position)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (from_position == 0) {
        madvise(layer_at(c, bank, 0), c->latent->bank_bytes, MADV_DONTNEED);
        return;
    }
    for (int32_t i = 0; i < c->d.n_layer; i++) {
        const latent_layer *l = &c->latent->layers[i];
        for (int s = 0; s < LATENT_STREAMS; s++) {
            const latent_stream *st = &l->stream[s];
            if (!st->width)
                continue;
            const size_t used = (size_t)(from_position / l->ratio) * st->row_bytes, from = (used + page - 1) / page * page;
            const size_t end = ((size_t)(c->d.n_ctx / l->ratio) * st->row_bytes + page - 1) / page * page;
            if (from < end)
                madvise(layer_at(c, bank, i) + st->rows + from, end - from, MADV_DONTNEED);
        }
    }
}

void cpu_latent_copy(ds4_cache *c, int32_t from_bank, int32_t to_bank, int32_t length)
{
    if (from_bank == to_bank || length <= 0)
        return;
    for (int32_t i = 0; i < c->d.n_layer; i++) {
        const latent_layer *l = &c->latent->layers[i];
        const uint8_t *from = layer_at(c, from_bank, i);
        uint8_t *to = layer_at(c, to_bank, i);
        /* Rings whole: the copy can then go back as far as the original. */
        memcpy(to, from, (size_t)l->n_raw * c->latent->raw_bytes);
        for (int s = 0; s < LATENT_STREAMS; s++) {
            const latent_stream *st = &l->stream[s];
            if (!st->width)
                continue;
            memcpy(to + st->state, from + st->state, (size_t)st->n_state * 2 * (size_t)st->cols * sizeof(float));
            memcpy(to + st->rows, from + st->rows, (size_t)(length / l->ratio) * st->row_bytes);
        }
    }
    if (c->d.carry)
        memcpy(cpu_latent_carried(c, to_bank, 0), cpu_latent_carried(c, from_bank, 0),
               (size_t)c->latent->n_carry * (size_t)c->d.carry * sizeof(float));
}

/* ---- saved state ----
 * For each layer: raw rows of the positions that later ones can see; then for each stream the rolling state of the
 * positions that an open window needs, fp32, and the compressed rows. Last the carried row of the last position. */

static uint64_t layer_state_bytes(const ds4_cache *c, const latent_layer *l, int32_t length)
{
    uint64_t bytes = (uint64_t)(length - cpu_latent_raw_from(&c->d, length)) * c->latent->raw_bytes;
    for (int s = 0; s < LATENT_STREAMS; s++) {
        const latent_stream *st = &l->stream[s];
        if (st->width)
            bytes += (uint64_t)(length - cpu_latent_state_from(l->ratio, length)) * 2 * sizeof(float) * (uint64_t)st->cols +
                     (uint64_t)(length / l->ratio) * st->row_bytes;
    }
    return bytes;
}

size_t cpu_latent_state_bytes(const ds4_cache *c, int32_t length)
{
    uint64_t bytes = 0;
    for (int32_t i = 0; i < c->d.n_layer; i++)
        bytes += layer_state_bytes(c, &c->latent->layers[i], length);
    return (size_t)bytes + (length > 0 ? (size_t)c->d.carry * sizeof(float) : 0);
}

/* Moves `bytes` between the cache and the state, and steps over them. */
static void move_bytes(uint8_t *cache, uint8_t **state, size_t bytes, bool load)
{
    memcpy(load ? cache : *state, load ? *state : cache, bytes);
    *state += bytes;
}

void cpu_latent_move(const ds4_cache *c, int32_t bank, int32_t length, uint8_t *state, bool load)
{
    const size_t raw_bytes = c->latent->raw_bytes;
    for (int32_t i = 0; i < c->d.n_layer; i++) {
        const latent_layer *l = &c->latent->layers[i];
        uint8_t *base = layer_at(c, bank, i);
        for (int32_t p = cpu_latent_raw_from(&c->d, length); p < length; p++)
            move_bytes(base + (size_t)(p % l->n_raw) * raw_bytes, &state, raw_bytes, load);
        for (int s = 0; s < LATENT_STREAMS; s++) {
            const latent_stream *st = &l->stream[s];
            const size_t slot = 2 * sizeof(float) * (size_t)st->cols;
            if (!st->width)
                continue;
            for (int32_t p = cpu_latent_state_from(l->ratio, length); p < length; p++)
                move_bytes(base + st->state + (size_t)(p % st->n_state) * slot, &state, slot, load);
            move_bytes(base + st->rows, &state, (size_t)(length / l->ratio) * st->row_bytes, load);
        }
    }
    if (c->d.carry && length > 0)
        move_bytes((uint8_t *)cpu_latent_carried(c, bank, length - 1), &state, (size_t)c->d.carry * sizeof(float), load);
}
