/* session.h - banks, tickets and the programs that serve them. */
#ifndef DS4_ENGINE_SESSION_H
#define DS4_ENGINE_SESSION_H

#include "native/engine/forward.h"

/* Results that exist at once. One more than the tickets in flight: the open step reads the tokens of the one before it,
 * which may have been waited for already and so would otherwise be given to the next submission. */
#define STEP_SETS (DS4_STEPS_IN_FLIGHT + 1)
#define MAX_BUCKETS 32

/* What a bank's outputs are drawn with. Shared by the bank and the open tickets that were submitted under it, so that a
 * change applies to later steps only; nothing in it changes while more than the bank holds it. */
typedef struct bank_sampling {
    int32_t holders;
    ds4_sampler params;   /* bias pointers lead to the arrays below */
    int32_t *bias_ids;    /* [n_bias] */
    float *bias_values;   /* [n_bias] */
} bank_sampling;

typedef struct bank_mask {
    int32_t holders;
    uint32_t words[]; /* [(n_vocab + 31) / 32] */
} bank_mask;

typedef struct session_bank {
    int32_t length;       /* positions committed, those of open tickets included */
    int32_t floor;        /* the least length above 0 that it can go back to */
    int32_t open;         /* open tickets that have rows here */
    int32_t condemned;    /* of these, how many will end as cancelled because the ticket before them did */
    int32_t *history;     /* [n_ctx] tokens */
    bank_sampling *sampling;
    bank_mask *mask;      /* NULL: all allowed */
    int64_t seen;         /* the submission that `next` belongs to */
    int32_t next;         /* length including this submission's rows so far */
} session_bank;

typedef enum step_state { STEP_FREE, STEP_OPEN, STEP_DONE, STEP_FAILED } step_state;

/* A ticket, from its submission until its set is needed again. */
typedef struct session_step {
    step_state state;
    int64_t ticket;
    forward_kind kind;
    int32_t n_rows, n_out;
    int32_t chained;   /* some token comes from the step before */
    int32_t condemned; /* it builds on a step that failed: what it computes is void */
    int32_t n_banks;   /* banks with rows in the step */
    int32_t *banks;    /* [min(max_rows, n_banks of the session)] */
    int32_t *before;   /* their lengths before the step */
    uint8_t *keep;     /* [max_rows] DS4_ROW_LOGITS was asked for */
    bank_sampling **samplings; /* [max_out] held for the step */
    bank_mask **masks;         /* [max_out] held, or NULL */
    ds4_step_outputs out;
    size_t logits_bytes; /* mapped at out.logits */
} session_step;

struct ds4_session {
    ds4_model *model;
    ds4_session_desc desc; /* max_out cut to max_rows */
    int32_t rewind;        /* positions that a bank can go back; 0: all */
    ds4_backend *be;
    const ds4_ops *ops;
    forward fwd;
    ds4_program *programs[FORWARD_KINDS][MAX_BUCKETS]; /* by bucket of row counts 1, 2, 4, ...; recorded when first needed */
    session_bank *banks;                /* [n_banks] */
    int32_t *histories;                 /* [n_banks][n_ctx], mapped, committed as written */
    size_t histories_bytes;
    session_step steps[STEP_SETS];      /* ticket t uses set t % STEP_SETS */
    int64_t last_ticket;                /* submitted */
    int64_t last_waited;
    int64_t submissions;                /* attempts, for session_bank.seen */

    ds4_step_inputs in; /* the backend's copies of the arrays below */
    int32_t *tokens, *from, *row_banks, *positions; /* [max_rows] */
    int32_t **row_histories;                        /* [max_rows] */
    int32_t *out_rows;                              /* [max_out] */
    ds4_row_sampler *samplers;                      /* [max_out] */
};

struct ds4_batch {
    int32_t max_rows;
    ds4_row rows[];
};

/* "bank 3 is not in 0..1" or DS4_OK; and that no open ticket uses it. */
int32_t session_bank_check(const ds4_session *s, int32_t bank, ds4_error *err);
int32_t session_bank_idle(const ds4_session *s, int32_t bank, ds4_error *err);

/* draw.c: what outputs are drawn with. A new holder counts itself in `holders`; the last to drop frees. */
int32_t sampling_create(const ds4_sampler *sampler, bank_sampling **out, ds4_error *err);
void sampling_drop(bank_sampling *sampling);
void mask_drop(bank_mask *mask);

/* step.c */
int32_t step_sets_create(ds4_session *s, ds4_error *err);
void step_sets_free(ds4_session *s);

#endif
