/* engine_snapshot_test.c - a bank as bytes: it comes back whole, or not at all. */
#include "native/engine/snapshot.h"
#include "native/tests/tiny_engine.h"

#include "native/engine/hash.h"

#define N 30
#define VOCAB 97

static int32_t tokens[N];
static float expected[N * VOCAB], found[N * VOCAB];

static ds4_snapshot *take(rig *r, int32_t bank)
{
    ds4_snapshot *snapshot;
    REQUIRE(!ds4_snapshot_take(r->session, bank, &snapshot, &r->err), "%s", r->err.message);
    return snapshot;
}

static void a_restored_bank_continues_to_the_bit(void)
{
    const int32_t kv_types[] = {DS4_TYPE_F32, DS4_TYPE_F16, DS4_TYPE_Q8_0};

    rig_tokens(tokens, N, VOCAB, 5);
    for (int i = 0; i < 3; i++) {
        ds4_session_desc desc = rig_desc();
        ds4_snapshot *snapshot, *loaded;
        uint64_t bytes;
        const void *data;
        rig r, other;

        desc.kv_type = kv_types[i];
        r = rig_open(tiny_default(), desc);
        desc.n_banks = 2, desc.n_ctx = 61, desc.max_rows = 16; /* may differ */
        other = rig_open(tiny_default(), desc);
        rig_feed(&r, 0, tokens, 21, 8, NULL);
        snapshot = take(&r, 0);
        rig_feed(&r, 0, tokens + 21, N - 21, 9, expected);
        data = ds4_snapshot_data(snapshot, &bytes);
        CHECK(ds4_snapshot_length(snapshot) == 21, "%d", ds4_snapshot_length(snapshot));
        REQUIRE(!ds4_snapshot_load(data, bytes, &loaded, &r.err), "%s", r.err.message);
        rig_feed(&other, 1, tokens + 3, 27, 16, NULL); /* what the bank held is gone */
        REQUIRE(!ds4_snapshot_restore(other.session, 1, loaded, &r.err), "%s", r.err.message);
        CHECK(ds4_bank_length(other.session, 1) == 21, "%d", ds4_bank_length(other.session, 1));
        rig_feed(&other, 1, tokens + 21, N - 21, 4, found);
        CHECK(!memcmp(expected, found, sizeof(float) * VOCAB * (N - 21)), "KV type %d: it continues otherwise", kv_types[i]);
        ds4_snapshot_free(snapshot);
        snapshot = take(&other, 1);
        ds4_snapshot_free(loaded);
        loaded = take(&r, 0);
        uint64_t n, m;
        const void *p = ds4_snapshot_data(snapshot, &n), *q = ds4_snapshot_data(loaded, &m);
        CHECK(n == m && !memcmp(p, q, n), "KV type %d: the bytes depend on the session", kv_types[i]);
        ds4_snapshot_free(snapshot), ds4_snapshot_free(loaded);
        rig_close(&r), rig_close(&other);
    }
}

static void an_empty_bank_has_a_snapshot_too(void)
{
    rig r = rig_open(tiny_default(), rig_desc());
    ds4_snapshot *snapshot = take(&r, 0);

    rig_feed(&r, 1, tokens, 5, 5, NULL);
    REQUIRE(!ds4_snapshot_restore(r.session, 1, snapshot, &r.err), "%s", r.err.message);
    CHECK(ds4_bank_length(r.session, 1) == 0, "%d", ds4_bank_length(r.session, 1));
    ds4_snapshot_free(snapshot);
    rig_close(&r);
}

static void any_byte_flipped_or_cut_is_refused(void)
{
    ds4_session_desc desc = rig_desc();
    ds4_snapshot *snapshot, *loaded;
    uint8_t *copy;
    uint64_t bytes;
    rig r;

    desc.kv_type = DS4_TYPE_Q8_0;
    r = rig_open(tiny_default(), desc);
    rig_feed(&r, 0, tokens, 7, 7, NULL);
    snapshot = take(&r, 0);
    const void *data = ds4_snapshot_data(snapshot, &bytes);
    for (uint64_t i = 0; i < bytes; i++)
        for (int bit = 0; bit < 8; bit++) {
            copy = malloc(bytes);
            REQUIRE(copy, "memory");
            memcpy(copy, data, bytes);
            copy[i] ^= (uint8_t)(1 << bit);
            const int32_t status = ds4_snapshot_load(copy, bytes, &loaded, &r.err);
            CHECK((status == DS4_ERR_FORMAT || status == DS4_ERR_UNSUPPORTED) && !loaded && r.err.message[0],
                  "bit %d of byte %llu: %d %s", bit, (unsigned long long)i, status, r.err.message);
            free(copy);
        }
    for (uint64_t n = 0; n < bytes; n++) {
        copy = malloc(n ? n : 1); /* exactly as long, so that a sanitizer sees a read past it */
        REQUIRE(copy, "memory");
        memcpy(copy, data, n);
        CHECK(ds4_snapshot_load(copy, n, &loaded, &r.err) == DS4_ERR_FORMAT && !loaded, "%llu of %llu bytes",
              (unsigned long long)n, (unsigned long long)bytes);
        free(copy);
    }
    copy = malloc(bytes + 8);
    REQUIRE(copy, "memory");
    memcpy(copy, data, bytes);
    memset(copy + bytes, 0, 8);
    CHECK(ds4_snapshot_load(copy, bytes + 8, &loaded, &r.err) == DS4_ERR_FORMAT, "%s", r.err.message);
    free(copy);
    ds4_snapshot_free(snapshot);
    rig_close(&r);
}

/* Somebody who can compute a checksum may change anything: each field must hold by itself. */
static void a_wrong_field_under_a_right_checksum_is_refused_before_the_bank_is_touched(void)
{
    rig r = rig_open(tiny_default(), rig_desc());
    ds4_snapshot *snapshot, *loaded = NULL;
    uint64_t bytes;

    rig_feed(&r, 0, tokens, 7, 7, NULL);
    rig_feed(&r, 1, tokens, 5, 5, NULL);
    snapshot = take(&r, 0);
    const void *data = ds4_snapshot_data(snapshot, &bytes);
    uint8_t *copy = malloc(bytes);
    REQUIRE(copy, "memory");
    for (size_t at = 0; at < SNAPSHOT_HEADER_BYTES + 7 * 4; at += 4)
        for (int k = 0; k < 3; k++) {
            const uint32_t value = k == 0 ? 0xffffffffu : k == 1 ? 0x7fffffffu : 98;
            uint64_t sum;
            memcpy(copy, data, bytes);
            memcpy(copy + at, &value, 4);
            sum = ds4_hash64(copy, bytes - 8);
            memcpy(copy + bytes - 8, &sum, 8);
            int32_t status = ds4_snapshot_load(copy, bytes, &loaded, &r.err);
            if (!status)
                status = ds4_snapshot_restore(r.session, 1, loaded, &r.err);
            CHECK(status != DS4_OK && r.err.message[0], "offset %zu, value %x was taken", at, value);
            CHECK(ds4_bank_length(r.session, 1) == 5, "the bank was touched");
            ds4_snapshot_free(loaded);
            loaded = NULL;
        }
    free(copy);
    ds4_snapshot_free(snapshot);
    rig_close(&r);
}

static void a_snapshot_of_another_shape_is_refused_with_the_difference(void)
{
    ds4_session_desc desc = rig_desc();
    tiny_spec spec = tiny_default();
    rig r = rig_open(spec, desc), other;
    ds4_snapshot *snapshot;

    rig_feed(&r, 0, tokens, 20, 20, NULL);
    snapshot = take(&r, 0);
#define REFUSED(want, says)                                                                                         \
    do {                                                                                                            \
        other = rig_open(spec, desc);                                                                               \
        CHECK(ds4_snapshot_restore(other.session, 0, snapshot, &r.err) == want, "%d %s", r.err.status, r.err.message); \
        CHECK(strstr(r.err.message, says), "'%s' does not say '%s'", r.err.message, says);                          \
        CHECK(ds4_bank_length(other.session, 0) == 0, "the bank was touched");                                      \
        rig_close(&other);                                                                                          \
    } while (0)
    desc.n_ctx = 19;
    REFUSED(DS4_ERR_CONTEXT, "holds 20 positions, the context of a bank is 19");
    desc = rig_desc(), desc.kv_type = DS4_TYPE_F16;
    REFUSED(DS4_ERR_MISMATCH, "KV type is 0, expected 1");
    desc = rig_desc(), spec.h.n_layer = 3;
    REFUSED(DS4_ERR_MISMATCH, "layers is 2, expected 3");
    spec = tiny_default(), spec.h.n_head_kv = 4;
    REFUSED(DS4_ERR_MISMATCH, "KV heads is 2, expected 4");
    spec = tiny_default(), spec.type = DS4_TYPE_F16;
    REFUSED(DS4_ERR_MISMATCH, "fingerprint");
    spec = tiny_default(), spec.h.rope_base = 20000;
    REFUSED(DS4_ERR_MISMATCH, "fingerprint");
#undef REFUSED
    ds4_snapshot_free(snapshot);
    rig_close(&r);
}

int main(void)
{
    RUN(a_restored_bank_continues_to_the_bit);
    RUN(an_empty_bank_has_a_snapshot_too);
    RUN(any_byte_flipped_or_cut_is_refused);
    RUN(a_wrong_field_under_a_right_checksum_is_refused_before_the_bank_is_touched);
    RUN(a_snapshot_of_another_shape_is_refused_with_the_difference);
    CHECK_DONE();
}
