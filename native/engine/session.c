/* session.c - creating a session, and what may be done to a bank between steps. */
#include "native/engine/session.h"

#include "native/bridge/status.h"
#include "native/engine/checked.h"
#include "native/quant/quant.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define MAX_BANKS 1024
#define MAX_CONTEXT (1 << 24)
#define MAX_ROWS 65536
#define MAX_THREADS 256
#define MAX_CACHE_LAYERS 1024 /* what plan_check lets through */

static int is_kv_type(int32_t type) { return type == DS4_TYPE_F32 || type == DS4_TYPE_F16 || type == DS4_TYPE_Q8_0; }

/* The cache of a session. It has a layer for the block that drafts, whether the session drafts or not: ratios [n_layer + 1]
 * is given its 0, and the others. */
static ds4_cache_desc cache_of(const ds4_hparams *h, int32_t kv_type, int32_t n_banks, int32_t n_ctx, int32_t max_rows,
                               int32_t *ratios)
{
    ds4_cache_desc d = {.type = kv_type, .n_banks = n_banks, .n_ctx = n_ctx, .n_layer = h->n_layer, .n_head_kv = h->n_head_kv,
                        .head_dim = h->head_dim};

    if (h->family == DS4_FAMILY_DEEPSEEK4 && h->dsv4) {
        d.window = h->sliding_window;
        d.rewind = DS4_STEPS_IN_FLIGHT * max_rows;
        d.index_dim = h->dsv4->index_dim;
        d.rope_dim = h->rope_dim;
        d.n_layer += h->dsv4->n_mtp;
        d.carry = h->dsv4->n_mtp ? h->dsv4->hc_count * h->d_model : 0;
        for (int32_t i = 0; i < d.n_layer; i++)
            ratios[i] = i < h->n_layer ? h->dsv4->ratios[i] : 0;
        d.ratios = ratios;
    }
    return d;
}

static int is_shape(const ds4_hparams *h)
{
    return h && h->n_layer >= 1 && h->n_layer <= MAX_CACHE_LAYERS && h->n_head_kv >= 1 && h->head_dim >= 1 &&
           (h->family != DS4_FAMILY_DEEPSEEK4 || (h->dsv4 && h->dsv4->ratios && h->dsv4->n_ratios == h->n_layer && (h->dsv4->n_mtp | 1) == 1));
}

/* Of compressed rows, so many make one position: the sum over the layers in 128ths, as every ratio divides 128. */
static uint64_t latent_bytes_per_position(const ds4_hparams *h, int32_t kv_type)
{
    const uint64_t row = ds4_row_bytes(kv_type, h->head_dim), index = ds4_row_bytes(kv_type, h->dsv4->index_dim);
    uint64_t parts = 0;

    for (int32_t i = 0; i < h->n_layer; i++)
        parts += h->dsv4->ratios[i] == 4 ? 32 * (row + index) : h->dsv4->ratios[i] == 128 ? row : 0;
    return row && index ? (parts + 127) / 128 : 0;
}

uint64_t ds4_kv_bytes_per_position(const ds4_hparams *h, int32_t kv_type)
{
    uint64_t bytes;

    if (!is_shape(h) || !is_kv_type(kv_type))
        return 0;
    if (h->family == DS4_FAMILY_DEEPSEEK4)
        return latent_bytes_per_position(h, kv_type);
    bytes = ds4_row_bytes(kv_type, h->head_dim);
    if (!checked_mul(bytes, 2 * (uint64_t)h->n_layer, &bytes) || !checked_mul(bytes, (uint64_t)h->n_head_kv, &bytes))
        return 0;
    return bytes;
}

uint64_t ds4_bank_bytes(const ds4_hparams *h, int32_t kv_type, int32_t n_ctx, int32_t max_rows)
{
    uint64_t bytes;

    if (!is_shape(h) || !is_kv_type(kv_type) || n_ctx < 1 || n_ctx > MAX_CONTEXT || max_rows < 1 || max_rows > MAX_ROWS)
        return 0;
    if (h->family == DS4_FAMILY_DEEPSEEK4) {
        int32_t ratios[MAX_CACHE_LAYERS + 1];
        const ds4_cache_desc desc = cache_of(h, kv_type, 1, n_ctx, max_rows, ratios);
        return ds4_latent_bank_bytes(&desc);
    }
    bytes = ds4_kv_bytes_per_position(h, kv_type);
    return checked_mul(bytes, (uint64_t)n_ctx, &bytes) ? bytes : 0;
}

static int32_t check_range(const char *name, int32_t value, int32_t low, int32_t high, ds4_error *err)
{
    if (value >= low && value <= high)
        return DS4_OK;
    return ds4_fail(err, DS4_ERR_ARG, "session.%s is %d, expected %d..%d", name, value, low, high);
}

/* The points that a session imitates: those chosen, or all that its family was trained with when it ships. */
static int32_t rounding_of(const ds4_hparams *h, const ds4_session_desc *d)
{
    if (h->family != DS4_FAMILY_DEEPSEEK4)
        return 0;
    if (d->rounding & DS4_ROUNDING_CHOSEN)
        return d->rounding & ~DS4_ROUNDING_CHOSEN;
    return d->numeric == DS4_NUMERIC_SHIP ? DS4_ROUNDING_KV_FP8 | DS4_ROUNDING_INDEX_FP4 : 0;
}

/* Groups of 64 and 32, and a transform of 2^k elements. */
static int32_t check_rounding(const ds4_hparams *h, int32_t rounding, ds4_error *err)
{
    if (rounding & DS4_ROUNDING_KV_FP8 && (h->head_dim - h->rope_dim) % 64)
        return ds4_fail(err, DS4_ERR_UNSUPPORTED, "rounding rows to FP8 needs a multiple of 64 dims that do not rotate, found"
                        " %d", h->head_dim - h->rope_dim);
    if (rounding & DS4_ROUNDING_INDEX_FP4 && (h->dsv4->index_dim < 32 || h->dsv4->index_dim & (h->dsv4->index_dim - 1)))
        return ds4_fail(err, DS4_ERR_UNSUPPORTED, "rounding the indexer to FP4 needs a width of 32, 64, 128, ..., found %d",
                        h->dsv4->index_dim);
    return DS4_OK;
}

static int32_t check_desc(const ds4_hparams *h, const ds4_session_desc *d, ds4_error *err)
{
    int32_t bad = 0;
    uint64_t bytes;

#define RANGE(field, low, high) (bad = bad ? bad : check_range(#field, d->field, low, high, err))
    RANGE(backend, DS4_BACKEND_CPU, DS4_BACKEND_NULL);
    RANGE(numeric, DS4_NUMERIC_SHIP, DS4_NUMERIC_FLOAT);
    RANGE(n_banks, 1, MAX_BANKS);
    RANGE(n_ctx, 1, MAX_CONTEXT);
    RANGE(max_rows, 1, MAX_ROWS);
    RANGE(max_out, d->n_banks, MAX_ROWS);
    RANGE(n_threads, 1, MAX_THREADS);
    RANGE(flags, 0, DS4_SESSION_HIDDEN | DS4_SESSION_DRAFT);
    RANGE(rounding, 0, DS4_ROUNDING_CHOSEN | DS4_ROUNDING_KV_FP8 | DS4_ROUNDING_INDEX_FP4);
#undef RANGE
    if (bad)
        return bad;
    if (d->flags & DS4_SESSION_DRAFT && !(h->dsv4 && h->dsv4->n_mtp))
        return ds4_fail(err, DS4_ERR_UNSUPPORTED, "session.flags ask for drafts, and the model has no block that drafts");
    if (!is_kv_type(d->kv_type))
        return ds4_fail(err, DS4_ERR_UNSUPPORTED, "session.kv_type is %d, expected %d (F32), %d (F16) or %d (Q8_0)",
                        d->kv_type, DS4_TYPE_F32, DS4_TYPE_F16, DS4_TYPE_Q8_0);
    if (h->head_dim % ds4_block_elements(d->kv_type) || (h->dsv4 && h->dsv4->index_dim % ds4_block_elements(d->kv_type)))
        return ds4_fail(err, DS4_ERR_UNSUPPORTED, "a KV cache of type %d needs heads of a multiple of %d, they have %d",
                        d->kv_type, ds4_block_elements(d->kv_type), h->head_dim);
    bad = check_rounding(h, rounding_of(h, d), err);
    if (bad)
        return bad;
    bytes = ds4_bank_bytes(h, d->kv_type, d->n_ctx, d->max_rows);
    if (bytes == 0 || !checked_mul(bytes, (uint64_t)d->n_banks, &bytes) || bytes > PTRDIFF_MAX)
        return ds4_fail(err, DS4_ERR_MEMORY, "a KV cache of %d banks of %d positions does not fit an address space",
                        d->n_banks, d->n_ctx);
    return DS4_OK;
}

static int32_t create_backend(ds4_session *s, ds4_error *err)
{
    const ds4_backend_desc desc = {s->desc.n_threads, s->desc.numeric, NULL};

    switch (s->desc.backend) {
    case DS4_BACKEND_CPU: s->be = ds4_cpu_backend_create(&desc, err); break;
    case DS4_BACKEND_GUARD: s->be = ds4_guard_backend_create(&desc, err); break;
    default: s->be = ds4_null_backend_create(&desc, err); break;
    }
    if (!s->be)
        return err->status ? err->status : ds4_fail(err, DS4_ERR_MEMORY, "backend %d was not created", s->desc.backend);
    s->ops = ds4_backend_ops(s->be);
    return DS4_OK;
}

static int32_t create_cache(ds4_session *s, ds4_error *err)
{
    const ds4_hparams *h = &s->model->hparams;
    const ds4_session_desc *d = &s->desc;
    int32_t ratios[MAX_CACHE_LAYERS + 1];
    ds4_cache_desc desc = cache_of(h, d->kv_type, d->n_banks, d->n_ctx, d->max_rows, ratios);

    desc.rounding = rounding_of(h, d);
    s->rewind = desc.rewind;
    s->fwd.cache = s->ops->cache_create(s->be, &desc);
    if (!s->fwd.cache)
        return ds4_fail(err, DS4_ERR_MEMORY, "no memory for a KV cache of %d banks of %d positions, %" PRIu64 " bytes each",
                        d->n_banks, d->n_ctx, ds4_bank_bytes(h, d->kv_type, d->n_ctx, d->max_rows));
    return DS4_OK;
}

static int32_t create_banks(ds4_session *s, ds4_error *err)
{
    const size_t n_ctx = (size_t)s->desc.n_ctx, n_banks = (size_t)s->desc.n_banks;
    void *map;

    s->histories_bytes = n_banks * n_ctx * sizeof *s->histories; /* < 2^36, see check_desc */
    map = mmap(NULL, s->histories_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    s->histories = map == MAP_FAILED ? NULL : map;
    s->banks = calloc(n_banks, sizeof *s->banks);
    if (!s->histories || !s->banks)
        return ds4_fail(err, DS4_ERR_MEMORY, "no memory for the tokens of %d banks of %d positions", s->desc.n_banks,
                        s->desc.n_ctx);
    for (size_t i = 0; i < n_banks; i++) {
        const int32_t status = sampling_create(&(ds4_sampler){.top_p = 1, .repetition_penalty = 1}, &s->banks[i].sampling, err);
        if (status)
            return status;
        s->banks[i].history = s->histories + i * n_ctx;
    }
    return DS4_OK;
}

int32_t ds4_session_create(ds4_model *model, const ds4_session_desc *desc, ds4_session **out, ds4_error *err)
{
    ds4_error local;
    ds4_session *s;
    int32_t status;

    if (!err)
        err = &local;
    if (!model || !desc || !out)
        return ds4_fail(err, DS4_ERR_ARG, "model, desc and out are all needed");
    *out = NULL;
    status = check_desc(&model->hparams, desc, err);
    if (status)
        return status;
    s = calloc(1, sizeof *s);
    if (!s)
        return ds4_fail(err, DS4_ERR_MEMORY, "no memory for a session");
    err->status = DS4_OK;
    s->model = model;
    s->desc = *desc;
    if (s->desc.max_out > s->desc.max_rows)
        s->desc.max_out = s->desc.max_rows;

    status = create_backend(s, err);
    if (!status)
        status = create_cache(s, err);
    if (!status)
        status = create_banks(s, err);
    if (!status)
        status = step_sets_create(s, err);
    if (!status) {
        s->fwd.be = s->be;
        s->fwd.ops = s->ops;
        s->fwd.max_rows = s->desc.max_rows;
        s->fwd.max_out = s->desc.max_out;
        s->fwd.n_ctx = s->desc.n_ctx;
        s->fwd.hidden = (s->desc.flags & DS4_SESSION_HIDDEN) != 0;
        s->fwd.draft = (s->desc.flags & DS4_SESSION_DRAFT) != 0;
        status = forward_create(&s->fwd, model, err);
    }
    if (status) {
        ds4_session_free(s);
        return status;
    }
    *out = s;
    return ds4_ok(err);
}

void ds4_session_free(ds4_session *s)
{
    if (!s)
        return;
    if (s->be) {
        if (s->last_waited < s->last_ticket)
            s->ops->run_cancel(s->be);
        while (s->last_waited < s->last_ticket) {
            s->ops->wait(s->be, NULL, NULL);
            s->last_waited++;
        }
        for (int kind = 0; kind < FORWARD_KINDS; kind++)
            for (int i = 0; i < MAX_BUCKETS; i++)
                if (s->programs[kind][i])
                    s->ops->program_free(s->be, s->programs[kind][i]);
        forward_free(&s->fwd);
        if (s->fwd.cache)
            s->ops->cache_free(s->be, s->fwd.cache);
        step_sets_free(s);
        s->ops->backend_free(s->be);
    }
    for (int32_t i = 0; s->banks && i < s->desc.n_banks; i++) {
        sampling_drop(s->banks[i].sampling);
        mask_drop(s->banks[i].mask);
    }
    free(s->banks);
    if (s->histories)
        munmap(s->histories, s->histories_bytes);
    free(s);
}

void ds4_session_cancel(ds4_session *s) { s->ops->run_cancel(s->be); }

int32_t session_bank_check(const ds4_session *s, int32_t bank, ds4_error *err)
{
    if (bank >= 0 && bank < s->desc.n_banks)
        return DS4_OK;
    return ds4_fail(err, DS4_ERR_ARG, "bank is %d, expected 0..%d", bank, s->desc.n_banks - 1);
}

int32_t session_bank_idle(const ds4_session *s, int32_t bank, ds4_error *err)
{
    const int32_t status = session_bank_check(s, bank, err);

    if (status || !s->banks[bank].open)
        return status;
    return ds4_fail(err, DS4_ERR_BUSY, "bank %d is used by %d open ticket(s)", bank, s->banks[bank].open);
}

int32_t ds4_bank_length(const ds4_session *s, int32_t bank)
{
    return session_bank_check(s, bank, NULL) ? -1 : s->banks[bank].length;
}

static int32_t check_length(const ds4_session *s, int32_t bank, int32_t length, ds4_error *err)
{
    if (length >= 0 && length <= s->banks[bank].length)
        return DS4_OK;
    return ds4_fail(err, DS4_ERR_ARG, "length is %d, expected 0..%d, the length of bank %d", length, s->banks[bank].length,
                    bank);
}

int32_t ds4_bank_rewind_floor(const ds4_session *s, int32_t bank)
{
    return session_bank_check(s, bank, NULL) ? -1 : s->banks[bank].floor;
}

/* That the first `length` positions of the bank can be had exactly. */
static int32_t check_rewind(const ds4_session *s, int32_t bank, int32_t length, ds4_error *err)
{
    const int32_t status = check_length(s, bank, length, err);

    if (status || length == 0 || length >= s->banks[bank].floor)
        return status;
    return ds4_fail(err, DS4_ERR_REWIND, "bank %d of %d positions cannot go back to %d: the least that it can is %d, or 0", bank,
                    s->banks[bank].length, length, s->banks[bank].floor);
}

int32_t ds4_bank_truncate(ds4_session *s, int32_t bank, int32_t length, ds4_error *err)
{
    int32_t status = session_bank_idle(s, bank, err);

    if (!status)
        status = check_rewind(s, bank, length, err);
    if (status)
        return status;
    s->ops->cache_release(s->be, s->fwd.cache, bank, length);
    s->banks[bank].length = length;
    if (length == 0)
        s->banks[bank].floor = 0;
    return ds4_ok(err);
}

int32_t ds4_bank_copy(ds4_session *s, int32_t from, int32_t to, int32_t length, ds4_error *err)
{
    int32_t status = session_bank_idle(s, from, err);

    if (!status)
        status = session_bank_idle(s, to, err);
    if (!status)
        status = check_rewind(s, from, length, err);
    if (status)
        return status;
    if (from == to)
        return ds4_bank_truncate(s, to, length, err);
    s->ops->cache_release(s->be, s->fwd.cache, to, length);
    s->ops->cache_copy(s->be, s->fwd.cache, from, to, length);
    memcpy(s->banks[to].history, s->banks[from].history, (size_t)length * sizeof(int32_t));
    s->banks[to].length = length;
    s->banks[to].floor = length ? s->banks[from].floor : 0;
    return ds4_ok(err);
}
