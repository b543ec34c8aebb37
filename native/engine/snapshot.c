#include "native/engine/snapshot.h"

#include "native/bridge/status.h"
#include "native/engine/checked.h"
#include "native/engine/hash.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char magic[8] = {'D', 'S', '4', 'S', 'N', 'A', 'P', '\n'};

/* The header as it lies in the bytes; see snapshot.h. Its members are naturally aligned, so there is no padding. */
typedef struct header {
    char magic[8];
    uint32_t version, header_bytes;
    uint64_t bytes, fingerprint;
    uint32_t family, n_layer, n_head_kv, head_dim, kv_type, n_vocab, n_tokens, zero;
    uint64_t rows_bytes, zero64;
} header;
_Static_assert(sizeof(header) == SNAPSHOT_HEADER_BYTES, "the header is the byte table in snapshot.h");

static uint64_t padded(uint64_t bytes) { return (bytes + 7) / 8 * 8; }

/* Where the rows begin, and what the whole takes. n_tokens is at most 2^32, so only rows_bytes can overflow. */
static uint64_t rows_offset(uint32_t n_tokens) { return padded(sizeof(header) + (uint64_t)n_tokens * sizeof(int32_t)); }

static bool total_bytes(uint32_t n_tokens, uint64_t rows_bytes, uint64_t *total)
{
    return checked_add(rows_offset(n_tokens) + sizeof(uint64_t), rows_bytes, total);
}

static ds4_snapshot *snapshot_alloc(uint64_t bytes, uint32_t n_tokens, uint64_t rows_bytes)
{
    ds4_snapshot *snapshot = malloc(sizeof *snapshot);

    if (!snapshot)
        return NULL;
    *snapshot = (ds4_snapshot){bytes, (int32_t)n_tokens, rows_bytes, bytes <= PTRDIFF_MAX ? malloc((size_t)bytes) : NULL};
    if (!snapshot->data) {
        free(snapshot);
        return NULL;
    }
    return snapshot;
}

/* The header that a snapshot of n_tokens positions of this session has. */
static header header_of(const ds4_session *s, uint32_t n_tokens)
{
    const ds4_hparams *h = &s->model->hparams;
    header head = {.version = SNAPSHOT_VERSION,
                   .header_bytes = sizeof head,
                   .fingerprint = s->model->fingerprint,
                   .family = (uint32_t)h->family,
                   .n_layer = (uint32_t)h->n_layer,
                   .n_head_kv = (uint32_t)h->n_head_kv,
                   .head_dim = (uint32_t)h->head_dim,
                   .kv_type = (uint32_t)s->desc.kv_type,
                   .n_vocab = (uint32_t)h->n_vocab,
                   .n_tokens = n_tokens,
                   .rows_bytes = s->ops->cache_state_bytes(s->be, s->fwd.cache, (int32_t)n_tokens)};
    memcpy(head.magic, magic, sizeof magic);
    return head;
}

int32_t ds4_snapshot_take(ds4_session *s, int32_t bank, ds4_snapshot **out, ds4_error *err)
{
    const int32_t status = session_bank_idle(s, bank, err);
    ds4_snapshot *snapshot;
    uint64_t checksum;
    header head;

    *out = NULL;
    if (status)
        return status;
    const session_bank *b = &s->banks[bank];
    const uint32_t n = (uint32_t)b->length;
    const size_t tokens_end = sizeof head + n * sizeof(int32_t);
    head = header_of(s, n);
    if (!total_bytes(n, head.rows_bytes, &head.bytes) || !(snapshot = snapshot_alloc(head.bytes, n, head.rows_bytes)))
        return ds4_fail(err, DS4_ERR_MEMORY, "no memory for a snapshot of %u positions, %" PRIu64 " bytes of rows", n,
                        head.rows_bytes);
    memcpy(snapshot->data, &head, sizeof head);
    memcpy(snapshot->data + sizeof head, b->history, n * sizeof(int32_t));
    memset(snapshot->data + tokens_end, 0, (size_t)rows_offset(n) - tokens_end);
    s->ops->cache_save(s->be, s->fwd.cache, bank, b->length, snapshot->data + rows_offset(n));
    checksum = ds4_hash64(snapshot->data, (size_t)head.bytes - sizeof checksum);
    memcpy(snapshot->data + head.bytes - sizeof checksum, &checksum, sizeof checksum);
    *out = snapshot;
    return ds4_ok(err);
}

int32_t ds4_snapshot_load(const void *data, uint64_t bytes, ds4_snapshot **out, ds4_error *err)
{
    ds4_snapshot *snapshot;
    uint64_t expected, checksum, found;
    header head;

    if (!data || !out)
        return ds4_fail(err, DS4_ERR_ARG, "data and out are both needed");
    *out = NULL;
    if (bytes < sizeof head + sizeof checksum)
        return ds4_fail(err, DS4_ERR_FORMAT, "a snapshot has %zu bytes or more, found %" PRIu64,
                        sizeof head + sizeof checksum, bytes);
    memcpy(&head, data, sizeof head);
    if (memcmp(head.magic, magic, sizeof magic))
        return ds4_fail(err, DS4_ERR_FORMAT, "these bytes are not a snapshot: the magic is wrong");
    if (head.version != SNAPSHOT_VERSION)
        return ds4_fail(err, DS4_ERR_UNSUPPORTED, "snapshot version is %u, expected %d", head.version, SNAPSHOT_VERSION);
    if (head.header_bytes != sizeof head)
        return ds4_fail(err, DS4_ERR_FORMAT, "snapshot header has %u bytes, expected %zu", head.header_bytes, sizeof head);
    if (head.n_tokens > INT32_MAX || !total_bytes(head.n_tokens, head.rows_bytes, &expected) || expected != head.bytes ||
        expected != bytes)
        return ds4_fail(err, DS4_ERR_FORMAT, "a snapshot of %u positions and %" PRIu64 " bytes of rows says it has %" PRIu64
                        " bytes, found %" PRIu64, head.n_tokens, head.rows_bytes, head.bytes, bytes);
    memcpy(&found, (const uint8_t *)data + bytes - sizeof found, sizeof found);
    checksum = ds4_hash64(data, (size_t)bytes - sizeof found);
    if (checksum != found)
        return ds4_fail(err, DS4_ERR_FORMAT, "snapshot checksum is %016" PRIx64 ", its bytes give %016" PRIx64, found,
                        checksum);
    if (head.zero || head.zero64)
        return ds4_fail(err, DS4_ERR_FORMAT, "a reserved field of the snapshot header is not zero");
    snapshot = snapshot_alloc(bytes, head.n_tokens, head.rows_bytes);
    if (!snapshot)
        return ds4_fail(err, DS4_ERR_MEMORY, "no memory for a snapshot of %" PRIu64 " bytes", bytes);
    memcpy(snapshot->data, data, (size_t)bytes);
    *out = snapshot;
    return ds4_ok(err);
}

/* Compares what must be equal; the first difference is named. */
static int32_t match_shape(const header *expected, const header *found, ds4_error *err)
{
    const struct { const char *name; uint64_t expected, found; } fields[] = {
        {"family", expected->family, found->family},
        {"layers", expected->n_layer, found->n_layer},
        {"KV heads", expected->n_head_kv, found->n_head_kv},
        {"head dim", expected->head_dim, found->head_dim},
        {"KV type", expected->kv_type, found->kv_type},
        {"vocabulary", expected->n_vocab, found->n_vocab},
        {"bytes of rows", expected->rows_bytes, found->rows_bytes},
        {"model fingerprint", expected->fingerprint, found->fingerprint},
    };

    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        if (fields[i].expected != fields[i].found)
            return ds4_fail(err, DS4_ERR_MISMATCH, "the snapshot is of another model or session: its %s is %" PRIu64
                            ", expected %" PRIu64, fields[i].name, fields[i].found, fields[i].expected);
    return DS4_OK;
}

int32_t ds4_snapshot_restore(ds4_session *s, int32_t bank, const ds4_snapshot *snapshot, ds4_error *err)
{
    int32_t status = session_bank_idle(s, bank, err);
    header expected, found;

    if (status)
        return status;
    if (!snapshot)
        return ds4_fail(err, DS4_ERR_ARG, "no snapshot");
    if (snapshot->n_tokens > s->desc.n_ctx)
        return ds4_fail(err, DS4_ERR_CONTEXT, "the snapshot holds %d positions, the context of a bank is %d",
                        snapshot->n_tokens, s->desc.n_ctx);
    memcpy(&found, snapshot->data, sizeof found);
    expected = header_of(s, (uint32_t)snapshot->n_tokens);
    status = match_shape(&expected, &found, err);
    if (status)
        return status;
    const int32_t *tokens = (const int32_t *)(const void *)(snapshot->data + sizeof found);
    for (int32_t i = 0; i < snapshot->n_tokens; i++)
        if (tokens[i] < 0 || tokens[i] >= s->model->hparams.n_vocab)
            return ds4_fail(err, DS4_ERR_FORMAT, "token %d of the snapshot is %d, expected 0..%d", i, tokens[i],
                            s->model->hparams.n_vocab - 1);
    s->ops->cache_release(s->be, s->fwd.cache, bank, snapshot->n_tokens);
    s->ops->cache_load(s->be, s->fwd.cache, bank, snapshot->n_tokens, snapshot->data + rows_offset((uint32_t)snapshot->n_tokens));
    memcpy(s->banks[bank].history, tokens, (size_t)snapshot->n_tokens * sizeof *tokens);
    s->banks[bank].length = snapshot->n_tokens;
    s->banks[bank].floor = s->rewind ? snapshot->n_tokens : 0; /* it holds what later positions need, and no more */
    return ds4_ok(err);
}

const void *ds4_snapshot_data(const ds4_snapshot *snapshot, uint64_t *bytes)
{
    if (bytes)
        *bytes = snapshot->bytes;
    return snapshot->data;
}

int32_t ds4_snapshot_length(const ds4_snapshot *snapshot) { return snapshot->n_tokens; }

void ds4_snapshot_free(ds4_snapshot *snapshot)
{
    if (snapshot)
        free(snapshot->data);
    free(snapshot);
}
