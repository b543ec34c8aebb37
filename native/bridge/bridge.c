/* bridge.c - the parts of the bridge that belong to no handle of the engine: versions, batches, the sampler by itself. */
#include "native/backends/cpu/matmul.h"
#include "native/bridge/status.h"
#include "native/engine/session.h"
#include "native/sampling/sampling.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DS4_VERSION "0.1.0"
#define MAX_BATCH_ROWS (1 << 20)

int32_t ds4_abi_version(void) { return DS4_ABI_VERSION; }

const char *ds4_version(void) { return DS4_VERSION; }

const char *ds4_cpu_kernels(void) { return mm_kernels_name(mm_kernels_find(NULL)); }

int32_t ds4_batch_create(int32_t max_rows, ds4_batch **out, ds4_error *err)
{
    ds4_batch *batch;

    if (!out)
        return ds4_fail(err, DS4_ERR_ARG, "no place for the batch");
    *out = NULL;
    if (max_rows < 1 || max_rows > MAX_BATCH_ROWS)
        return ds4_fail(err, DS4_ERR_ARG, "max_rows is %d, expected 1..%d", max_rows, MAX_BATCH_ROWS);
    batch = calloc(1, sizeof *batch + (size_t)max_rows * sizeof *batch->rows);
    if (!batch)
        return ds4_fail(err, DS4_ERR_MEMORY, "no memory for a batch of %d rows", max_rows);
    batch->max_rows = max_rows;
    *out = batch;
    return ds4_ok(err);
}

ds4_row *ds4_batch_rows(ds4_batch *batch) { return batch->rows; }

void ds4_batch_free(ds4_batch *batch) { free(batch); }

double ds4_sample_uniform(uint64_t seed, int32_t position) { return ds4_sampling_uniform(seed, position); }

int32_t ds4_sample_logits(const ds4_sampler *sampler, float *logits, int32_t n_vocab, const int32_t *history,
                          int32_t n_history, int32_t n_prompt, const uint32_t *mask, double uniform, int32_t *token,
                          ds4_error *err)
{
    size_t bytes;
    void *scratch;
    int32_t status;

    if (!sampler || !logits || !token || n_vocab < 1)
        return ds4_fail(err, DS4_ERR_ARG, "sampler, logits and token are needed, and n_vocab is %d, expected 1 or more",
                        n_vocab);
    if (n_history < 0 || (n_history > 0 && !history) || n_prompt < 0 || n_prompt > n_history)
        return ds4_fail(err, DS4_ERR_ARG, "n_history is %d and n_prompt is %d, expected 0 <= n_prompt <= n_history",
                        n_history, n_prompt);
    if (!(uniform >= 0 && uniform < 1))
        return ds4_fail(err, DS4_ERR_ARG, "uniform is %g, expected [0, 1)", uniform);
    status = ds4_sampler_check(sampler, n_vocab, err);
    if (status)
        return status;
    bytes = (ds4_sampling_scratch_bytes(n_vocab) + 63) / 64 * 64;
    scratch = aligned_alloc(64, bytes);
    if (!scratch)
        return ds4_fail(err, DS4_ERR_MEMORY, "no memory for %zu bytes of sampling scratch", bytes);
    memset(scratch, 0, bytes);
    *token = ds4_sampling_pick(sampler, logits, n_vocab, history, n_history, n_prompt, mask, uniform, scratch);
    free(scratch);
    return ds4_ok(err);
}
