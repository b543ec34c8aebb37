/* dsv4_plan_test.c - which tensors DeepSeek V4's layers have, of which dims, and what of its numbers is refused. */
#include "native/engine/plan.h"
#include "native/tests/check.h"

#include <math.h>
#include <string.h>

enum { LAYERS = 4 };

static int32_t ratios[LAYERS];
static float clamps[LAYERS + 1];
static ds4_dsv4 dsv4;
static ds4_hparams hparams;

/* Layers of ratio 0, 4, 128 and 4, the first of which takes its experts by token, and a block that drafts. */
static void reset(void)
{
    memcpy(ratios, (const int32_t[]){0, 4, 128, 4}, sizeof ratios);
    for (int i = 0; i <= LAYERS; i++)
        clamps[i] = 10;
    dsv4 = (ds4_dsv4){.lora_q = 48, .lora_o = 24, .groups_o = 2, .n_expert = 12, .n_expert_used = 3, .d_expert = 40, .n_hash_layer = 1,
                      .index_heads = 5, .index_dim = 32, .index_top_k = 7, .hc_count = 3, .hc_iterations = 20, .n_mtp = 1,
                      .n_ratios = LAYERS, .n_clamps = LAYERS + 1, .expert_scale = 1.5f, .hc_eps = 1e-6f, .compress_rope_base = 160000,
                      .ratios = ratios, .clamp_experts = clamps, .clamp_shared = clamps};
    hparams = (ds4_hparams){.family = DS4_FAMILY_DEEPSEEK4, .n_layer = LAYERS, .d_model = 96, .n_head = 4, .n_head_kv = 1, .head_dim = 64,
                            .d_ff = 56, .n_vocab = 101, .rope_kind = DS4_ROPE_NORM, .rope_dim = 16, .sliding_window = 8, .dsv4 = &dsv4};
}

typedef struct expected {
    int32_t role;
    plan_presence of[LAYERS + 1]; /* the last: the block that drafts */
} expected;

static void a_layer_has_what_its_ratio_and_its_routing_ask_for(void)
{
    static const expected all[] = {
        {DS4_ROLE_ATTN_KV, {PLAN_REQUIRED, PLAN_REQUIRED, PLAN_REQUIRED, PLAN_REQUIRED, PLAN_REQUIRED}},
        {DS4_ROLE_ATTN_SINKS, {PLAN_REQUIRED, PLAN_REQUIRED, PLAN_REQUIRED, PLAN_REQUIRED, PLAN_REQUIRED}},
        {DS4_ROLE_COMPRESS_KV, {PLAN_ABSENT, PLAN_REQUIRED, PLAN_REQUIRED, PLAN_REQUIRED, PLAN_ABSENT}},
        {DS4_ROLE_COMPRESS_NORM, {PLAN_ABSENT, PLAN_REQUIRED, PLAN_REQUIRED, PLAN_REQUIRED, PLAN_ABSENT}},
        {DS4_ROLE_INDEX_KV, {PLAN_ABSENT, PLAN_REQUIRED, PLAN_ABSENT, PLAN_REQUIRED, PLAN_ABSENT}},
        {DS4_ROLE_INDEX_Q_B, {PLAN_ABSENT, PLAN_REQUIRED, PLAN_ABSENT, PLAN_REQUIRED, PLAN_ABSENT}},
        {DS4_ROLE_ROUTER_HASH, {PLAN_REQUIRED, PLAN_ABSENT, PLAN_ABSENT, PLAN_ABSENT, PLAN_ABSENT}},
        {DS4_ROLE_ROUTER_BIAS, {PLAN_ABSENT, PLAN_OPTIONAL, PLAN_OPTIONAL, PLAN_OPTIONAL, PLAN_OPTIONAL}},
        {DS4_ROLE_MTP_E_NORM, {PLAN_ABSENT, PLAN_ABSENT, PLAN_ABSENT, PLAN_ABSENT, PLAN_REQUIRED}},
        {DS4_ROLE_MTP_EH_PROJ, {PLAN_ABSENT, PLAN_ABSENT, PLAN_ABSENT, PLAN_ABSENT, PLAN_OPTIONAL}},
    };
    int64_t dims[DS4_MAX_DIMS];
    reset();
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        for (int32_t l = 0; l <= LAYERS; l++) {
            const plan_presence found = plan_dsv4_dims(&hparams, all[i].role, l, dims);
            CHECK(found == all[i].of[l], "%s of layer %d: %d, not %d", plan_dsv4_role(all[i].role).name, l, (int)found, (int)all[i].of[l]);
        }
}

static void dims_are(int32_t role, int32_t layer, int64_t a, int64_t b, int64_t c)
{
    int64_t d[DS4_MAX_DIMS];
    plan_dsv4_dims(&hparams, role, layer, d);
    CHECK(d[0] == a && d[1] == b && d[2] == c && d[3] == 1, "%s of layer %d: %d x %d x %d, not %d x %d x %d", plan_dsv4_role(role).name, layer,
          (int)d[0], (int)d[1], (int)d[2], (int)a, (int)b, (int)c);
}

static void dims_follow_from_the_numbers_of_the_file(void)
{
    reset();
    dims_are(DS4_ROLE_ATTN_Q_B, 0, 48, 256, 1);
    dims_are(DS4_ROLE_ATTN_OUT_A, 0, 128, 48, 1); /* of a group: half of the heads */
    dims_are(DS4_ROLE_ATTN_OUT_B, 0, 48, 96, 1);
    dims_are(DS4_ROLE_COMPRESS_KV, 1, 96, 128, 1); /* overlapping windows have two halves */
    dims_are(DS4_ROLE_COMPRESS_KV, 2, 96, 64, 1);
    dims_are(DS4_ROLE_COMPRESS_APE, 1, 128, 4, 1);
    dims_are(DS4_ROLE_COMPRESS_APE, 2, 64, 128, 1);
    dims_are(DS4_ROLE_INDEX_Q_B, 1, 48, 160, 1);
    dims_are(DS4_ROLE_INDEX_APE, 1, 64, 4, 1);
    dims_are(DS4_ROLE_HC_ATTN_FN, 0, 288, 15, 1);
    dims_are(DS4_ROLE_HC_ATTN_SCALE, 0, 3, 1, 1);
    dims_are(DS4_ROLE_OUTPUT_HC_FN, -1, 288, 3, 1); /* the head only collapses the streams */
    dims_are(DS4_ROLE_OUTPUT_HC_SCALE, -1, 1, 1, 1);
    dims_are(DS4_ROLE_ROUTER_HASH, 0, 3, 101, 1);
    dims_are(DS4_ROLE_EXPERTS_UP, 0, 96, 40, 12);
    dims_are(DS4_ROLE_EXPERTS_DOWN, 0, 40, 96, 12);
    dims_are(DS4_ROLE_SHARED_DOWN, 0, 56, 96, 1);
    dims_are(DS4_ROLE_MTP_EH_PROJ, LAYERS, 192, 96, 1);
}

static void refused(const char *names)
{
    ds4_error err = {0};
    const int32_t status = plan_dsv4_hparams(&hparams, &err);
    CHECK(status && strstr(err.message, names), "expected a refusal naming %s, found %d: %s", names, status, err.message);
    reset();
}

static void numbers_that_fit_no_model_are_refused_by_name(void)
{
    ds4_error err = {0};
    reset();
    CHECK(!plan_dsv4_hparams(&hparams, &err), "%s", err.message);
    hparams.dsv4 = NULL, refused("dsv4");
    dsv4.n_expert_used = 13, refused("n_expert_used");
    dsv4.n_expert_used = 0, refused("n_expert_used");
    dsv4.n_hash_layer = LAYERS + 1, refused("n_hash_layer");
    dsv4.groups_o = 3, refused("groups_o");
    dsv4.hc_count = 17, refused("hc_count");
    dsv4.hc_iterations = 0, refused("hc_iterations");
    dsv4.index_dim = 8, refused("index_dim"); /* below what rotates */
    dsv4.n_ratios = 3, refused("n_ratios");
    dsv4.n_clamps = LAYERS, refused("n_clamps"); /* none for the block that drafts */
    dsv4.hc_eps = NAN, refused("hc_eps");
    dsv4.d_expert = 1 << 23, refused("n_expert_used * d_expert");
    ratios[2] = 8, refused("ratios[2]");
    clamps[LAYERS] = 0, refused("layer 4");
    clamps[1] = NAN, refused("layer 1");
    dsv4.clamp_shared = NULL, refused("clamps");
    hparams.rope_scaling = DS4_ROPE_SCALING_YARN, dsv4.compress_rope_base = 1, refused("compress_rope_base");
    hparams.n_head_kv = 2, refused("n_head_kv");
    hparams.head_dim = 40, refused("head_dim");
    hparams.rope_kind = DS4_ROPE_NORM + 1, refused("rope_kind");
    hparams.sliding_window = 0, refused("sliding_window");
}

static void a_block_that_drafts_has_its_streams_whole_and_one_kind_of_projection(void)
{
    static const struct {
        int32_t roles[4];
        const char *names; /* NULL: fits */
    } cases[] = {
        {{DS4_ROLE_MTP_EH_PROJ, 0, 0, 0}, NULL},
        {{DS4_ROLE_MTP_E_PROJ, DS4_ROLE_MTP_H_PROJ, 0, 0}, NULL},
        {{DS4_ROLE_MTP_HC_FN, DS4_ROLE_MTP_HC_BASE, DS4_ROLE_MTP_HC_SCALE, DS4_ROLE_MTP_EH_PROJ}, NULL},
        {{DS4_ROLE_MTP_HC_FN, DS4_ROLE_MTP_HC_BASE, DS4_ROLE_MTP_EH_PROJ, 0}, "mtp_hc_scale"},
        {{DS4_ROLE_MTP_E_PROJ, 0, 0, 0}, "mtp_h_proj"},
        {{DS4_ROLE_MTP_E_PROJ, DS4_ROLE_MTP_H_PROJ, DS4_ROLE_MTP_EH_PROJ, 0}, "mtp_eh_proj"},
        {{0, 0, 0, 0}, "mtp_eh_proj"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint8_t seen[256] = {0};
        ds4_error err = {0};
        for (int r = 0; r < 4; r++)
            seen[cases[i].roles[r]] = cases[i].roles[r] > 0;
        const int32_t status = plan_dsv4_together(seen, &err);
        CHECK(cases[i].names ? status && strstr(err.message, cases[i].names) : !status, "case %d: %d, %s", (int)i, status, err.message);
    }
}

int main(void)
{
    RUN(a_layer_has_what_its_ratio_and_its_routing_ask_for);
    RUN(dims_follow_from_the_numbers_of_the_file);
    RUN(numbers_that_fit_no_model_are_refused_by_name);
    RUN(a_block_that_drafts_has_its_streams_whole_and_one_kind_of_projection);
    CHECK_DONE();
}
