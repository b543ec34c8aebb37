/* engine_model_test.c - files and plans that are not what they should be. */
#include "native/engine/gguf.h"
#include "native/engine/hash.h"
#include "native/engine/model.h"
#include "native/tests/tiny_gguf.h"

#include <sys/mman.h>

static int32_t walk(const void *data, size_t bytes, ds4_error *err)
{
    gguf_file file;
    const int32_t status = gguf_walk("image", data, bytes, &file, err);
    gguf_forget(&file);
    return status;
}

/* The bytes end at a page that may not be touched, so that a read past them is a crash and not luck. */
static uint8_t *fence(const void *data, size_t bytes, void **map, size_t *mapped)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), whole = (bytes + page - 1) / page * page;
    uint8_t *base;

    *mapped = whole + page;
    *map = base = mmap(NULL, *mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(base != MAP_FAILED, "mmap");
    REQUIRE(!mprotect(base + whole, page, PROT_NONE), "mprotect");
    return memcpy(base + whole - bytes, data, bytes);
}

static void a_file_cut_anywhere_is_refused_with_the_bytes_that_are_left(void)
{
    tiny_model *m = tiny_build(tiny_default());
    const ds4_slot *last = &m->slots[m->n_slots - 1];
    const size_t end = (size_t)(last->offset + last->bytes);
    ds4_error err;

    CHECK(walk(m->image, m->bytes, &err) == DS4_OK, "%s", err.message);
    for (size_t n = 0; n < end; n += n < m->slots[0].offset ? 1 : 997) {
        void *map;
        size_t mapped;
        const uint8_t *cut = fence(m->image, n, &map, &mapped);
        CHECK(walk(cut, n, &err) == DS4_ERR_FORMAT, "%zu of %zu bytes gave %d %s", n, end, err.status, err.message);
        CHECK(strlen(err.message) > 10, "%zu bytes: '%s'", n, err.message);
        munmap(map, mapped);
    }
    CHECK(walk(m->image, end - 1, &err) == DS4_ERR_FORMAT, "%s", err.message);
    tiny_free(m);
}

static void any_byte_of_the_directory_may_be_wrong_without_harm(void)
{
    tiny_model *m = tiny_build(tiny_default());
    const size_t directory = (size_t)m->slots[0].offset;
    uint64_t state = 7;
    ds4_error err;
    int refused = 0;
    void *map;
    size_t mapped;
    uint8_t *image = fence(m->image, m->bytes, &map, &mapped);

    for (size_t i = 0; i < directory; i++)
        for (int k = 0; k < 4; k++) {
            const uint8_t old = image[i];
            image[i] = k == 0 ? 0xff : k == 1 ? 0 : k == 2 ? (uint8_t)(old ^ 0x80) : (uint8_t)tiny_random(&state);
            refused += walk(image, m->bytes, &err) != DS4_OK;
            image[i] = old;
        }
    CHECK(refused > 1000, "only %d of the changed files were refused", refused);
    CHECK(walk(image, m->bytes, &err) == DS4_OK, "%s", err.message);
    munmap(map, mapped);
    tiny_free(m);
}

/* Writes bytes over a copy of a good image; expects a refusal that says `says`. */
static void expect_refusal(const tiny_model *m, size_t at, const void *bytes, size_t n, const char *says)
{
    uint8_t *image = malloc(m->bytes);
    ds4_error err;

    REQUIRE(image, "memory");
    memcpy(image, m->image, m->bytes);
    memcpy(image + at, bytes, n);
    CHECK(walk(image, m->bytes, &err) == DS4_ERR_FORMAT, "%d %s", err.status, err.message);
    CHECK(strstr(err.message, says), "'%s' does not say '%s'", err.message, says);
    free(image);
}

static size_t find_bytes(const tiny_model *m, const char *text)
{
    for (size_t i = 0; i + strlen(text) <= m->bytes; i++)
        if (!memcmp(m->image + i, text, strlen(text)))
            return i;
    REQUIRE(0, "no '%s' in the image", text);
    return 0;
}

static void a_wrong_header_names_what_was_found(void)
{
    tiny_model *m = tiny_build(tiny_default());
    const uint64_t huge = UINT64_MAX / 2, million = 1000000;
    const uint32_t version1 = 1, swapped = 0x03000000u, alignment = 24, dims9 = 9;
    const size_t norm = find_bytes(m, "output_norm.weight") + strlen("output_norm.weight");

    expect_refusal(m, 0, "GGML", 4, "expected 47 47 55 46");
    expect_refusal(m, 4, &version1, 4, "version is 1");
    expect_refusal(m, 4, &swapped, 4, "big-endian");
    expect_refusal(m, 8, &huge, 8, "tensors are announced");
    expect_refusal(m, 16, &huge, 8, "metadata entries are announced");
    expect_refusal(m, 24, &huge, 8, "are left");
    expect_refusal(m, find_bytes(m, "general.alignment") + 21, &alignment, 4, "alignment is 24");
    expect_refusal(m, norm, &dims9, 4, "has 9 dimensions");
    expect_refusal(m, norm + 4, &huge, 8, "fewer than 2^63 bytes");
    expect_refusal(m, norm + 4, &million, 8, "bytes of data");
    expect_refusal(m, find_bytes(m, "blk.0.attn_k"), "blk.0.attn_q", 12, "two tensors are named");
    tiny_free(m);
}

static void a_product_of_dimensions_that_overflows_is_refused(void)
{
    tiny_model *m = tiny_build(tiny_default());
    const uint64_t dims[2] = {UINT64_C(1) << 33, UINT64_C(1) << 33};

    expect_refusal(m, find_bytes(m, "token_embd.weight") + strlen("token_embd.weight") + 4, dims, sizeof dims,
                   "fewer than 2^63 elements");
    tiny_free(m);
}

static void arrays_nested_without_end_are_refused(void)
{
    uint8_t image[4096] = "GGUF\3";
    const uint64_t one = 1;
    const uint32_t array = 9;
    ds4_error err;
    size_t at = 24;

    memcpy(image + 16, &one, 8);
    at += 8; /* an empty key */
    for (int i = 0; i < 100; i++) {
        memcpy(image + at, &array, 4);
        memcpy(image + at + 4, &array, i ? 0 : 4);
        at += 4;
        if (i)
            memcpy(image + at, &one, 8), at += 8;
    }
    CHECK(walk(image, sizeof image, &err) == DS4_ERR_FORMAT && strstr(err.message, "nest"), "%s", err.message);
}

static void a_path_that_is_no_file_is_an_io_error(void)
{
    gguf_file file;
    ds4_error err;

    CHECK(gguf_open("/nonexistent/x.gguf", &file, &err) == DS4_ERR_IO && strstr(err.message, "/nonexistent/x.gguf"), "%s",
          err.message);
    CHECK(gguf_open("/", &file, &err) == DS4_ERR_IO, "%s", err.message);
}

static void a_model_opens_and_shows_the_slots_as_found(void)
{
    tiny_model *m = tiny_build(tiny_default());
    ds4_model *model;
    const ds4_slot *slots;
    ds4_error err;
    uint64_t matrices = 0;

    tiny_write(m);
    REQUIRE(!ds4_model_open(&m->desc, &model, &err), "%s", err.message);
    CHECK(ds4_model_slots(model, &slots) == m->n_slots, "slots");
    for (int32_t i = 0; i < m->n_slots; i++) {
        CHECK(slots[i].offset == m->slots[i].offset && slots[i].bytes == m->slots[i].bytes &&
                  slots[i].role == m->slots[i].role && slots[i].layer == m->slots[i].layer &&
                  slots[i].type == m->slots[i].type && !strcmp(slots[i].name, m->slots[i].name),
              "slot %d", i);
        matrices += slots[i].role == DS4_ROLE_TOKEN_EMBD ? 0 : slots[i].bytes;
    }
    CHECK(ds4_model_active_bytes(model) == matrices, "active bytes");
    ds4_model_free(model);
    tiny_free(m);
}

static int32_t count_pieces(uint64_t done, uint64_t total, void *user)
{
    int32_t *pieces = user;
    CHECK(done <= total, "done %llu", (unsigned long long)done);
    return ++*pieces == 2;
}

static void warming_reports_progress_and_can_be_stopped(void)
{
    tiny_spec spec = tiny_default();
    tiny_model *m;
    ds4_model *model;
    ds4_error err;
    int32_t pieces = 0;

    spec.h.n_vocab = 100000; /* about 24 MiB each for embedding and head */
    m = tiny_build(spec);
    tiny_write(m);
    REQUIRE(!ds4_model_open(&m->desc, &model, &err), "%s", err.message);
    CHECK(ds4_model_warm(model, count_pieces, &pieces, &err) == DS4_ERR_CANCELLED && pieces == 2, "%d pieces", pieces);
    CHECK(ds4_model_warm(model, NULL, NULL, &err) == DS4_OK, "%s", err.message);
    ds4_model_free(model);
    tiny_free(m);
}

/* Opens with a plan that `change` has touched: the plan check or the open must refuse it and say `says`. */
static void expect_mismatch(tiny_model *m, const char *what, int32_t status, const char *says, int by_check)
{
    ds4_model *model = NULL;
    ds4_error err;
    const int32_t check = ds4_bind_plan_check(&m->desc, &err);

    CHECK(check == (by_check ? status : DS4_OK), "%s: the check said %d %s", what, check, err.message);
    CHECK(ds4_model_open(&m->desc, &model, &err) == status && !model, "%s: %d %s", what, err.status, err.message);
    CHECK(strstr(err.message, says), "%s: '%s' does not say '%s'", what, err.message, says);
    ds4_model_free(model);
}

static void a_plan_that_differs_from_the_file_is_refused_by_slot(void)
{
    tiny_model *m = tiny_build(tiny_default());
    const ds4_slot good = m->slots[4]; /* blk.0.attn_q */

    tiny_write(m);
    REQUIRE(good.role == DS4_ROLE_ATTN_Q, "slot 4 is role %d", good.role);
    m->slots[4].name = "blk.0.attn_query.weight";
    expect_mismatch(m, "name", DS4_ERR_MISMATCH, "no such tensor", 0);
    m->slots[4] = good, m->slots[4].offset += 32;
    expect_mismatch(m, "offset", DS4_ERR_MISMATCH, "offset", 0);
    m->slots[4] = good, m->slots[4].type = DS4_TYPE_F16, m->slots[4].bytes /= 2;
    expect_mismatch(m, "type", DS4_ERR_MISMATCH, "the plan says type 1, the file 0", 0);
    m->slots[4] = good, m->slots[4].n_dims = 3;
    expect_mismatch(m, "dimension count", DS4_ERR_MISMATCH, "3 dimensions, the file 2", 0);
    m->slots[4] = good, m->slots[4].name = "blk.0.attn_k.weight";
    expect_mismatch(m, "another tensor", DS4_ERR_MISMATCH, "dims[1] = 128, the file 64", 0);
    m->slots[4] = good, m->slots[4].bytes -= 4;
    expect_mismatch(m, "bytes", DS4_ERR_MISMATCH, "bytes is", 1);
    m->slots[4] = good, m->slots[4].dims[1] = 127;
    expect_mismatch(m, "dims", DS4_ERR_MISMATCH, "expected [64, 128, 1, 1] for attn_q", 1);
    m->slots[4] = good, m->slots[4].role = DS4_ROLE_OUTPUT_NORM;
    expect_mismatch(m, "a role with a layer", DS4_ERR_ARG, "layer is 0, expected -1..-1", 1);
    m->slots[4] = good, m->slots[4].layer = 2;
    expect_mismatch(m, "layer", DS4_ERR_ARG, "layer is 2, expected 0..1", 1);
    m->slots[4] = good, m->slots[4].layer = 1;
    expect_mismatch(m, "bound twice", DS4_ERR_MISMATCH, "bound twice", 1);
    m->slots[4] = good, m->slots[4].role = 99;
    expect_mismatch(m, "role", DS4_ERR_ARG, "role is 99", 1);
    m->slots[4] = good, m->slots[4].type = 99;
    expect_mismatch(m, "an unknown type", DS4_ERR_UNSUPPORTED, "type 99", 1);
    m->slots[4] = good, m->slots[4].shard = 1;
    expect_mismatch(m, "shard", DS4_ERR_ARG, "shard is 1", 1);
    m->slots[4] = good, m->slots[4].name = NULL;
    expect_mismatch(m, "no name", DS4_ERR_ARG, "no tensor name", 1);
    m->slots[4] = m->slots[m->n_slots - 1], m->desc.n_slots--;
    expect_mismatch(m, "a missing role", DS4_ERR_MISMATCH, "no slot has role attn_q of layer 0", 1);
    tiny_free(m);
}

static void hyperparameters_out_of_range_are_named(void)
{
    tiny_model *m = tiny_build(tiny_default());
    const ds4_hparams good = m->desc.hparams;
    ds4_error err;

#define REFUSED(change, says)                                                                                          \
    do {                                                                                                               \
        m->desc.hparams = good;                                                                                        \
        m->desc.hparams.change;                                                                                        \
        CHECK(ds4_bind_plan_check(&m->desc, &err) && strstr(err.message, says), #change ": '%s'", err.message);        \
    } while (0)
    m->shard = "unopened";
    CHECK(ds4_bind_plan_check(&m->desc, &err) == DS4_OK, "%s", err.message);
    REFUSED(family = 9, "family is 9");
    REFUSED(n_layer = 0, "n_layer is 0");
    REFUSED(n_layer = 1 << 30, "n_layer");
    REFUSED(d_model = -1, "d_model is -1");
    REFUSED(n_head = 0, "n_head is 0");
    REFUSED(n_head_kv = 3, "multiple of n_head_kv 3");
    REFUSED(n_head_kv = 8, "n_head_kv is 8");
    REFUSED(head_dim = 1 << 20, "head_dim");
    REFUSED(rope_dim = 33, "rope_dim is 33");
    REFUSED(rope_dim = 31, "even");
    REFUSED(rope_scaling = 5, "rope_scaling is 5");
    REFUSED(rms_eps = NAN, "rms_eps is nan");
    REFUSED(rope_base = 0, "rope_base is 0");
    REFUSED(rope_attn_factor = 0, "rope_attn_factor");
    REFUSED(rope_scaling = DS4_ROPE_SCALING_YARN, "rope_beta_slow");
    REFUSED(n_vocab = 96, "expected [64, 96, 1, 1]");
#undef REFUSED
    m->desc.hparams = good;
    m->desc.n_shards = 0;
    CHECK(ds4_bind_plan_check(&m->desc, &err) == DS4_ERR_ARG, "%s", err.message);
    tiny_free(m);
}

static void what_kin_have_beyond_llama_is_checked_too(void)
{
    tiny_model *m = tiny_build(tiny_default());
    const ds4_hparams good = m->desc.hparams;
    int32_t flags[1024] = {0};
    const ds4_decoder plain = {.n_flags = good.n_layer, .expert_scale = 1, .embd_scale = 1, .flags = flags};
    ds4_decoder d = plain;
    ds4_error err;

#define REFUSED(change, says)                                                                                          \
    do {                                                                                                               \
        d = plain;                                                                                                     \
        d.change;                                                                                                      \
        CHECK(ds4_bind_plan_check(&m->desc, &err) && strstr(err.message, says), #change ": '%s'", err.message);        \
    } while (0)
    m->shard = "unopened";
    m->desc.hparams.decoder = &d;
    CHECK(ds4_bind_plan_check(&m->desc, &err) == DS4_OK, "%s", err.message);
    REFUSED(activation = 2, "decoder.activation is 2");
    REFUSED(n_flags = good.n_layer + 1, "decoder.n_flags");
    REFUSED(n_expert = 4, "decoder.n_expert is 4, expected 0..0");
    REFUSED(embd_scale = NAN, "decoder.embd_scale is nan");
    REFUSED(rope_base_local = 0.5f, "decoder.rope_base_local");
    REFUSED(flags = NULL, "lacks its flags");
    flags[0] = 4;
    REFUSED(activation = 0, "decoder.flags[0] is 4");
    flags[0] = DS4_LAYER_LOCAL;
    m->desc.hparams.sliding_window = 0;
    REFUSED(activation = 0, "sliding_window is 0");
    m->desc.hparams.sliding_window = 8;
    d = plain;
    CHECK(ds4_bind_plan_check(&m->desc, &err) == DS4_OK, "%s", err.message);
#undef REFUSED
    m->desc.hparams = good;
    m->desc.hparams.family = DS4_FAMILY_SMOLLM3;
    CHECK(ds4_bind_plan_check(&m->desc, &err) == DS4_ERR_ARG && strstr(err.message, "decoder is missing"), "%s", err.message);
    m->desc.hparams.family = DS4_FAMILY_QWEN3;
    CHECK(ds4_bind_plan_check(&m->desc, &err) == DS4_ERR_MISMATCH && strstr(err.message, "attn_q_norm"), "%s", err.message);
    m->desc.hparams.family = DS4_FAMILY_QWEN2;
    CHECK(ds4_bind_plan_check(&m->desc, &err) == DS4_ERR_MISMATCH && strstr(err.message, "attn_q_bias"), "%s", err.message);
    tiny_free(m);
}

static void a_rope_divisor_that_is_not_positive_is_refused(void)
{
    tiny_spec spec = tiny_default();
    tiny_model *m;
    ds4_model *model;
    ds4_error err;
    const float zero = 0;

    spec.rope_freqs = 1;
    m = tiny_build(spec);
    for (int32_t i = 0; i < m->n_slots; i++)
        if (m->slots[i].role == DS4_ROLE_ROPE_FREQS)
            memcpy(m->image + m->slots[i].offset + 4, &zero, sizeof zero);
    tiny_write(m);
    CHECK(ds4_model_open(&m->desc, &model, &err) == DS4_ERR_FORMAT && strstr(err.message, "divisor 1 is 0"), "%s",
          err.message);
    tiny_free(m);
}

static void weights_may_be_spread_over_shards(void)
{
    tiny_model *m = tiny_build(tiny_default());
    const char *paths[2];
    char second[sizeof m->path + 2];
    ds4_model *model;
    ds4_error err;

    tiny_write(m); /* the same file twice: each slot must be looked for in the shard that it names */
    snprintf(second, sizeof second, "%s-2", m->path);
    tiny_write_bytes(second, m->image, m->bytes);
    paths[0] = m->path, paths[1] = second;
    m->desc.shards = paths, m->desc.n_shards = 2;
    for (int32_t i = 0; i < m->n_slots; i += 2)
        m->slots[i].shard = 1;
    CHECK(ds4_model_open(&m->desc, &model, &err) == DS4_OK, "%s", err.message);
    ds4_model_free(model);
    tiny_write_bytes(second, "GGUF", 4);
    CHECK(ds4_model_open(&m->desc, &model, &err) == DS4_ERR_FORMAT && strstr(err.message, second), "%s", err.message);
    unlink(second);
    tiny_free(m);
}

/* Values of the published XXH64 test program: seed 0, empty input, and short ASCII strings. */
static void the_checksum_is_xxh64(void)
{
    CHECK(ds4_hash64("", 0) == 0xef46db3751d8e999ULL, "empty");
    CHECK(ds4_hash64("a", 1) == 0xd24ec4f1a98c6e5bULL, "a");
    CHECK(ds4_hash64("abc", 3) == 0x44bc2cf5ad770999ULL, "abc");
    CHECK(ds4_hash64("Nobody inspects the spammish repetition", 39) == 0xfbcea83c8a378bf1ULL, "39 bytes");
}

int main(void)
{
    RUN(the_checksum_is_xxh64);
    RUN(a_file_cut_anywhere_is_refused_with_the_bytes_that_are_left);
    RUN(any_byte_of_the_directory_may_be_wrong_without_harm);
    RUN(a_wrong_header_names_what_was_found);
    RUN(a_product_of_dimensions_that_overflows_is_refused);
    RUN(arrays_nested_without_end_are_refused);
    RUN(a_path_that_is_no_file_is_an_io_error);
    RUN(a_model_opens_and_shows_the_slots_as_found);
    RUN(warming_reports_progress_and_can_be_stopped);
    RUN(a_plan_that_differs_from_the_file_is_refused_by_slot);
    RUN(hyperparameters_out_of_range_are_named);
    RUN(what_kin_have_beyond_llama_is_checked_too);
    RUN(a_rope_divisor_that_is_not_positive_is_refused);
    RUN(weights_may_be_spread_over_shards);
    CHECK_DONE();
}
