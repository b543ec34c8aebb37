/* null_kin.c - the operations of llama's kin in the null backend: none does anything. */
#include "native/backends/null/null.h"

#define UNUSED __attribute__((unused))

static void geglu(UNUSED ds4_program *p, UNUSED ds4_mat dst, UNUSED ds4_mat gate, UNUSED ds4_mat up) {}

static void scale(UNUSED ds4_program *p, UNUSED ds4_mat dst, UNUSED float factor) {}

static void bias(UNUSED ds4_program *p, UNUSED ds4_mat dst, UNUSED const ds4_weight *w) {}

static void rmsnorm_heads(UNUSED ds4_program *p, UNUSED ds4_mat x, UNUSED int32_t n_head, UNUSED const ds4_weight *w,
                          UNUSED float eps)
{
}

void null_record_kin(ds4_ops *ops)
{
    ops->geglu = geglu;
    ops->scale = scale;
    ops->bias = bias;
    ops->rmsnorm_heads = rmsnorm_heads;
}
