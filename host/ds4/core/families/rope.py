"""The `ARCH.rope.scaling.*` keys: how positions past the original context are reached.

Their meaning is that of llama.cpp's loader; YaRN is arXiv 2309.00071.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ds4.core.cursor import shown
from ds4.core.families.keys import Keys
from ds4.errors import UnsupportedModelError
from ds4.sys.descriptors import RopeScaling


@dataclass(frozen=True, slots=True)
class Rope:
    kind: RopeScaling
    factor: float = 1.0
    attn_factor: float = 1.0
    ext_factor: float = 0.0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    ctx_original: int = 0


def scaling(keys: Keys, n_ctx_train: int) -> Rope:
    """How positions past the original context are reached.

    A factor without a type is linear scaling, as it was before the type key existed; factor 0 has always meant 1.
    """
    old = keys.number("rope.scale_linear", 0.0, 1e6, default=0.0)
    factor = keys.number("rope.scaling.factor", 0.0, 1e6, default=old) or 1.0
    attn_factor = keys.number("rope.scaling.attn_factor", 1e-3, 1e3, default=1.0)
    kind = keys.string("rope.scaling.type", "linear")
    if kind not in ("none", "linear", "yarn"):
        raise UnsupportedModelError(
            "this rope scaling is not supported",
            code="unsupported_key",
            subject=keys.name("rope.scaling.type"),
            expected="none, linear or yarn",
            found=shown(kind),
        )
    yarn = _yarn(keys, factor, attn_factor, n_ctx_train)
    if kind == "none":
        return Rope(RopeScaling.NONE, attn_factor=attn_factor)
    if factor < 1.0:
        keys.fail("rope.scaling.factor", "rope scaling only stretches", "1 or more", factor)
    if kind == "yarn":
        return yarn
    scaling = RopeScaling.LINEAR if factor > 1.0 else RopeScaling.NONE
    return Rope(scaling, factor=factor, attn_factor=attn_factor)


def _yarn(keys: Keys, factor: float, attn_factor: float, n_ctx_train: int) -> Rope:
    """YaRN's keys. Cos and sin are multiplied by m(s) = 0.1 ln s + 1, or by m(s) / (0.1 k ln s + 1) if the file gives a
    log multiplier k, and by attn_factor; only with ext_factor 0 does the magnitude stay as it is."""
    ext_factor = keys.number("rope.scaling.yarn_ext_factor", 0.0, 1.0, default=1.0)
    log_multiplier = keys.number("rope.scaling.yarn_log_multiplier", 0.0, 1e4, default=0.0)
    given = keys.number("rope.scaling.yarn_attn_factor", 1e-3, 1e3, default=1.0)
    beta_slow = keys.number("rope.scaling.yarn_beta_slow", 1e-3, 1e6, default=1.0)
    beta_fast = keys.number("rope.scaling.yarn_beta_fast", beta_slow, 1e6, default=max(32.0, beta_slow))
    ctx_original = keys.integer("rope.scaling.original_context_length", 1, default=n_ctx_train)
    magnitude = given
    if ext_factor > 0.0:
        stretch = 0.1 * math.log(max(factor, 1.0))
        magnitude = (stretch + 1.0) / (stretch * log_multiplier + 1.0)
    return Rope(
        RopeScaling.YARN,
        factor=factor,
        attn_factor=magnitude * attn_factor,
        ext_factor=ext_factor,
        beta_fast=beta_fast,
        beta_slow=beta_slow,
        ctx_original=ctx_original,
    )
