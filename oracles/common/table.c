/* table.c - the oracles that there are. A new one joins by a line in each list. */
#include "oracles/common/oracle.h"

extern const oracle_kind oracle_admission;
extern const oracle_kind oracle_bind;
extern const oracle_kind oracle_continuation;
extern const oracle_kind oracle_encoder;
extern const oracle_kind oracle_frames;
extern const oracle_kind oracle_gguf;
extern const oracle_kind oracle_kvc;
extern const oracle_kind oracle_ledger;
extern const oracle_kind oracle_memgov;
extern const oracle_kind oracle_ops;
extern const oracle_kind oracle_output;
extern const oracle_kind oracle_payload;
extern const oracle_kind oracle_quants;
extern const oracle_kind oracle_request;
extern const oracle_kind oracle_route;
extern const oracle_kind oracle_sampler;
extern const oracle_kind oracle_schedule;
extern const oracle_kind oracle_stops;
extern const oracle_kind oracle_template;
extern const oracle_kind oracle_tokenizer;
extern const oracle_kind oracle_wire;

const oracle_kind *const oracle_kinds[] = {
    &oracle_admission,
    &oracle_bind,
    &oracle_continuation,
    &oracle_encoder,
    &oracle_frames,
    &oracle_gguf,
    &oracle_kvc,
    &oracle_ledger,
    &oracle_memgov,
    &oracle_ops,
    &oracle_output,
    &oracle_payload,
    &oracle_quants,
    &oracle_request,
    &oracle_route,
    &oracle_sampler,
    &oracle_schedule,
    &oracle_stops,
    &oracle_template,
    &oracle_tokenizer,
    &oracle_wire,
    NULL,
};
