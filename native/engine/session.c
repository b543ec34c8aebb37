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

static int is_kv_type(int32_t type) { return type == DS4_TYPE_F32 || type == DS4_TYPE_F16 || type == DS4_TYPE_Q8_0; }

uint64_t ds4_kv_bytes_per_position(const ds4_hparams *h, int32_t kv_type)
{
    uint64_t bytes;

    if (!h || h->n_layer < 1 || h->n_head_kv < 1 || h->head_dim < 1 || !is_kv_type(kv_type))
        return 0;
    bytes = ds4_row_bytes(kv_type, h->head_dim);
    if (!checked_mul(bytes, 2 * (uint64_t)h->n_layer, &bytes) || !checked_mul(bytes, (uint64_t)h->n_head_kv, &bytes))
        return 0;
    return bytes;
}

static int32_t check_range(const char *name, int32_t value, int32_t low, int32_t high, ds4_error *err)
{
    if (value >= low && value <= high)
        return DS4_OK;
    return ds4_fail(err, DS4_ERR_ARG, "session.%s is %d, expected %d..%d", name, value, low, high);
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
#undef RANGE
    if (bad)
        return bad;
    if (!is_kv_type(d->kv_type))
        return ds4_fail(err, DS4_ERR_UNSUPPORTED, "session.kv_type is %d, expected %d (F32), %d (F16) or %d (Q8_0)",
                        d->kv_type, DS4_TYPE_F32, DS4_TYPE_F16, DS4_TYPE_Q8_0);
    bytes = ds4_kv_bytes_per_position(h, d->kv_type);
    if (bytes == 0)
        return ds4_fail(err, DS4_ERR_UNSUPPORTED, "a KV cache of type %d needs heads of a multiple of %d, they have %d",
                        d->kv_type, ds4_block_elements(d->kv_type), h->head_dim);
    if (!checked_mul(bytes, (uint64_t)d->n_ctx, &bytes) || !checked_mul(bytes, (uint64_t)d->n_banks, &bytes) ||
        bytes > PTRDIFF_MAX)
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
    const ds4_cache_desc desc = {d->kv_type, d->n_banks, d->n_ctx, h->n_layer, h->n_head_kv, h->head_dim};

    s->fwd.cache = s->ops->cache_create(s->be, &desc);
    if (!s->fwd.cache)
        return ds4_fail(err, DS4_ERR_MEMORY, "no memory for a KV cache of %d banks of %d positions of %" PRIu64 " bytes",
                        d->n_banks, d->n_ctx, ds4_kv_bytes_per_position(h, d->kv_type));
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
        for (int i = 0; i < MAX_BUCKETS; i++)
            if (s->programs[i])
                s->ops->program_free(s->be, s->programs[i]);
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

int32_t ds4_bank_truncate(ds4_session *s, int32_t bank, int32_t length, ds4_error *err)
{
    int32_t status = session_bank_idle(s, bank, err);

    if (!status)
        status = check_length(s, bank, length, err);
    if (status)
        return status;
    s->ops->cache_release(s->be, s->fwd.cache, bank, length);
    s->banks[bank].length = length;
    return ds4_ok(err);
}

int32_t ds4_bank_copy(ds4_session *s, int32_t from, int32_t to, int32_t length, ds4_error *err)
{
    int32_t status = session_bank_idle(s, from, err);

    if (!status)
        status = session_bank_idle(s, to, err);
    if (!status)
        status = check_length(s, from, length, err);
    if (status)
        return status;
    if (from == to)
        return ds4_bank_truncate(s, to, length, err);
    s->ops->cache_release(s->be, s->fwd.cache, to, length);
    s->ops->cache_copy(s->be, s->fwd.cache, from, to, length);
    memcpy(s->banks[to].history, s->banks[from].history, (size_t)length * sizeof(int32_t));
    s->banks[to].length = length;
    return ds4_ok(err);
}
