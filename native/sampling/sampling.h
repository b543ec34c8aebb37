/* sampling.h - the sampler as pure functions of logits, history, mask and one uniform number.
 *
 * Everything here takes time linear in the vocabulary, allocates nothing and gives the same bits on every processor: the
 * wide loops keep 16 partial sums in a fixed order, whatever the width of a register. */
#ifndef DS4_SAMPLING_H
#define DS4_SAMPLING_H

#include "native/bridge/ds4_bridge.h"

/* The uniform in [0, 1) of (seed, position): with
 *     mix(z) = z ^= z >> 30, z *= 0xbf58476d1ce4e5b9, z ^= z >> 27, z *= 0x94d049bb133111eb, z ^ (z >> 31)
 * (the finaliser of SplitMix64, mod 2^64) it is
 *     (mix(mix(seed + 0x9e3779b97f4a7c15) ^ (position + 1) * 0x9e3779b97f4a7c15) >> 11) / 2^53
 * `position` is that of the row whose output is drawn, so the drawn token will stand at position + 1. */
double ds4_sampling_uniform(uint64_t seed, int32_t position);

/* Checks the ranges given at ds4_sampler, and that the bias ids lie in the vocabulary. */
int32_t ds4_sampler_check(const ds4_sampler *sampler, int32_t n_vocab, ds4_error *err);

/* Scratch for the two functions below: it must be 64-byte aligned and zero before its first use, and is left fit for the
 * next one. One for each thread. */
size_t ds4_sampling_scratch_bytes(int32_t n_vocab);

/* Filters `logits` [n_vocab] in place and returns the drawn token. `sampler` must have passed ds4_sampler_check.
 *
 *   1. logit bias is added.
 *   2. ids outside the mask become -infinity.
 *   3. repetition: once for every distinct id in the history, logit > 0 ? logit / r : logit * r.
 *   4. frequency and presence: minus frequency * count + presence for every id in history[n_prompt..].
 *   5. temperature 0: the highest logit, ties to the lowest id. Else the weight of an id is exp((logit - highest) / t).
 *   6. top-k keeps the k heaviest (ties: lowest ids first).
 *   7. top-p keeps the smallest number of the heaviest whose weight reaches p of what top-k kept; never none.
 *   8. min-p drops what weighs less than min_p times the heaviest.
 *   9. the draw walks what is kept by rising id, until the running sum of the weights exceeds uniform * their total.
 *
 * A NaN logit counts as -infinity. When nothing has a finite logit the lowest allowed id wins. History entries outside the
 * vocabulary are passed over. n_prompt outside [0, n_history] is clamped. */
int32_t ds4_sampling_pick(const ds4_sampler *sampler, float *logits, int32_t n_vocab, const int32_t *history,
                          int32_t n_history, int32_t n_prompt, const uint32_t *mask, double uniform, void *scratch);

/* log(sum(exp(logits))) in double; NaN counts as -infinity. */
double ds4_sampling_logsumexp(const float *logits, int32_t n_vocab);

/* logit - lse, and never a NaN: -infinity for a NaN or -infinity, 0 for +infinity. */
float ds4_sampling_logprob(float logit, double lse);

/* The n highest log-probabilities (logit - lse) with their ids: falling, ties by rising id. n <= DS4_MAX_TOP and n_vocab. */
void ds4_sampling_top(const float *logits, int32_t n_vocab, double lse, int32_t n, int32_t *ids, float *logprobs);

#endif
