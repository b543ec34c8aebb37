/* record.h - what the recorders share: checks of operands, which keep the first complaint, and nodes. */
#ifndef DS4_CPU_RECORD_H
#define DS4_CPU_RECORD_H

#include "native/backends/cpu/backend.h"
#include "native/bridge/status.h"

#define RECORD_EXPECT(p, condition, ...)                     \
    do {                                                     \
        if (!(condition) && !(p)->error.status)              \
            ds4_fail(&(p)->error, DS4_ERR_ARG, __VA_ARGS__); \
    } while (0)

/* A node of that operation, zero but for it. */
cpu_node *record_push(ds4_program *p, cpu_op op);

/* That the matrix has so many columns and lies within its buffer for every row of the program. */
void record_expect_mat(ds4_program *p, const char *op, const char *name, ds4_mat m, int64_t cols);
void record_expect_same_rows(ds4_program *p, const char *op, ds4_mat a, ds4_mat b);
void record_expect_vector(ds4_program *p, const char *op, const ds4_weight *w, int64_t n);

/* dst = activation(gate) * up of each element, op saying which; the node, for what only one of them has. */
cpu_node *record_activation(ds4_program *p, const char *name, cpu_op op, ds4_mat dst, ds4_mat gate, ds4_mat up);

/* The index of the rotation among the program's, for heads of head_dim. */
int32_t record_rope_table(ds4_program *p, const ds4_rope *rope, int32_t head_dim);

/* The program may not go beyond the banks and positions of the cache. */
void record_limit(ds4_program *p, const ds4_cache *cache);

#endif
