/* plan.c - turns become items: merged, results in the order of the calls, old developer items dropped. */
#include <stdlib.h>

#include "oracles/common/names.h"
#include "oracles/encoder/conversation.h"

static void merge(const conversation *c, plan *p) {
    for (size_t i = 0; i < c->turn_count; i++) {
        const turn *t = &c->turns[i];
        const role role = t->role == ROLE_TOOL ? ROLE_USER : t->role;
        p->turns[i] = t;
        if (role == ROLE_USER && p->count > 0 && p->items[p->count - 1].role == ROLE_USER) p->items[p->count - 1].count++;
        else p->items[p->count++] = (item){role, i, 1};
    }
}

/* ---- results in the order of the calls ---- */

typedef struct result {
    uint64_t number; /* of its call */
    size_t place;    /* where it stood */
    const turn *turn;
} result;

static int compare(const void *left, const void *right) {
    const result *a = left, *b = right;
    if (a->number != b->number) return a->number < b->number ? -1 : 1;
    return a->place < b->place ? -1 : a->place > b->place;
}

/* Of equal ids the later call's number stays, and a map keeps what it had first: so from the last call to the first. */
static bool number_calls(const conversation *c, const turn *t, names *order) {
    names_free(order);
    for (size_t i = t->calls.count; i-- > 0;) {
        const bytes id = c->calls[t->calls.first + i].id;
        if (id.length > 0 && names_add(order, id, i) == NAME_NO_MEMORY) return false;
    }
    return true;
}

static void sort_results(const item *user, const names *order, plan *p, result *results) {
    size_t count = 0;
    for (size_t i = user->first; i < user->first + user->count; i++) {
        if (p->turns[i]->role != ROLE_TOOL) continue;
        results[count] = (result){0, i, p->turns[i]};
        names_get(order, p->turns[i]->id, &results[count].number);
        count++;
    }
    if (count < 2) return;
    qsort(results, count, sizeof *results, compare);
    for (size_t i = user->first, next = 0; i < user->first + user->count; i++)
        if (p->turns[i]->role == ROLE_TOOL) p->turns[i] = results[next++].turn;
}

static bool order_results(const conversation *c, plan *p) {
    names order = {0};
    bool good = true;
    result *results = malloc((c->turn_count + 1) * sizeof *results);
    if (results == NULL) return false;
    for (size_t i = 0; i < p->count && good; i++) {
        const item *at = &p->items[i];
        if (at->role == ROLE_ASSISTANT && p->turns[at->first]->calls.count > 0) good = number_calls(c, p->turns[at->first], &order);
        else if (at->role == ROLE_USER && order.used > 0) sort_results(at, &order, p, results);
    }
    names_free(&order);
    free(results);
    return good;
}

/* ---- dropping ---- */

static void find_last(plan *p) {
    p->last = (ptrdiff_t)p->count - 1;
    while (p->last >= 0 && p->items[p->last].role != ROLE_USER && p->items[p->last].role != ROLE_DEVELOPER) p->last--;
}

/* The reasoning in front of `last` is left out when it comes to writing. */
static void drop(const conversation *c, plan *p) {
    p->dropping = c->thinking && c->drop && c->tool_count == 0;
    find_last(p);
    if (!p->dropping) return;
    size_t kept = 0;
    for (size_t i = 0; i < p->count; i++)
        if (p->items[i].role != ROLE_DEVELOPER || (ptrdiff_t)i >= p->last) p->items[kept++] = p->items[i];
    p->count = kept;
    find_last(p);
}

bool plan_make(const conversation *c, plan *p) {
    *p = (plan){0};
    p->turns = malloc((c->turn_count + 1) * sizeof *p->turns);
    p->items = malloc((c->turn_count + 1) * sizeof *p->items);
    if (p->turns == NULL || p->items == NULL) return false;
    merge(c, p);
    if (!order_results(c, p)) return false;
    drop(c, p);
    return true;
}

void plan_free(plan *p) {
    free(p->turns);
    free(p->items);
    *p = (plan){0};
}
