/* compose.c - the plain compositions, each in the order that the fused operation promises to the bit. */
#include "native/ops/compose.h"

void ds4_norm_matmul(const ds4_ops *ops, ds4_program *p, ds4_mat x, const ds4_weight *norm, float eps, int32_t n,
                     const ds4_mat *dst, const ds4_weight *const *w, ds4_mat scratch)
{
    if (ops->norm_matmul) {
        ops->norm_matmul(p, x, norm, eps, n, dst, w, scratch);
        return;
    }
    ops->rmsnorm(p, scratch, x, norm, eps);
    for (int32_t i = 0; i < n; i++)
        ops->matmul(p, dst[i], scratch, w[i]);
}

void ds4_matmul_add(const ds4_ops *ops, ds4_program *p, ds4_mat dst, ds4_mat x, const ds4_weight *w, ds4_mat scratch)
{
    if (ops->matmul_add) {
        ops->matmul_add(p, dst, x, w, scratch);
        return;
    }
    ops->matmul(p, scratch, x, w);
    ops->add(p, dst, scratch);
}

void ds4_rope_store(const ds4_ops *ops, ds4_program *p, ds4_mat q, ds4_mat k, ds4_mat v, ds4_cache *cache,
                    const ds4_attention *a, const ds4_rope *rope)
{
    if (ops->rope_store) {
        ops->rope_store(p, q, k, v, cache, a, rope);
        return;
    }
    ops->rope(p, q, a->n_head, a->head_dim, rope);
    ops->rope(p, k, a->n_head_kv, a->head_dim, rope);
    ops->kv_store(p, cache, a->layer, k, v);
}

void ds4_norm_swiglu(const ds4_ops *ops, ds4_program *p, ds4_mat dst, ds4_mat x, const ds4_weight *norm, float eps,
                     const ds4_weight *gate, const ds4_weight *up, ds4_mat scratch, ds4_mat scratch_up)
{
    if (ops->norm_swiglu) {
        ops->norm_swiglu(p, dst, x, norm, eps, gate, up, scratch, scratch_up);
        return;
    }
    ops->rmsnorm(p, scratch, x, norm, eps);
    ops->matmul(p, dst, scratch, gate);
    ops->matmul(p, scratch_up, scratch, up);
    ops->swiglu(p, dst, dst, scratch_up);
}

void ds4_norm_geglu(const ds4_ops *ops, ds4_program *p, ds4_mat dst, ds4_mat x, const ds4_weight *norm, float eps,
                    const ds4_weight *gate, const ds4_weight *up, ds4_mat scratch, ds4_mat scratch_up)
{
    if (ops->norm_geglu) {
        ops->norm_geglu(p, dst, x, norm, eps, gate, up, scratch, scratch_up);
        return;
    }
    ops->rmsnorm(p, scratch, x, norm, eps);
    ops->matmul(p, dst, scratch, gate);
    ops->matmul(p, scratch_up, scratch, up);
    ops->geglu(p, dst, dst, scratch_up);
}

void ds4_grouped_matmul(const ds4_ops *ops, ds4_program *p, ds4_mat dst, ds4_mat x, int32_t n_groups, ds4_weight *const *w)
{
    const int32_t in = x.cols / n_groups, out = dst.cols / n_groups;

    for (int32_t g = 0; g < n_groups; g++) {
        ds4_mat part = dst, from = x;
        part.cols = out;
        part.offset += (size_t)g * (size_t)out * sizeof(float);
        from.cols = in;
        from.offset += (size_t)g * (size_t)in * sizeof(float);
        ops->matmul(p, part, from, w[g]);
    }
}
