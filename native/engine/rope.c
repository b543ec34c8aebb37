/* rope.c - the angles of the rotary embedding, with context extension folded in.
 *
 * Pair i of d/2 turns by theta_i = base^(-2i/d) per position.
 *   linear:  theta_i / s
 *   YaRN (Peng et al., 2023, "NTK-by-parts", arXiv 2309.00071 section 3.2): pairs that turn more than beta_fast times
 *            within the original context keep theta_i, those that turn less than beta_slow times get theta_i / s, and a
 *            linear ramp joins them. The pair that turns n times over the context L is
 *            i(n) = d ln(L / (2 pi n)) / (2 ln base), rounded outwards as published implementations do.
 * A model may carry a divisor for each pair (llama 3); it applies to theta_i before the scaling. */
#include "native/engine/model.h"

#include <math.h>

static double pair_that_turns(const ds4_hparams *h, double n)
{
    return h->rope_dim * log(h->rope_ctx_original / (2.0 * 3.14159265358979323846 * n)) / (2.0 * log(h->rope_base));
}

void rope_table(const ds4_hparams *h, const float *divisors, float *inv_freq)
{
    double first = 0, last = 0;

    if (h->rope_scaling == DS4_ROPE_SCALING_YARN) {
        first = fmax(0, floor(pair_that_turns(h, h->rope_beta_fast)));
        last = fmin(h->rope_dim - 1, ceil(pair_that_turns(h, h->rope_beta_slow)));
    }
    for (int32_t i = 0; i < h->rope_dim / 2; i++) {
        double theta = pow(h->rope_base, -2.0 * i / h->rope_dim);
        double keep = 0; /* share of the angle that is not interpolated */

        if (divisors)
            theta /= divisors[i];
        if (h->rope_scaling == DS4_ROPE_SCALING_NONE)
            keep = 1;
        else if (h->rope_scaling == DS4_ROPE_SCALING_YARN)
            keep = h->rope_ext_factor * (1 - fmin(1, fmax(0, (i - first) / fmax(0.001, last - first))));
        inv_freq[i] = (float)(theta * keep + theta / h->rope_factor * (1 - keep));
    }
}
