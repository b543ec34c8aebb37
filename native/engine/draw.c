/* draw.c - how a bank's outputs are drawn: samplers and allow-masks, held by the bank and by the steps that use them. */
#include "native/bridge/status.h"
#include "native/engine/session.h"
#include "native/sampling/sampling.h"

#include <stdlib.h>
#include <string.h>

int32_t sampling_create(const ds4_sampler *sampler, bank_sampling **out, ds4_error *err)
{
    const size_t n = (size_t)(uint32_t)sampler->n_bias;
    /* One block: the struct, the values, the ids. */
    bank_sampling *b = malloc(sizeof *b + n * (sizeof *b->bias_ids + sizeof *b->bias_values));

    if (!b)
        return ds4_fail(err, DS4_ERR_MEMORY, "no memory for a sampler with %zu biases", n);
    b->holders = 1;
    b->params = *sampler;
    b->bias_values = (float *)(b + 1);
    b->bias_ids = (int32_t *)(b->bias_values + n);
    if (n) {
        memcpy(b->bias_values, sampler->bias_values, n * sizeof *b->bias_values);
        memcpy(b->bias_ids, sampler->bias_ids, n * sizeof *b->bias_ids);
    }
    b->params.bias_values = b->bias_values;
    b->params.bias_ids = b->bias_ids;
    *out = b;
    return DS4_OK;
}

void sampling_drop(bank_sampling *sampling)
{
    if (sampling && --sampling->holders == 0)
        free(sampling);
}

void mask_drop(bank_mask *mask)
{
    if (mask && --mask->holders == 0)
        free(mask);
}

int32_t ds4_bank_set_sampler(ds4_session *s, int32_t bank, const ds4_sampler *sampler, ds4_error *err)
{
    bank_sampling *fresh;
    int32_t status = session_bank_check(s, bank, err);

    if (!status && !sampler)
        status = ds4_fail(err, DS4_ERR_ARG, "no sampler");
    if (!status)
        status = ds4_sampler_check(sampler, s->model->hparams.n_vocab, err);
    if (!status)
        status = sampling_create(sampler, &fresh, err);
    if (status)
        return status;
    sampling_drop(s->banks[bank].sampling);
    s->banks[bank].sampling = fresh;
    return ds4_ok(err);
}

static int allows_a_token(const uint32_t *words, int32_t n_vocab)
{
    for (int32_t i = 0; i < n_vocab / 32; i++)
        if (words[i])
            return 1;
    return n_vocab % 32 && (words[n_vocab / 32] & ((1u << n_vocab % 32) - 1));
}

int32_t ds4_bank_set_mask(ds4_session *s, int32_t bank, const uint32_t *words, int32_t n_words, ds4_error *err)
{
    const int32_t n_vocab = s->model->hparams.n_vocab, needed = (n_vocab + 31) / 32;
    const int32_t status = session_bank_check(s, bank, err);
    bank_mask *mask;

    if (status)
        return status;
    mask = s->banks[bank].mask;
    if (words) {
        if (n_words < needed)
            return ds4_fail(err, DS4_ERR_ARG, "the mask has %d words, expected %d for a vocabulary of %d", n_words, needed,
                            n_vocab);
        if (!allows_a_token(words, n_vocab))
            return ds4_fail(err, DS4_ERR_ARG, "the mask allows none of the %d tokens", n_vocab);
        /* A mask that no step holds is written over: constrained decoding sets one for every token. */
        if (!mask || mask->holders > 1) {
            bank_mask *fresh = malloc(sizeof *fresh + (size_t)needed * sizeof *fresh->words);
            if (!fresh)
                return ds4_fail(err, DS4_ERR_MEMORY, "no memory for a mask of %d words", needed);
            fresh->holders = 1;
            mask_drop(mask);
            mask = fresh;
        }
        memcpy(mask->words, words, (size_t)needed * sizeof *words);
    } else {
        mask_drop(mask);
        mask = NULL;
    }
    s->banks[bank].mask = mask;
    return ds4_ok(err);
}
