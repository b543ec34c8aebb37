/* step.c - submit and wait: rows are checked, the step's inputs filled, its program run, its results handed out.
 *
 * Nothing of the session changes until every row has been accepted. */
#include "native/bridge/status.h"
#include "native/engine/checked.h"
#include "native/engine/session.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static session_step *set_of(ds4_session *s, int64_t ticket) { return &s->steps[ticket % STEP_SETS]; }

/* ---- the sets ---------------------------------------------------------------------------------------------------- */

int32_t step_sets_create(ds4_session *s, ds4_error *err)
{
    const size_t rows = (size_t)s->desc.max_rows, out = (size_t)s->desc.max_out;
    const size_t banks = rows < (size_t)s->desc.n_banks ? rows : (size_t)s->desc.n_banks;
    const struct { ds4_buffer **buffer; size_t bytes; } inputs[] = {
        {&s->in.counts, 4 * sizeof(int32_t)},       {&s->in.tokens, rows * sizeof(int32_t)},
        {&s->in.from, rows * sizeof(int32_t)},      {&s->in.banks, rows * sizeof(int32_t)},
        {&s->in.positions, rows * sizeof(int32_t)}, {&s->in.out_rows, out * sizeof(int32_t)},
        {&s->in.histories, rows * sizeof(int32_t *)},
        {&s->in.samplers, out * sizeof(ds4_row_sampler)},
    };
    int ok = 1;

#define ARRAY(field, n) (ok = ok && ((field) = calloc((n), sizeof *(field))) != NULL)
    for (size_t i = 0; i < sizeof inputs / sizeof inputs[0]; i++)
        ok = ok && (*inputs[i].buffer = s->ops->buffer_create(s->be, inputs[i].bytes)) != NULL;
    ARRAY(s->tokens, rows);
    ARRAY(s->from, rows);
    ARRAY(s->row_banks, rows);
    ARRAY(s->positions, rows);
    ARRAY(s->row_histories, rows);
    ARRAY(s->out_rows, out);
    ARRAY(s->samplers, out);
    for (int i = 0; i < STEP_SETS; i++) {
        session_step *t = &s->steps[i];
        ARRAY(t->banks, banks);
        ARRAY(t->before, banks);
        ARRAY(t->keep, rows);
        ARRAY(t->samplings, out);
        ARRAY(t->masks, out);
        ARRAY(t->out.tokens, out);
        ARRAY(t->out.logprobs, out);
        ARRAY(t->out.top_ids, out * DS4_MAX_TOP);
        ARRAY(t->out.top_logprobs, out * DS4_MAX_TOP);
        ARRAY(t->out.row_out, rows);
    }
#undef ARRAY
    return ok ? DS4_OK : ds4_fail(err, DS4_ERR_MEMORY, "no memory for steps of %zu rows", rows);
}

/* Lets go of the samplers and masks that a step's outputs are drawn with. */
static void drop_draws(session_step *t)
{
    for (int32_t i = 0; i < t->n_out; i++) {
        sampling_drop(t->samplings[i]);
        mask_drop(t->masks[i]);
        t->samplings[i] = NULL;
        t->masks[i] = NULL;
    }
}

static void unmap_logits(session_step *t)
{
    if (t->out.logits)
        munmap(t->out.logits, t->logits_bytes);
    t->out.logits = NULL;
}

void step_sets_free(ds4_session *s)
{
    ds4_buffer *const inputs[] = {s->in.counts, s->in.tokens, s->in.from, s->in.banks, s->in.positions, s->in.out_rows,
                                  s->in.samplers, s->in.histories};

    for (size_t i = 0; i < sizeof inputs / sizeof inputs[0]; i++)
        if (inputs[i])
            s->ops->buffer_free(s->be, inputs[i]);
    free(s->tokens), free(s->from), free(s->row_banks), free(s->positions), free(s->row_histories);
    free(s->out_rows), free(s->samplers);
    for (int i = 0; i < STEP_SETS; i++) {
        session_step *t = &s->steps[i];
        if (t->samplings && t->masks)
            drop_draws(t);
        unmap_logits(t);
        free(t->banks), free(t->before), free(t->keep), free(t->samplings), free(t->masks);
        free(t->out.tokens), free(t->out.logprobs), free(t->out.top_ids), free(t->out.top_logprobs), free(t->out.row_out);
    }
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

/* A row whose token is the output of the step before: is there such an output? */
static int32_t check_chain(ds4_session *s, int32_t i, const ds4_row *r, ds4_error *err)
{
    const session_step *before = s->last_ticket ? set_of(s, s->last_ticket) : NULL;

    if (!before)
        return ds4_fail(err, DS4_ERR_ARG, "row %d: its token comes from the step before, and there is none", i);
    if (before->state == STEP_FAILED || before->condemned)
        return ds4_fail(err, DS4_ERR_ARG, "row %d: its token comes from ticket %" PRId64 ", which did not complete", i,
                        before->ticket);
    if (r->token_from < 0 || r->token_from >= before->n_rows)
        return ds4_fail(err, DS4_ERR_ARG, "row %d: token_from is %d, expected 0..%d, the rows of ticket %" PRId64, i,
                        r->token_from, before->n_rows - 1, before->ticket);
    if (before->out.row_out[r->token_from] < 0)
        return ds4_fail(err, DS4_ERR_ARG, "row %d: token_from is %d, and that row of ticket %" PRId64 " has no output", i,
                        r->token_from, before->ticket);
    return DS4_OK;
}

static int32_t check_row(ds4_session *s, int32_t i, const ds4_row *r, ds4_error *err)
{
    const int32_t n_vocab = s->model->hparams.n_vocab;
    const session_bank *b;

    if (r->bank < 0 || r->bank >= s->desc.n_banks)
        return ds4_fail(err, DS4_ERR_ARG, "row %d: bank is %d, expected 0..%d", i, r->bank, s->desc.n_banks - 1);
    b = &s->banks[r->bank];
    if (b->condemned)
        return ds4_fail(err, DS4_ERR_BUSY, "row %d: bank %d is used by an open ticket that builds on a cancelled one", i,
                        r->bank);
    if (r->position != b->next)
        return ds4_fail(err, DS4_ERR_ARG, "row %d: position is %d, expected %d, where bank %d continues", i, r->position,
                        b->next, r->bank);
    if (r->position >= s->desc.n_ctx)
        return ds4_fail(err, DS4_ERR_CONTEXT, "row %d: position %d of bank %d is past its context of %d", i, r->position,
                        r->bank, s->desc.n_ctx);
    if (r->flags & ~(DS4_ROW_OUTPUT | DS4_ROW_LOGITS))
        return ds4_fail(err, DS4_ERR_ARG, "row %d: flags are 0x%x, expected bits of 0x%x", i, (unsigned)r->flags,
                        DS4_ROW_OUTPUT | DS4_ROW_LOGITS);
    if (r->n_top < 0 || r->n_top > DS4_MAX_TOP)
        return ds4_fail(err, DS4_ERR_ARG, "row %d: n_top is %d, expected 0..%d", i, r->n_top, DS4_MAX_TOP);
    if (r->n_top > 0 && !r->flags)
        return ds4_fail(err, DS4_ERR_ARG, "row %d: n_top is %d, which needs the output flag", i, r->n_top);
    if (r->token == -1)
        return check_chain(s, i, r, err);
    if (r->token < 0 || r->token >= n_vocab)
        return ds4_fail(err, DS4_ERR_ARG, "row %d: token is %d, expected 0..%d or -1", i, r->token, n_vocab - 1);
    return DS4_OK;
}

/* Checks the rows in order and fills the step's arrays from them. On an error only scratch has been written: positions
 * of a history past the committed length are nobody's. */
static int32_t take_rows(ds4_session *s, session_step *t, const ds4_row *rows, int32_t n_rows, ds4_error *err)
{
    const int64_t now = ++s->submissions;

    t->n_rows = n_rows;
    t->n_banks = t->chained = 0;
    int32_t n_out = 0;
    for (int32_t i = 0; i < n_rows; i++) {
        const ds4_row *r = &rows[i];
        session_bank *b = r->bank >= 0 && r->bank < s->desc.n_banks ? &s->banks[r->bank] : NULL;
        int32_t status;

        if (b && b->seen != now) {
            b->seen = now;
            b->next = b->length;
        }
        status = check_row(s, i, r, err);
        if (status)
            return status;
        if (b->next == b->length) { /* the bank's first row */
            t->banks[t->n_banks] = r->bank;
            t->before[t->n_banks++] = b->length;
        }
        b->history[b->next++] = r->token;
        s->tokens[i] = r->token;
        s->from[i] = r->token == -1 ? r->token_from : -1;
        s->row_banks[i] = r->bank;
        s->positions[i] = r->position;
        t->chained |= r->token == -1;
        t->keep[i] = (r->flags & DS4_ROW_LOGITS) != 0;
        s->row_histories[i] = r->token == -1 ? b->history : NULL; /* `embed` need fill in no others */
        if (!r->flags)
            continue;
        if (n_out == s->desc.max_out)
            return ds4_fail(err, DS4_ERR_ARG, "row %d: it is output %d of the step, expected at most %d", i, n_out + 1,
                            s->desc.max_out);
        s->out_rows[n_out] = i;
        s->samplers[n_out] = (ds4_row_sampler){b->sampling->params, b->mask ? b->mask->words : NULL, b->history,
                                               r->position + 1, r->n_top};
        n_out++;
    }
    t->n_out = n_out;
    return DS4_OK;
}

/* ---- submit ------------------------------------------------------------------------------------------------------ */

/* The program for a number of rows, recorded when its bucket is first met. */
static ds4_program *program_for(ds4_session *s, int32_t n_rows, forward_kind kind, ds4_error *err)
{
    ds4_program **programs = s->programs[kind];
    int bucket = 0;
    int32_t rows, out;
    ds4_program *p;

    while ((INT64_C(1) << bucket) < n_rows)
        bucket++;
    if (programs[bucket])
        return programs[bucket];
    if (forward_prepare(&s->fwd, kind, err))
        return NULL;
    rows = (INT64_C(1) << bucket) < s->desc.max_rows ? 1 << bucket : s->desc.max_rows;
    out = rows < s->desc.max_out ? rows : s->desc.max_out;
    p = s->ops->program_begin(s->be, &s->in, rows, out);
    if (!p) {
        ds4_fail(err, DS4_ERR_MEMORY, "no memory for a program of %d rows", rows);
        return NULL;
    }
    forward_record(&s->fwd, p, kind);
    if (s->ops->program_end(s->be, p, err)) {
        s->ops->program_free(s->be, p);
        return NULL;
    }
    return programs[bucket] = p;
}

/* Raw logits are kept only by the sets that are asked for them: they are larger than everything else. */
static int32_t place_for_logits(ds4_session *s, session_step *t, ds4_error *err)
{
    int wanted = 0;
    uint64_t bytes = 0;
    void *map;

    for (int32_t i = 0; i < t->n_rows && !wanted; i++)
        wanted = t->keep[i];
    if (wanted && !checked_mul((uint64_t)t->n_out * sizeof(float), (uint64_t)s->model->hparams.n_vocab, &bytes))
        return ds4_fail(err, DS4_ERR_MEMORY, "the logits of %d rows do not fit an address space", t->n_out);
    if (wanted && t->out.logits && t->logits_bytes == bytes)
        return DS4_OK;
    unmap_logits(t);
    if (!wanted)
        return DS4_OK;
    map = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED)
        return ds4_fail(err, DS4_ERR_MEMORY, "no memory for %" PRIu64 " bytes of logits", bytes);
    t->out.logits = map;
    t->logits_bytes = (size_t)bytes;
    return DS4_OK;
}

static void write_inputs(ds4_session *s, const session_step *t)
{
    const int32_t counts[4] = {t->n_rows, t->n_out, 0, 0};
    const size_t rows = (size_t)t->n_rows * sizeof(int32_t);

    s->ops->buffer_write(s->be, s->in.counts, 0, counts, sizeof counts);
    s->ops->buffer_write(s->be, s->in.tokens, 0, s->tokens, rows);
    s->ops->buffer_write(s->be, s->in.from, 0, s->from, rows);
    s->ops->buffer_write(s->be, s->in.banks, 0, s->row_banks, rows);
    s->ops->buffer_write(s->be, s->in.positions, 0, s->positions, rows);
    s->ops->buffer_write(s->be, s->in.histories, 0, s->row_histories, (size_t)t->n_rows * sizeof *s->row_histories);
    if (t->n_out) {
        s->ops->buffer_write(s->be, s->in.out_rows, 0, s->out_rows, (size_t)t->n_out * sizeof(int32_t));
        s->ops->buffer_write(s->be, s->in.samplers, 0, s->samplers, (size_t)t->n_out * sizeof *s->samplers);
    }
}

/* The step is running: banks advance, unless it only guesses, and draws are held. */
static void commit(ds4_session *s, session_step *t, int draft)
{
    for (int32_t i = 0; i < t->n_banks; i++) {
        session_bank *b = &s->banks[t->banks[i]];
        b->length = draft ? b->length : b->next;
        if (s->rewind && b->length - s->rewind > b->floor)
            b->floor = b->length - s->rewind; /* and it stays, should the step fail: its rows may have been written */
        b->open++;
    }
    for (int32_t o = 0; o < t->n_out; o++) {
        const session_bank *b = &s->banks[s->row_banks[s->out_rows[o]]];
        t->samplings[o] = b->sampling;
        t->masks[o] = b->mask;
        b->sampling->holders++;
        if (b->mask)
            b->mask->holders++;
    }
    t->condemned = 0;
    t->state = STEP_OPEN;
}

/* What a row that guesses must be beyond a row: take_rows sees to the rest. */
static int32_t check_drafts(const ds4_session *s, const ds4_row *rows, int32_t n_rows, ds4_error *err)
{
    if (!s->fwd.draft)
        return ds4_fail(err, DS4_ERR_ARG, "the session was created without flag %d (draft)", DS4_SESSION_DRAFT);
    for (int32_t i = 0; i < n_rows; i++) {
        if (rows[i].position == 0)
            return ds4_fail(err, DS4_ERR_ARG, "row %d: a guess at position 0 has nothing before it", i);
        if (!rows[i].flags)
            return ds4_fail(err, DS4_ERR_ARG, "row %d: a guess needs the output flag", i);
        if (rows[i].bank >= 0 && rows[i].bank < s->desc.n_banks && rows[i].position != s->banks[rows[i].bank].length)
            return ds4_fail(err, DS4_ERR_ARG, "row %d: position is %d, expected %d, the length of bank %d", i, rows[i].position,
                            s->banks[rows[i].bank].length, rows[i].bank);
    }
    return DS4_OK;
}

static int32_t submit(ds4_session *s, const ds4_batch *batch, int32_t n_rows, forward_kind kind, int64_t *ticket, ds4_error *err)
{
    ds4_error local;
    session_step *t;
    ds4_program *program;
    int32_t status;

    if (!err)
        err = &local;
    if (!s || !batch || !ticket)
        return ds4_fail(err, DS4_ERR_ARG, "session, batch and ticket are all needed");
    *ticket = 0;
    if (n_rows < 1 || n_rows > batch->max_rows || n_rows > s->desc.max_rows)
        return ds4_fail(err, DS4_ERR_ARG, "n_rows is %d, expected 1..%d", n_rows,
                        batch->max_rows < s->desc.max_rows ? batch->max_rows : s->desc.max_rows);
    if (s->last_ticket - s->last_waited >= DS4_STEPS_IN_FLIGHT)
        return ds4_fail(err, DS4_ERR_BUSY, "%d tickets are open, wait for ticket %" PRId64 " first", DS4_STEPS_IN_FLIGHT,
                        s->last_waited + 1);
    if (s->fwd.hidden && s->last_ticket > s->last_waited)
        return ds4_fail(err, DS4_ERR_BUSY, "ticket %" PRId64 " is open, and a session that keeps hidden states has one in"
                        " flight", s->last_ticket);
    if (s->last_ticket > s->last_waited && set_of(s, s->last_ticket)->kind == FORWARD_EMBED)
        return ds4_fail(err, DS4_ERR_BUSY, "ticket %" PRId64 " is open, and it keeps the final norm of its rows: wait for it"
                        " first", s->last_ticket);

    t = set_of(s, s->last_ticket + 1);
    t->kind = kind;
    t->state = STEP_FREE;
    t->ticket = 0;
    t->n_out = 0;
    status = kind == FORWARD_DRAFT ? check_drafts(s, batch->rows, n_rows, err) : DS4_OK;
    if (!status)
        status = take_rows(s, t, batch->rows, n_rows, err);
    if (!status)
        status = place_for_logits(s, t, err);
    if (status) {
        t->n_out = 0;
        return status;
    }
    err->status = DS4_OK;
    program = program_for(s, n_rows, kind, err);
    if (!program) {
        t->n_out = 0;
        return err->status ? err->status : ds4_fail(err, DS4_ERR_INTERNAL, "a program of %d rows was refused", n_rows);
    }
    write_inputs(s, t);
    /* A step that chains to a cancelled one reads these before it is voided itself: they must be tokens. */
    memset(t->out.tokens, 0, (size_t)t->n_out * sizeof *t->out.tokens);
    commit(s, t, kind == FORWARD_DRAFT);
    status = s->ops->run(s->be, program, &t->out, t->chained ? &set_of(s, s->last_ticket)->out : NULL, err);
    if (status) {
        drop_draws(t);
        t->state = STEP_FREE;
        t->n_out = 0;
        for (int32_t i = 0; i < t->n_banks; i++) {
            s->banks[t->banks[i]].length = t->before[i];
            s->banks[t->banks[i]].open--;
        }
        return status;
    }
    t->ticket = *ticket = ++s->last_ticket;
    return ds4_ok(err);
}

int32_t ds4_submit(ds4_session *s, const ds4_batch *batch, int32_t n_rows, int64_t *ticket, ds4_error *err)
{
    return submit(s, batch, n_rows, FORWARD_TOKENS, ticket, err);
}

int32_t ds4_submit_draft(ds4_session *s, const ds4_batch *batch, int32_t n_rows, int64_t *ticket, ds4_error *err)
{
    return submit(s, batch, n_rows, FORWARD_DRAFT, ticket, err);
}

int32_t ds4_submit_embed(ds4_session *s, const ds4_batch *batch, int32_t n_rows, int64_t *ticket, ds4_error *err)
{
    return submit(s, batch, n_rows, FORWARD_EMBED, ticket, err);
}

/* ---- wait -------------------------------------------------------------------------------------------------------- */

static void fall_back(ds4_session *s, const session_step *t)
{
    for (int32_t i = 0; i < t->n_banks; i++)
        s->banks[t->banks[i]].length = t->before[i];
}

static int builds_on(const session_step *later, const session_step *earlier)
{
    if (later->chained)
        return 1;
    for (int32_t i = 0; i < later->n_banks; i++)
        for (int32_t j = 0; j < earlier->n_banks; j++)
            if (later->banks[i] == earlier->banks[j])
                return 1;
    return 0;
}

/* The step computed nothing that counts. A ticket that was submitted after it and builds on it is void as well, though
 * it may run to its end: its banks fall back now, and refuse rows until it has been waited for. */
static void fail_step(ds4_session *s, session_step *t)
{
    session_step *later = t->ticket < s->last_ticket ? set_of(s, t->ticket + 1) : NULL;

    if (later && builds_on(later, t)) {
        later->condemned = 1;
        fall_back(s, later);
        for (int32_t i = 0; i < later->n_banks; i++)
            s->banks[later->banks[i]].condemned++;
    }
    fall_back(s, t);
}

int32_t ds4_wait(ds4_session *s, int64_t ticket, ds4_result *result, ds4_error *err)
{
    ds4_error local;
    session_step *t;
    int64_t elapsed = 0;
    int32_t status;

    if (!err)
        err = &local;
    if (!s || !result)
        return ds4_fail(err, DS4_ERR_ARG, "session and result are both needed");
    memset(result, 0, sizeof *result);
    if (s->last_waited == s->last_ticket)
        return ds4_fail(err, DS4_ERR_ARG, "ticket is %" PRId64 ", but none is open", ticket);
    if (ticket != s->last_waited + 1)
        return ds4_fail(err, DS4_ERR_ARG, "ticket is %" PRId64 ", expected %" PRId64 ", the oldest that is open", ticket,
                        s->last_waited + 1);
    t = set_of(s, ticket);
    ds4_ok(err);
    status = s->ops->wait(s->be, &elapsed, err);
    s->last_waited = ticket;
    drop_draws(t);
    for (int32_t i = 0; i < t->n_banks; i++) {
        session_bank *b = &s->banks[t->banks[i]];
        b->open--;
        b->condemned -= t->condemned;
    }
    if (t->condemned) {
        t->state = STEP_FAILED;
        return ds4_fail(err, DS4_ERR_CANCELLED, "ticket %" PRId64 " built on ticket %" PRId64 ", which did not complete",
                        ticket, ticket - 1);
    }
    if (status) {
        t->state = STEP_FAILED;
        fail_step(s, t);
        if (!err->status)
            ds4_fail(err, status, status == DS4_ERR_CANCELLED ? "ticket %" PRId64 " was cancelled" : "ticket %" PRId64 " failed",
                     ticket);
        return status;
    }
    t->state = STEP_DONE;
    *result = (ds4_result){t->n_rows, t->n_out, t->out.row_out, t->out.tokens, t->out.logprobs, t->out.top_ids,
                           t->out.top_logprobs, elapsed};
    return DS4_OK;
}

const float *ds4_result_logits(const ds4_session *s, int64_t ticket, int32_t row)
{
    const session_step *t = &s->steps[ticket > 0 ? ticket % STEP_SETS : 0];

    if (ticket < 1 || t->ticket != ticket || t->state != STEP_DONE || row < 0 || row >= t->n_rows || !t->keep[row])
        return NULL;
    return t->out.logits + (size_t)t->out.row_out[row] * (size_t)s->model->hparams.n_vocab;
}

int32_t ds4_result_embed(ds4_session *s, int64_t ticket, int32_t row, int32_t n_rows, double *sum, ds4_error *err)
{
    const session_step *t = set_of(s, s->last_ticket);
    const int32_t width = s->model->hparams.d_model;
    const size_t bytes = (size_t)width * sizeof(float);
    float *one;

    if (ticket != s->last_ticket || ticket < 1 || t->state != STEP_DONE)
        return ds4_fail(err, DS4_ERR_ARG, "ticket is %" PRId64 ", expected %" PRId64 ", the last, waited for and complete",
                        ticket, s->last_ticket);
    if (t->kind != FORWARD_EMBED)
        return ds4_fail(err, DS4_ERR_ARG, "ticket %" PRId64 " kept no final norms: it was not submitted for embedding", ticket);
    if (row < 0 || n_rows < 0 || n_rows > t->n_rows - row || !sum)
        return ds4_fail(err, DS4_ERR_ARG, "rows %d to %" PRId64 " are wanted, expected some of 0..%d, and a place for their sum",
                        row, (int64_t)row + n_rows, t->n_rows);
    one = malloc(bytes);
    if (!one)
        return ds4_fail(err, DS4_ERR_MEMORY, "no memory for a row of %d", width);
    for (int32_t i = row; i < row + n_rows; i++) {
        s->ops->buffer_read(s->be, s->fwd.finals, (size_t)i * bytes, one, bytes);
        for (int32_t c = 0; c < width; c++)
            sum[c] += (double)one[c];
    }
    free(one);
    return ds4_ok(err);
}

int32_t ds4_hidden_width(const ds4_session *s) { return forward_width(&s->model->hparams); }

int32_t ds4_result_hidden(ds4_session *s, int64_t ticket, int32_t row, int32_t point, float *out, ds4_error *err)
{
    const session_step *t;
    const int32_t n_layer = s->model->hparams.n_layer;
    const size_t bytes = (size_t)ds4_hidden_width(s) * sizeof(float);

    if (!s->fwd.hidden)
        return ds4_fail(err, DS4_ERR_ARG, "the session was created without flag %d (hidden)", DS4_SESSION_HIDDEN);
    t = set_of(s, s->last_ticket);
    if (ticket != s->last_ticket || ticket < 1 || t->state != STEP_DONE)
        return ds4_fail(err, DS4_ERR_ARG, "ticket is %" PRId64 ", expected %" PRId64 ", the last, waited for and complete",
                        ticket, s->last_ticket);
    if (row < 0 || row >= t->n_rows || t->out.row_out[row] < 0)
        return ds4_fail(err, DS4_ERR_ARG, "row %d of ticket %" PRId64 " has no output", row, ticket);
    if (point < 0 || point > n_layer || !out)
        return ds4_fail(err, DS4_ERR_ARG, "point is %d, expected 0..%d, and a place for it", point, n_layer);
    s->ops->buffer_read(s->be, s->fwd.points[point], (size_t)t->out.row_out[row] * bytes, out, bytes);
    return ds4_ok(err);
}
