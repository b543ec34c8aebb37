/* compose.h - a fused operation where the backend has one, else its plain composition. Forwards record through these. */
#ifndef DS4_COMPOSE_H
#define DS4_COMPOSE_H

#include "native/ops/ds4_ops.h"

/* dst[i] = matmul(w[i], rmsnorm(x)), i < n, n <= 4. scratch: like x; only the composition writes it. */
void ds4_norm_matmul(const ds4_ops *ops, ds4_program *p, ds4_mat x, const ds4_weight *norm, float eps, int32_t n,
                     const ds4_mat *dst, const ds4_weight *const *w, ds4_mat scratch);

/* dst += matmul(w, x). scratch: like dst. */
void ds4_matmul_add(const ds4_ops *ops, ds4_program *p, ds4_mat dst, ds4_mat x, const ds4_weight *w, ds4_mat scratch);

/* rope(q), rope(k), kv_store(k, v). */
void ds4_rope_store(const ds4_ops *ops, ds4_program *p, ds4_mat q, ds4_mat k, ds4_mat v, ds4_cache *cache,
                    const ds4_attention *a, const ds4_rope *rope);

/* dst = swiglu(matmul(gate, rmsnorm(x)), matmul(up, rmsnorm(x))). scratch: like x; scratch_up: like dst. */
void ds4_norm_swiglu(const ds4_ops *ops, ds4_program *p, ds4_mat dst, ds4_mat x, const ds4_weight *norm, float eps,
                     const ds4_weight *gate, const ds4_weight *up, ds4_mat scratch, ds4_mat scratch_up);

/* The same with geglu. */
void ds4_norm_geglu(const ds4_ops *ops, ds4_program *p, ds4_mat dst, ds4_mat x, const ds4_weight *norm, float eps,
                    const ds4_weight *gate, const ds4_weight *up, ds4_mat scratch, ds4_mat scratch_up);

/* Product of a block-diagonal matrix: w[g] is block g, which takes its share of x's columns to its share of dst's. */
void ds4_grouped_matmul(const ds4_ops *ops, ds4_program *p, ds4_mat dst, ds4_mat x, int32_t n_groups, ds4_weight *const *w);

#endif
