/* tiny_gguf.h - a seeded little llama as a GGUF image, its bind plan and its weights in fp32, for the engine's tests. */
#ifndef DS4_TESTS_TINY_GGUF_H
#define DS4_TESTS_TINY_GGUF_H

#include "native/quant/quant.h"
#include "native/tests/check.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TINY_ALIGNMENT 32

typedef struct tiny_spec {
    ds4_hparams h;
    int32_t type;       /* of the matrices: F32, F16, Q8_0 or Q4_0 */
    int32_t tied;       /* no output matrix */
    int32_t rope_freqs; /* with a tensor of rope divisors */
    uint64_t seed;
} tiny_spec;

typedef struct tiny_model {
    tiny_spec spec;
    char path[256];
    uint8_t *image; /* the file's bytes */
    size_t bytes, capacity;
    int32_t n_slots;
    ds4_slot slots[64];
    char names[64][48];
    float *weights[64]; /* dequantised, [rows][cols] */
    const char *shard;
    ds4_model_desc desc;
} tiny_model;

/* Heads are wider together than the model and the vocabulary is odd, so that a mixed-up dimension shows. */
__attribute__((unused)) static tiny_spec tiny_default(void)
{
    return (tiny_spec){.h = {.family = DS4_FAMILY_LLAMA,
                             .n_layer = 2,
                             .d_model = 64,
                             .n_head = 4,
                             .n_head_kv = 2,
                             .head_dim = 32,
                             .d_ff = 96,
                             .n_vocab = 97,
                             .n_ctx_train = 512,
                             .rope_kind = DS4_ROPE_NORM,
                             .rope_dim = 32,
                             .rms_eps = 1e-5f,
                             .rope_base = 10000,
                             .rope_factor = 1,
                             .rope_attn_factor = 1},
                       .type = DS4_TYPE_F32,
                       .seed = 1};
}

__attribute__((unused)) static uint64_t tiny_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15ULL;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
}

/* About normal, deviation 1: the sum of twelve uniforms. */
__attribute__((unused)) static float tiny_normal(uint64_t *state)
{
    double sum = -6;
    for (int i = 0; i < 12; i++)
        sum += (double)(tiny_random(state) >> 11) * 0x1p-53;
    return (float)sum;
}

__attribute__((unused)) static void tiny_put(tiny_model *m, const void *data, size_t bytes)
{
    if (m->bytes + bytes > m->capacity) {
        m->capacity = (m->bytes + bytes) * 2;
        m->image = realloc(m->image, m->capacity);
        REQUIRE(m->image, "memory");
    }
    memcpy(m->image + m->bytes, data, bytes);
    m->bytes += bytes;
}

__attribute__((unused)) static void tiny_u32(tiny_model *m, uint32_t v) { tiny_put(m, &v, sizeof v); }
__attribute__((unused)) static void tiny_u64(tiny_model *m, uint64_t v) { tiny_put(m, &v, sizeof v); }

__attribute__((unused)) static void tiny_string(tiny_model *m, const char *s)
{
    tiny_u64(m, strlen(s));
    tiny_put(m, s, strlen(s));
}

/* Every kind of value that a walk must step over. */
__attribute__((unused)) static void tiny_metadata(tiny_model *m)
{
    static const uint8_t sizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    const uint8_t zeros[24] = {0};
    char key[16];

    tiny_u64(m, 15);
    tiny_string(m, "general.architecture"), tiny_u32(m, 8), tiny_string(m, "llama");
    tiny_string(m, "general.alignment"), tiny_u32(m, 4), tiny_u32(m, TINY_ALIGNMENT);
    for (uint32_t type = 0; type < sizeof sizes; type++)
        if (sizes[type]) {
            snprintf(key, sizeof key, "test.%u", type);
            tiny_string(m, key), tiny_u32(m, type), tiny_put(m, zeros, sizes[type]);
        }
    tiny_string(m, "test.numbers"), tiny_u32(m, 9), tiny_u32(m, 5), tiny_u64(m, 3), tiny_put(m, zeros, 12);
    tiny_string(m, "test.nested"), tiny_u32(m, 9), tiny_u32(m, 9), tiny_u64(m, 2);
    tiny_u32(m, 8), tiny_u64(m, 2), tiny_string(m, "a"), tiny_string(m, "");
    tiny_u32(m, 3), tiny_u64(m, 0);
}

/* A slot whose weights are drawn around `mean` with deviation `deviation`, in the file's type and in fp32. */
__attribute__((unused)) static void tiny_add(tiny_model *m, const char *name, int32_t role, int32_t layer, int64_t cols,
                                             int64_t rows, float mean, float deviation, uint8_t **data, uint64_t *state)
{
    const int32_t i = m->n_slots++, type = rows > 1 ? m->spec.type : DS4_TYPE_F32;
    const size_t row_bytes = (size_t)ds4_row_bytes(type, cols);
    ds4_slot *s = &m->slots[i];

    REQUIRE(i < 64 && row_bytes > 0, "slot %d, %zu bytes a row", i, row_bytes);
    snprintf(m->names[i], sizeof m->names[i], layer < 0 ? "%s.weight" : "blk.%2$d.%1$s.weight", name, layer);
    *s = (ds4_slot){.role = role, .layer = layer, .type = type, .n_dims = rows > 1 ? 2 : 1, .dims = {cols, rows, 1, 1},
                    .bytes = row_bytes * (size_t)rows, .name = m->names[i]};
    m->weights[i] = malloc((size_t)(rows * cols) * sizeof(float));
    data[i] = malloc(s->bytes);
    REQUIRE(m->weights[i] && data[i], "memory");
    for (int64_t j = 0; j < rows * cols; j++)
        m->weights[i][j] = mean + deviation * tiny_normal(state);
    for (int64_t r = 0; r < rows; r++) {
        uint8_t *row = data[i] + (size_t)r * row_bytes;
        float *w = m->weights[i] + r * cols;
        if (type == DS4_TYPE_Q4_0) { /* nothing quantises to it here: any nibbles will do, under a fitting scale */
            for (size_t b = 0; b < row_bytes; b++)
                row[b] = (uint8_t)tiny_random(state);
            for (size_t b = 0; b < row_bytes; b += 18) {
                const uint16_t d = ds4_f32_to_f16(deviation / 4.6f);
                memcpy(row + b, &d, sizeof d);
            }
        } else if (type == DS4_TYPE_F32) {
            memcpy(row, w, row_bytes);
        } else {
            REQUIRE(!ds4_quantize_row(type, w, cols, row), "type %d", type);
        }
        REQUIRE(!ds4_dequant_row(type, row, cols, w), "type %d", type);
    }
}

/* Builds the image and its plan; tiny_write puts it in a file. Free with tiny_free. */
__attribute__((unused)) static tiny_model *tiny_build(tiny_spec spec)
{
    tiny_model *m = calloc(1, sizeof *m);
    uint8_t *data[64] = {0};
    uint64_t state = spec.seed, offset = 0;
    const ds4_hparams *h = &spec.h;
    const int64_t q = (int64_t)h->n_head * h->head_dim, kv = (int64_t)h->n_head_kv * h->head_dim, d = h->d_model;
    const float on_d = 1 / sqrtf((float)d), on_q = 1 / sqrtf((float)q), on_ff = 1 / sqrtf((float)h->d_ff);

    REQUIRE(m, "memory");
    m->spec = spec;
    tiny_add(m, "token_embd", DS4_ROLE_TOKEN_EMBD, -1, d, h->n_vocab, 0, 1, data, &state);
    tiny_add(m, "output_norm", DS4_ROLE_OUTPUT_NORM, -1, d, 1, 1, 0.1f, data, &state);
    if (!spec.tied)
        tiny_add(m, "output", DS4_ROLE_OUTPUT, -1, d, h->n_vocab, 0, 3 * on_d, data, &state);
    if (spec.rope_freqs)
        tiny_add(m, "rope_freqs", DS4_ROLE_ROPE_FREQS, -1, h->rope_dim / 2, 1, 3, 0.4f, data, &state);
    for (int32_t l = 0; l < h->n_layer; l++) {
        tiny_add(m, "attn_norm", DS4_ROLE_ATTN_NORM, l, d, 1, 1, 0.1f, data, &state);
        tiny_add(m, "attn_q", DS4_ROLE_ATTN_Q, l, d, q, 0, 2 * on_d, data, &state);
        tiny_add(m, "attn_k", DS4_ROLE_ATTN_K, l, d, kv, 0, 2 * on_d, data, &state);
        tiny_add(m, "attn_v", DS4_ROLE_ATTN_V, l, d, kv, 0, on_d, data, &state);
        tiny_add(m, "attn_output", DS4_ROLE_ATTN_OUT, l, q, d, 0, 2 * on_q, data, &state);
        tiny_add(m, "ffn_norm", DS4_ROLE_FFN_NORM, l, d, 1, 1, 0.1f, data, &state);
        tiny_add(m, "ffn_gate", DS4_ROLE_FFN_GATE, l, d, h->d_ff, 0, on_d, data, &state);
        tiny_add(m, "ffn_up", DS4_ROLE_FFN_UP, l, d, h->d_ff, 0, on_d, data, &state);
        tiny_add(m, "ffn_down", DS4_ROLE_FFN_DOWN, l, h->d_ff, d, 0, on_ff, data, &state);
    }

    tiny_put(m, "GGUF", 4);
    tiny_u32(m, 3);
    tiny_u64(m, (uint64_t)m->n_slots);
    tiny_metadata(m);
    for (int32_t i = 0; i < m->n_slots; i++) {
        const ds4_slot *s = &m->slots[i];
        tiny_string(m, s->name);
        tiny_u32(m, (uint32_t)s->n_dims);
        for (int32_t j = 0; j < s->n_dims; j++)
            tiny_u64(m, (uint64_t)s->dims[j]);
        tiny_u32(m, (uint32_t)s->type);
        tiny_u64(m, offset);
        offset += (s->bytes + TINY_ALIGNMENT - 1) / TINY_ALIGNMENT * TINY_ALIGNMENT;
    }
    for (int32_t i = 0; i < m->n_slots; i++) {
        while (m->bytes % TINY_ALIGNMENT)
            tiny_put(m, "", 1);
        m->slots[i].offset = m->bytes;
        tiny_put(m, data[i], (size_t)m->slots[i].bytes);
        free(data[i]);
    }
    m->desc = (ds4_model_desc){spec.h, &m->shard, 1, m->n_slots, m->slots};
    return m;
}

__attribute__((unused)) static void tiny_write_bytes(const char *path, const void *data, size_t bytes)
{
    FILE *f = fopen(path, "wb");
    REQUIRE(f && fwrite(data, 1, bytes, f) == bytes && !fclose(f), "%s", path);
}

/* Writes the image under a fresh name. */
__attribute__((unused)) static void tiny_write(tiny_model *m)
{
    const char *dir = getenv("TEST_TMPDIR");
    int fd;

    snprintf(m->path, sizeof m->path, "%s/tiny-XXXXXX", dir ? dir : "/tmp");
    fd = mkstemp(m->path);
    REQUIRE(fd >= 0, "%s", m->path);
    close(fd);
    tiny_write_bytes(m->path, m->image, m->bytes);
    m->shard = m->path;
}

__attribute__((unused)) static void tiny_free(tiny_model *m)
{
    if (m->path[0])
        unlink(m->path);
    for (int32_t i = 0; i < m->n_slots; i++)
        free(m->weights[i]);
    free(m->image);
    free(m);
}

/* The fp32 weights of a role. */
__attribute__((unused)) static const float *tiny_weights(const tiny_model *m, int32_t role, int32_t layer)
{
    for (int32_t i = 0; i < m->n_slots; i++)
        if (m->slots[i].role == role && m->slots[i].layer == layer)
            return m->weights[i];
    return NULL;
}

#endif
