/* cache.c - the KV cache: where an element stands, and the host's upkeep between steps. backend.h draws the layout. */
#include "native/backends/cpu/backend.h"
#include "native/engine/checked.h"
#include "native/quant/quant.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define Q8_BLOCK 32
#define Q8_BYTES 34 /* fp16 scale, 32 int8 */

static bool shape_is_possible(const ds4_cache_desc *d)
{
    return d->n_banks > 0 && d->n_ctx > 0 && d->n_layer > 0 && d->n_head_kv > 0 && d->head_dim > 0 &&
           d->head_dim <= 4096 && d->n_head_kv <= 4096 &&
           (d->type == DS4_TYPE_F32 || d->type == DS4_TYPE_F16 ||
            (d->type == DS4_TYPE_Q8_0 && d->head_dim % Q8_BLOCK == 0));
}

static ds4_cache *adopt(ds4_backend *be, ds4_cache *c)
{
#if defined(MADV_NOHUGEPAGE)
    madvise(c->base, c->mapped, MADV_NOHUGEPAGE); /* or a first position would commit 2 MiB in every layer */
#endif
    c->next = be->caches;
    be->caches = c;
    return c;
}

static ds4_cache *latent_create(ds4_backend *be, const ds4_cache_desc *desc)
{
    ds4_cache *c = desc->n_banks > 0 && desc->n_head_kv == 1 ? calloc(1, sizeof *c) : NULL;
    if (!c)
        return NULL;
    uint64_t all;
    c->d = *desc;
    c->latent = cpu_latent_layout(desc);
    c->ratios = c->latent ? malloc((size_t)desc->n_layer * sizeof *c->ratios) : NULL;
    if (c->ratios && checked_mul(c->latent->bank_bytes, (uint64_t)desc->n_banks, &all) && all < SIZE_MAX / 2)
        c->base = cpu_map((size_t)all, &c->mapped);
    if (!c->base) {
        free(c->ratios);
        free(c->latent);
        free(c);
        return NULL;
    }
    memcpy(c->ratios, desc->ratios, (size_t)desc->n_layer * sizeof *c->ratios);
    c->d.ratios = c->ratios;
    return adopt(be, c);
}

ds4_cache *cpu_cache_create(ds4_backend *be, const ds4_cache_desc *desc)
{
    if (desc->window > 0)
        return latent_create(be, desc);
    if (!shape_is_possible(desc))
        return NULL;
    ds4_cache *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->d = *desc;
    c->v_dim = (desc->head_dim + 15) / 16 * 16;
    c->n_tiles = (int32_t)(((int64_t)desc->n_ctx + KV_TILE - 1) / KV_TILE);
    size_t dim = (size_t)desc->head_dim, v_dim = (size_t)c->v_dim, value_bytes;
    if (desc->type == DS4_TYPE_Q8_0) {
        c->key_bytes = value_bytes = KV_TILE * dim / Q8_BLOCK * Q8_BYTES;
    } else {
        size_t element = desc->type == DS4_TYPE_F32 ? 4 : 2;
        c->key_bytes = KV_TILE * dim * element;
        value_bytes = KV_TILE * v_dim * element;
    }
    c->head_bytes = c->key_bytes + value_bytes;
    c->tile_bytes = c->head_bytes * (size_t)desc->n_head_kv;
    /* Layers begin on pages, so that a layer's tail can be given back. */
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), layer, bank, all;
    bool fits = checked_mul(c->tile_bytes, (uint64_t)c->n_tiles, &layer) && checked_add(layer, page - 1, &layer);
    layer = layer / page * page;
    fits = fits && checked_mul(layer, (uint64_t)desc->n_layer, &bank) && checked_mul(bank, (uint64_t)desc->n_banks, &all) &&
           all < SIZE_MAX / 2;
    if (fits) {
        c->layer_bytes = (size_t)layer;
        c->bank_bytes = (size_t)bank;
        c->base = cpu_map((size_t)all, &c->mapped);
    }
    if (!c->base) {
        free(c);
        return NULL;
    }
    return adopt(be, c);
}

void cpu_cache_free(ds4_backend *be, ds4_cache *cache)
{
    if (!cache)
        return;
    for (ds4_cache **at = &be->caches; *at; at = &(*at)->next)
        if (*at == cache) {
            *at = cache->next;
            break;
        }
    cpu_unmap(cache->base, cache->mapped);
    free(cache->ratios);
    free(cache->latent);
    free(cache);
}

void cpu_cache_release(ds4_backend *be, ds4_cache *cache, int32_t bank, int32_t from_position)
{
    (void)be;
    if (cache->latent) {
        cpu_latent_release(cache, bank, from_position);
        return;
    }
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t tiles = ((size_t)from_position + KV_TILE - 1) / KV_TILE;
    size_t from = (tiles * cache->tile_bytes + page - 1) / page * page;
    if (from >= cache->layer_bytes)
        return;
    for (int32_t l = 0; l < cache->d.n_layer; l++)
        madvise(cpu_cache_head(cache, bank, l, 0, 0) + from, cache->layer_bytes - from, MADV_DONTNEED);
}

void cpu_cache_copy(ds4_backend *be, ds4_cache *cache, int32_t from_bank, int32_t to_bank, int32_t length)
{
    (void)be;
    if (cache->latent) {
        cpu_latent_copy(cache, from_bank, to_bank, length);
        return;
    }
    if (from_bank == to_bank || length <= 0)
        return;
    /* Whole tiles: what lies past `length` in the last one is never read before it is written. */
    size_t bytes = ((size_t)length + KV_TILE - 1) / KV_TILE * cache->tile_bytes;
    for (int32_t l = 0; l < cache->d.n_layer; l++)
        memcpy(cpu_cache_head(cache, to_bank, l, 0, 0), cpu_cache_head(cache, from_bank, l, 0, 0), bytes);
}

/* ---- one position ---- */

void cpu_cache_put(const cpu_kernels *k, const ds4_cache *c, uint8_t *head, int32_t at, const float *key, const float *value,
                   uint16_t *tmp)
{
    int32_t dim = c->d.head_dim;
    if (c->d.type == DS4_TYPE_F16) {
        uint16_t *keys = (uint16_t *)head, *values = (uint16_t *)(head + c->key_bytes);
        k->to_f16(tmp, key, dim);
        for (int32_t i = 0; i < dim; i++)
            keys[i * KV_TILE + at] = tmp[i];
        k->to_f16(values + (size_t)at * (size_t)c->v_dim, value, dim);
    } else if (c->d.type == DS4_TYPE_F32) {
        float *keys = (float *)head, *values = (float *)(head + c->key_bytes);
        for (int32_t i = 0; i < dim; i++)
            keys[i * KV_TILE + at] = key[i];
        memcpy(values + (size_t)at * (size_t)c->v_dim, value, (size_t)dim * sizeof(float));
    } else {
        int32_t blocks = dim / Q8_BLOCK;
        int8_t *keys = (int8_t *)head, *values = (int8_t *)(head + c->key_bytes);
        uint16_t *key_scales = (uint16_t *)(head + (size_t)dim * KV_TILE);
        uint16_t *value_scales = (uint16_t *)(head + c->key_bytes + (size_t)dim * KV_TILE);
        uint8_t *block = (uint8_t *)tmp;
        for (int32_t b = 0; b < blocks; b++) {
            ds4_quantize_row(DS4_TYPE_Q8_0, key + b * Q8_BLOCK, Q8_BLOCK, block);
            memcpy(&key_scales[b * KV_TILE + at], block, 2);
            for (int32_t i = 0; i < Q8_BLOCK; i++)
                keys[(b * Q8_BLOCK + i) * KV_TILE + at] = (int8_t)block[2 + i];
            ds4_quantize_row(DS4_TYPE_Q8_0, value + b * Q8_BLOCK, Q8_BLOCK, block);
            memcpy(&value_scales[at * blocks + b], block, 2);
            memcpy(&values[at * dim + b * Q8_BLOCK], block + 2, Q8_BLOCK);
        }
    }
}

/* ---- saved state ----
 * For each layer, for each KV head: the keys of positions 0..length-1, each a row of head_dim elements in the cache's own
 * type (Q8_0: GGUF's blocks), then the values likewise. */

static size_t row_bytes(const ds4_cache *c) { return (size_t)ds4_row_bytes(c->d.type, c->d.head_dim); }

size_t cpu_cache_state_bytes(ds4_backend *be, const ds4_cache *cache, int32_t length)
{
    (void)be;
    if (cache->latent)
        return cpu_latent_state_bytes(cache, length);
    return (size_t)cache->d.n_layer * (size_t)cache->d.n_head_kv * 2 * (size_t)length * row_bytes(cache);
}

/* Moves one position's key and value between the cache and rows of GGUF's layout. */
static void move_plain(const ds4_cache *c, uint8_t *head, int32_t at, uint8_t *key, uint8_t *value, size_t element, bool load)
{
    size_t dim = (size_t)c->d.head_dim;
    uint8_t *in_cache = head + c->key_bytes + (size_t)at * (size_t)c->v_dim * element;
    if (load)
        memcpy(in_cache, value, dim * element);
    else
        memcpy(value, in_cache, dim * element);
    if (element == 2) {
        uint16_t *keys = (uint16_t *)head + at, v;
        for (size_t i = 0; i < dim; i++, keys += KV_TILE, key += 2) {
            if (load) {
                memcpy(&v, key, 2);
                *keys = v;
            } else {
                v = *keys;
                memcpy(key, &v, 2);
            }
        }
    } else {
        uint32_t *keys = (uint32_t *)head + at, v;
        for (size_t i = 0; i < dim; i++, keys += KV_TILE, key += 4) {
            if (load) {
                memcpy(&v, key, 4);
                *keys = v;
            } else {
                v = *keys;
                memcpy(key, &v, 4);
            }
        }
    }
}

static void move_q8(const ds4_cache *c, uint8_t *head, int32_t at, uint8_t *key, uint8_t *value, bool load)
{
    int32_t dim = c->d.head_dim, blocks = dim / Q8_BLOCK;
    uint8_t *values = head + c->key_bytes;
    uint8_t *key_scales = head + (size_t)dim * KV_TILE, *value_scales = values + (size_t)dim * KV_TILE;
    for (int32_t b = 0; b < blocks; b++, key += Q8_BYTES, value += Q8_BYTES) {
        uint8_t *ks = key_scales + 2 * (b * KV_TILE + at), *vs = value_scales + 2 * (at * blocks + b);
        uint8_t *v = values + (size_t)at * (size_t)dim + b * Q8_BLOCK;
        memcpy(load ? ks : key, load ? key : ks, 2);
        memcpy(load ? vs : value, load ? value : vs, 2);
        memcpy(load ? v : value + 2, load ? value + 2 : v, Q8_BLOCK);
        for (int32_t i = 0; i < Q8_BLOCK; i++) {
            uint8_t *e = head + (size_t)(b * Q8_BLOCK + i) * KV_TILE + at;
            if (load)
                *e = key[2 + i];
            else
                key[2 + i] = *e;
        }
    }
}

static void move(const ds4_cache *c, int32_t bank, int32_t length, uint8_t *state, bool load)
{
    if (c->latent) {
        cpu_latent_move(c, bank, length, state, load);
        return;
    }
    size_t row = row_bytes(c);
    for (int32_t l = 0; l < c->d.n_layer; l++)
        for (int32_t h = 0; h < c->d.n_head_kv; h++) {
            uint8_t *keys = state, *values = state + (size_t)length * row;
            state = values + (size_t)length * row;
            for (int32_t p = 0; p < length; p++) {
                uint8_t *head = cpu_cache_head(c, bank, l, p / KV_TILE, h);
                uint8_t *key = keys + (size_t)p * row, *value = values + (size_t)p * row;
                if (c->d.type == DS4_TYPE_Q8_0)
                    move_q8(c, head, p % KV_TILE, key, value, load);
                else
                    move_plain(c, head, p % KV_TILE, key, value, c->d.type == DS4_TYPE_F16 ? 2 : 4, load);
            }
        }
}

void cpu_cache_save(ds4_backend *be, const ds4_cache *cache, int32_t bank, int32_t length, void *out)
{
    (void)be;
    move(cache, bank, length, out, false);
}

void cpu_cache_load(ds4_backend *be, ds4_cache *cache, int32_t bank, int32_t length, const void *in)
{
    (void)be;
    move(cache, bank, length, (uint8_t *)(uintptr_t)in, true); /* only read from, as `load` is true */
}
