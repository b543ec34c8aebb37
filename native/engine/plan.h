/* plan.h - what a role of the bind plan must look like, by family. */
#ifndef DS4_ENGINE_PLAN_H
#define DS4_ENGINE_PLAN_H

#include "native/bridge/ds4_bridge.h"

#define PLAN_MAX_WIDTH (1 << 24) /* of any matrix; keeps every product of two within an int64 */

/* What a tensor holds: numbers of any type, fp32 numbers in one row, or integers. */
typedef enum plan_kind { PLAN_MATRIX, PLAN_VECTOR, PLAN_TABLE } plan_kind;

typedef struct plan_role {
    const char *name; /* NULL: the family has no such role */
    int8_t has_layer;
    int8_t kind; /* plan_kind */
} plan_role;

typedef enum plan_presence { PLAN_ABSENT, PLAN_OPTIONAL, PLAN_REQUIRED } plan_presence;

/* plan_llama.c: for LLAMA and its kin, which are those families that plan_is_llama_kin says. */
int plan_is_llama_kin(const ds4_hparams *h);
plan_role plan_llama_role(int32_t role);
plan_presence plan_llama_dims(const ds4_hparams *h, int32_t role, int64_t dims[DS4_MAX_DIMS]);
int32_t plan_llama_hparams(const ds4_hparams *h, ds4_error *err);

/* plan_dsv4.c: the same for DEEPSEEK4. dims in GGUF order, unused ones 1. layer -1 for roles without one. */
plan_role plan_dsv4_role(int32_t role);
plan_presence plan_dsv4_dims(const ds4_hparams *h, int32_t role, int32_t layer, int64_t dims[DS4_MAX_DIMS]);
int32_t plan_dsv4_hparams(const ds4_hparams *h, ds4_error *err);
/* Roles that need each other; seen[role] of the layer that drafts. */
int32_t plan_dsv4_together(const uint8_t *seen, ds4_error *err);

/* The first complaint about hparams.`name`, or DS4_OK. */
int32_t plan_check_int(const char *name, int64_t value, int64_t low, int64_t high, ds4_error *err);
int32_t plan_check_float(const char *name, float value, float low, float high, ds4_error *err);

#endif
