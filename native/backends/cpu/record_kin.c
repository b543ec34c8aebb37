/* record_kin.c - recording of what llama's kin need beyond llama, as record.c does the others. */
#include "native/backends/cpu/record.h"

static void record_geglu(ds4_program *p, ds4_mat dst, ds4_mat gate, ds4_mat up)
{
    record_activation(p, "geglu", OP_GEGLU, dst, gate, up);
}

static void record_scale(ds4_program *p, ds4_mat dst, float factor)
{
    record_expect_mat(p, "scale", "dst", dst, dst.cols);
    cpu_node *n = record_push(p, OP_SCALE);
    n->dst = dst;
    n->clamp = factor;
}

static void record_bias(ds4_program *p, ds4_mat dst, const ds4_weight *w)
{
    record_expect_mat(p, "bias", "dst", dst, dst.cols);
    record_expect_vector(p, "bias", w, dst.cols);
    cpu_node *n = record_push(p, OP_BIAS);
    n->dst = dst;
    n->norm = w;
}

static void record_rmsnorm_heads(ds4_program *p, ds4_mat x, int32_t n_head, const ds4_weight *w, float eps)
{
    record_expect_mat(p, "rmsnorm_heads", "x", x, x.cols);
    RECORD_EXPECT(p, n_head > 0 && x.cols % n_head == 0, "rmsnorm_heads: %d columns are not %d heads", (int)x.cols,
                  (int)n_head);
    if (p->error.status)
        return;
    record_expect_vector(p, "rmsnorm_heads", w, x.cols / n_head);
    cpu_node *n = record_push(p, OP_RMSNORM_HEADS);
    n->dst = x;
    n->norm = w;
    n->attention.n_head = n_head;
    n->eps = eps;
}

void cpu_record_kin(ds4_ops *ops)
{
    ops->geglu = record_geglu;
    ops->scale = record_scale;
    ops->bias = record_bias;
    ops->rmsnorm_heads = record_rmsnorm_heads;
}
