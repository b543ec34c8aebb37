/* model.c - opening a model: the plan against the file, then weights by role. */
#include "native/engine/model.h"

#include "native/bridge/status.h"
#include "native/engine/hash.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define WARM_PIECE (8u << 20)

/* Compares a slot with the tensor of the same name and, if they agree, stores what was found. */
static int32_t match_slot(const ds4_model_desc *desc, int32_t index, const gguf_file *shard, ds4_slot *found, ds4_error *err)
{
    const ds4_slot *s = &desc->slots[index];
    const gguf_tensor *t = gguf_find(shard, s->name);

    if (!t)
        return ds4_fail(err, DS4_ERR_MISMATCH, "slot %d (%s): %s has no such tensor", index, s->name,
                        desc->shards[s->shard]);
    if (t->type != s->type)
        return ds4_fail(err, DS4_ERR_MISMATCH, "slot %d (%s): the plan says type %d, the file %d", index, s->name, s->type,
                        t->type);
    if (t->n_dims != s->n_dims)
        return ds4_fail(err, DS4_ERR_MISMATCH, "slot %d (%s): the plan says %d dimensions, the file %d", index, s->name,
                        s->n_dims, t->n_dims);
    for (int i = 0; i < DS4_MAX_DIMS; i++)
        if (t->dims[i] != s->dims[i])
            return ds4_fail(err, DS4_ERR_MISMATCH, "slot %d (%s): the plan says dims[%d] = %" PRId64 ", the file %" PRId64,
                            index, s->name, i, s->dims[i], t->dims[i]);
    if (t->offset != s->offset)
        return ds4_fail(err, DS4_ERR_MISMATCH, "slot %d (%s): the plan says offset %" PRIu64 ", the file %" PRIu64, index,
                        s->name, s->offset, t->offset);
    if (t->bytes != s->bytes)
        return ds4_fail(err, DS4_ERR_MISMATCH, "slot %d (%s): the plan says %" PRIu64 " bytes, the file %" PRIu64, index,
                        s->name, s->bytes, t->bytes);
    found->role = s->role;
    found->layer = s->layer;
    found->shard = s->shard;
    found->type = t->type;
    found->n_dims = t->n_dims;
    memcpy(found->dims, t->dims, sizeof found->dims);
    found->offset = t->offset;
    found->bytes = t->bytes;
    return DS4_OK;
}

static size_t arrays_bytes(const ds4_hparams *h)
{
    if (h->decoder)
        return (size_t)h->decoder->n_flags * sizeof(int32_t);
    return h->dsv4 ? (size_t)h->dsv4->n_ratios * sizeof(int32_t) + 2 * (size_t)h->dsv4->n_clamps * sizeof(float) : 0;
}

static int32_t copy_decoder(ds4_model *m, const ds4_decoder *d, ds4_error *err)
{
    const size_t bytes = (size_t)d->n_flags * sizeof(int32_t);

    m->arrays = malloc(bytes);
    if (!m->arrays)
        return ds4_fail(err, DS4_ERR_MEMORY, "no memory for the flags of %d layers", d->n_flags);
    memcpy(m->arrays, d->flags, bytes);
    m->decoder = *d;
    m->decoder.flags = m->arrays;
    m->hparams.decoder = &m->decoder;
    return DS4_OK;
}

/* The descriptor is borrowed, so what hparams.dsv4 leads to is copied: ratios, then the clamps of routed and of shared
 * experts, in one block. */
static int32_t copy_hparams(ds4_model *m, const ds4_hparams *h, ds4_error *err)
{
    m->hparams = *h;
    if (m->hparams.attn_scale == 0)
        m->hparams.attn_scale = 1.0f / sqrtf((float)m->hparams.head_dim);
    if (h->family != DS4_FAMILY_DEEPSEEK4) {
        m->hparams.dsv4 = NULL;
        return h->decoder ? copy_decoder(m, h->decoder, err) : DS4_OK;
    }
    m->hparams.decoder = NULL;
    m->arrays = malloc(arrays_bytes(&m->hparams));
    if (!m->arrays)
        return ds4_fail(err, DS4_ERR_MEMORY, "no memory for the hyperparameters of %d layers", h->n_layer);
    int32_t *ratios = m->arrays;
    float *experts = (float *)(void *)(ratios + h->dsv4->n_ratios), *shared = experts + h->dsv4->n_clamps;
    memcpy(ratios, h->dsv4->ratios, (size_t)h->dsv4->n_ratios * sizeof *ratios);
    memcpy(experts, h->dsv4->clamp_experts, (size_t)h->dsv4->n_clamps * sizeof *experts);
    memcpy(shared, h->dsv4->clamp_shared, (size_t)h->dsv4->n_clamps * sizeof *shared);
    m->dsv4 = *h->dsv4;
    m->dsv4.ratios = ratios;
    m->dsv4.clamp_experts = experts;
    m->dsv4.clamp_shared = shared;
    m->hparams.dsv4 = &m->dsv4;
    return DS4_OK;
}

/* hparams, then each slot's role, layer, type, dims, bytes and name. Padding and pointers stay out of it. */
static int32_t fingerprint(ds4_model *m, ds4_error *err)
{
    struct { int32_t role, layer, type, n_dims; int64_t dims[DS4_MAX_DIMS]; uint64_t bytes; } entry;
    const size_t arrays = arrays_bytes(&m->hparams);
    size_t bytes = offsetof(ds4_hparams, dsv4) + arrays;
    uint8_t *text, *at;

    bytes += m->hparams.dsv4 ? offsetof(ds4_dsv4, ratios) : m->hparams.decoder ? offsetof(ds4_decoder, flags) : 0;
    for (int32_t i = 0; i < m->n_slots; i++)
        bytes += sizeof entry + strlen(m->slots[i].name) + 1;
    text = at = malloc(bytes);
    if (!text)
        return ds4_fail(err, DS4_ERR_MEMORY, "no memory for the fingerprint's %zu bytes", bytes);
    memcpy(at, &m->hparams, offsetof(ds4_hparams, dsv4));
    at += offsetof(ds4_hparams, dsv4);
    if (m->hparams.dsv4) {
        memcpy(at, &m->dsv4, offsetof(ds4_dsv4, ratios));
        at += offsetof(ds4_dsv4, ratios);
    } else if (m->hparams.decoder) {
        memcpy(at, &m->decoder, offsetof(ds4_decoder, flags));
        at += offsetof(ds4_decoder, flags);
    }
    if (arrays)
        memcpy(at, m->arrays, arrays);
    at += arrays;
    for (int32_t i = 0; i < m->n_slots; i++) {
        const ds4_slot *s = &m->slots[i];
        memset(&entry, 0, sizeof entry);
        entry.role = s->role, entry.layer = s->layer, entry.type = s->type, entry.n_dims = s->n_dims;
        memcpy(entry.dims, s->dims, sizeof entry.dims);
        entry.bytes = s->bytes;
        memcpy(at, &entry, sizeof entry);
        at += sizeof entry;
        memcpy(at, s->name, strlen(s->name) + 1);
        at += strlen(s->name) + 1;
    }
    m->fingerprint = ds4_hash64(text, bytes);
    free(text);
    return DS4_OK;
}

static int32_t open_shards(const ds4_model_desc *desc, ds4_model *m, ds4_error *err)
{
    m->shards = calloc((size_t)desc->n_shards, sizeof *m->shards);
    if (!m->shards)
        return ds4_fail(err, DS4_ERR_MEMORY, "no memory for %d shards", desc->n_shards);
    m->n_shards = desc->n_shards;
    for (int32_t i = 0; i < desc->n_shards; i++) {
        const int32_t status = gguf_open(desc->shards[i], &m->shards[i], err);
        if (status)
            return status;
    }
    return DS4_OK;
}

static int32_t bind_slots(const ds4_model_desc *desc, ds4_model *m, ds4_error *err)
{
    const size_t n_slots = (uint32_t)desc->n_slots; /* plan_check saw to its being small and positive */
    size_t name_bytes = 0;
    char *name;

    for (int32_t i = 0; i < desc->n_slots; i++)
        name_bytes += strlen(desc->slots[i].name) + 1;
    m->slots = calloc(n_slots, sizeof *m->slots);
    m->tensors = calloc((size_t)(plan_layers(&m->hparams) + 1) * PLAN_ROLES, sizeof *m->tensors);
    m->names = name = malloc(name_bytes);
    if (!m->slots || !m->tensors || !m->names)
        return ds4_fail(err, DS4_ERR_MEMORY, "no memory for %d slots", desc->n_slots);
    for (int32_t i = 0; i < desc->n_slots; i++) {
        const ds4_slot *plan = &desc->slots[i];
        ds4_slot *found = &m->slots[i];
        const int32_t status = match_slot(desc, i, &m->shards[plan->shard], found, err);
        if (status)
            return status;
        found->name = strcpy(name, plan->name);
        name += strlen(name) + 1;
        m->n_slots = i + 1;
        *model_role(m, found->role, found->layer) =
            (model_tensor){m->shards[found->shard].data + found->offset, found->dims[1] * found->dims[2], found->dims[0],
                           found->bytes, found->type};
    }
    return DS4_OK;
}

/* The divisors are in the file, so they are data to be checked too. */
static int32_t check_divisors(const float *divisors, int32_t n, ds4_error *err)
{
    for (int32_t i = 0; i < n; i++)
        if (!(divisors[i] > 0) || !isfinite(divisors[i]))
            return ds4_fail(err, DS4_ERR_FORMAT, "rope frequency divisor %d is %g, expected a positive number", i,
                            (double)divisors[i]);
    return DS4_OK;
}

static int32_t build_rope(ds4_model *m, ds4_error *err)
{
    const model_tensor *freqs = model_role(m, DS4_ROLE_ROPE_FREQS, -1);
    const int32_t n = m->hparams.rope_dim / 2;
    float *divisors = NULL;
    int32_t status = DS4_OK;
    ds4_hparams plain = m->hparams;
    const int local = m->hparams.decoder && m->decoder.rope_base_local != 0;

    m->inv_freq = malloc((size_t)n * sizeof *m->inv_freq);
    m->inv_freq_compress = m->hparams.dsv4 ? malloc((size_t)n * sizeof *m->inv_freq) : NULL;
    m->inv_freq_local = local ? malloc((size_t)n * sizeof *m->inv_freq) : NULL;
    if (freqs->data)
        divisors = malloc((size_t)n * sizeof *divisors);
    if (!m->inv_freq || (m->hparams.dsv4 && !m->inv_freq_compress) || (local && !m->inv_freq_local) || (freqs->data && !divisors)) {
        free(divisors);
        return ds4_fail(err, DS4_ERR_MEMORY, "no memory for %d rope frequencies", n);
    }
    if (divisors) {
        memcpy(divisors, freqs->data, (size_t)n * sizeof *divisors);
        status = check_divisors(divisors, n, err);
    }
    if (m->hparams.dsv4) { /* layers without a ratio know no scaling; the others have a base of their own */
        plain.rope_base = m->dsv4.compress_rope_base;
        rope_table(&plain, NULL, m->inv_freq_compress);
        plain.rope_base = m->hparams.rope_base;
        plain.rope_scaling = DS4_ROPE_SCALING_NONE;
    }
    if (!status)
        rope_table(&plain, divisors, m->inv_freq);
    if (local) {
        plain.rope_base = m->decoder.rope_base_local;
        plain.rope_scaling = DS4_ROPE_SCALING_NONE;
        rope_table(&plain, NULL, m->inv_freq_local);
    }
    free(divisors);
    return status;
}

static const char *table_name(const ds4_model *m, int32_t layer)
{
    for (int32_t i = 0; i < m->n_slots; i++)
        if (m->slots[i].role == DS4_ROLE_ROUTER_HASH && m->slots[i].layer == layer)
            return m->slots[i].name;
    return "router_hash";
}

/* Tables of expert ids are data that operations index with. */
static int32_t check_tables(const ds4_model *m, ds4_error *err)
{
    for (int32_t layer = 0; m->hparams.dsv4 && layer < m->dsv4.n_hash_layer; layer++) {
        const model_tensor *t = model_role(m, DS4_ROLE_ROUTER_HASH, layer);
        for (int64_t i = 0; i < t->rows * t->cols; i++) {
            int32_t expert;
            memcpy(&expert, (const uint8_t *)t->data + i * (int64_t)sizeof expert, sizeof expert);
            if (expert < 0 || expert >= m->dsv4.n_expert)
                return ds4_fail(err, DS4_ERR_FORMAT, "%s: token %" PRId64 " is routed to expert %d, expected 0..%d",
                                table_name(m, layer), i / t->cols, expert, m->dsv4.n_expert - 1);
        }
    }
    return DS4_OK;
}

int32_t ds4_bind_plan_check(const ds4_model_desc *desc, ds4_error *err) { return plan_check(desc, err); }

int32_t ds4_model_open(const ds4_model_desc *desc, ds4_model **out, ds4_error *err)
{
    ds4_error local;
    ds4_model *m;
    int32_t status;

    if (!err)
        err = &local;
    if (!out)
        return ds4_fail(err, DS4_ERR_ARG, "no place for the model");
    *out = NULL;
    status = plan_check(desc, err);
    if (status)
        return status;
    m = calloc(1, sizeof *m);
    if (!m)
        return ds4_fail(err, DS4_ERR_MEMORY, "no memory for a model");
    status = copy_hparams(m, &desc->hparams, err);
    if (!status)
        status = open_shards(desc, m, err);
    if (!status)
        status = bind_slots(desc, m, err);
    if (!status)
        status = build_rope(m, err);
    if (!status)
        status = check_tables(m, err);
    if (!status)
        status = fingerprint(m, err);
    if (status) {
        ds4_model_free(m);
        return status;
    }
    *out = m;
    return ds4_ok(err);
}

void ds4_model_free(ds4_model *m)
{
    if (!m)
        return;
    for (int32_t i = 0; i < m->n_shards; i++)
        gguf_close(&m->shards[i]);
    free(m->shards);
    free(m->slots);
    free(m->names);
    free(m->tensors);
    free(m->inv_freq);
    free(m->inv_freq_compress);
    free(m->inv_freq_local);
    free(m->arrays);
    free(m);
}

int32_t ds4_model_slots(const ds4_model *m, const ds4_slot **slots)
{
    *slots = m->slots;
    return m->n_slots;
}

uint64_t ds4_model_active_bytes(const ds4_model *m)
{
    const ds4_hparams *h = &m->hparams;
    const model_tensor *head = model_role(m, model_tied(m) ? DS4_ROLE_TOKEN_EMBD : DS4_ROLE_OUTPUT, -1);
    const uint64_t experts = (uint64_t)(h->dsv4 ? h->dsv4->n_expert : h->decoder ? h->decoder->n_expert : 0);
    const uint64_t used = (uint64_t)(h->dsv4 ? h->dsv4->n_expert_used : h->decoder ? h->decoder->n_expert_used : 0);
    uint64_t bytes = head->bytes;

    for (int32_t i = 0; i < m->n_slots; i++) {
        const ds4_slot *s = &m->slots[i];
        switch (s->role) {
        case DS4_ROLE_TOKEN_EMBD:
        case DS4_ROLE_OUTPUT:
        case DS4_ROLE_ROPE_FREQS:
        case DS4_ROLE_ROUTER_HASH: break; /* counted, or a row of it is read */
        case DS4_ROLE_EXPERTS_GATE:
        case DS4_ROLE_EXPERTS_UP:
        case DS4_ROLE_EXPERTS_DOWN:
            if (s->layer < h->n_layer)
                bytes += s->bytes / experts * used; /* a plan has such slots only where there are experts */
            break;
        default: bytes += s->layer < h->n_layer ? s->bytes : 0; break; /* a block that drafts is not plain decoding */
        }
    }
    return bytes;
}

int32_t ds4_model_warm(ds4_model *m, ds4_progress_fn progress, void *user, ds4_error *err)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t done = 0, total = 0;
    volatile uint8_t sink = 0; /* keeps the reads */

    for (int32_t i = 0; i < m->n_shards; i++)
        total += m->shards[i].bytes - m->shards[i].data_offset;
    for (int32_t i = 0; i < m->n_shards; i++) {
        const gguf_file *f = &m->shards[i];
        for (uint64_t at = f->data_offset; at < f->bytes;) {
            const uint64_t end = f->bytes - at > WARM_PIECE ? at + WARM_PIECE : f->bytes;
            const uint64_t first_page = at / page * page;
            madvise((void *)(uintptr_t)(f->data + first_page), (size_t)(end - first_page), MADV_WILLNEED);
            for (uint64_t p = at; p < end; p += page)
                sink = (uint8_t)(sink ^ f->data[p]);
            sink = (uint8_t)(sink ^ f->data[end - 1]); /* pages are counted from `at`, which need not begin one */
            done += end - at;
            at = end;
            if (progress && progress(done, total, user))
                return ds4_fail(err, DS4_ERR_CANCELLED, "warming stopped after %" PRIu64 " of %" PRIu64 " bytes", done,
                                total);
        }
    }
    return ds4_ok(err);
}
