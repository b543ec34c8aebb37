"""What must stand in a `deepseek4` file: names, dims and types.

Dims are GGUF's, the contiguous one first. D embedding, n streams, mix = (2 + n) n, H heads of d, G groups of Ro, c = 2
where a layer's ratio is 4, else 1. Every matrix may be of any type that the engine computes with; what is added,
multiplied element by element or compared is F32.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ds4.core.families.contract import EXPERT_TYPES, TABLE_TYPES, VECTOR_TYPES, SlotSpec
from ds4.core.families.deepseek4.mtp import Drafting
from ds4.sys.descriptors import Dsv4, HParams, Role

# The routing bias of image tokens, in files of the vision variant: text does not use it.
IGNORABLE = re.compile(r"blk\.\d+\.exp_probs_b_vl\.bias", re.ASCII)

_MATRIX, _VECTOR, _TABLE = EXPERT_TYPES, VECTOR_TYPES, TABLE_TYPES


def slots(hparams: HParams, mtp: Drafting | None) -> list[SlotSpec]:
    """Every slot. mtp: how the drafting block's tensors are called, which decides how its inputs are projected; None
    leaves those projections out."""
    h, dsv4 = hparams, dsv4_of(hparams)
    streams, n = dsv4.hc_count * h.d_model, dsv4.hc_count
    out = [SlotSpec(Role.TOKEN_EMBD, -1, "token_embd.weight", (h.d_model, h.n_vocab), _MATRIX)]
    for layer, ratio in enumerate(dsv4.ratios):
        out += _block(h, f"blk.{layer}.", layer, ratio, hashed=layer < dsv4.n_hash_layer)
    out += [
        SlotSpec(Role.OUTPUT_HC_FN, -1, "output_hc_fn.weight", (streams, n), _MATRIX),
        SlotSpec(Role.OUTPUT_HC_BASE, -1, "output_hc_base.weight", (n,), _VECTOR),
        SlotSpec(Role.OUTPUT_HC_SCALE, -1, "output_hc_scale.weight", (1,), _VECTOR),
        SlotSpec(Role.OUTPUT_NORM, -1, "output_norm.weight", (h.d_model,), _VECTOR),
        SlotSpec(Role.OUTPUT, -1, "output.weight", (h.d_model, h.n_vocab), _MATRIX),
    ]
    if dsv4.n_mtp:
        at = mtp.prefix if mtp is not None else f"blk.{h.n_layer}."
        out += _block(h, at, h.n_layer, 0, hashed=False, biased=True)
        if mtp is not None:
            out += _drafting(h, mtp)
    return out


def dsv4_of(hparams: HParams) -> Dsv4:
    assert hparams.dsv4 is not None
    return hparams.dsv4


def _block(h: HParams, at: str, layer: int, ratio: int, *, hashed: bool, biased: bool = False) -> Iterator[SlotSpec]:
    """One layer. hashed: experts are chosen by token id. biased: the router's bias must be there."""
    dsv4 = dsv4_of(h)
    d, head, streams = h.d_model, h.head_dim, dsv4.hc_count * h.d_model
    mix = (2 + dsv4.hc_count) * dsv4.hc_count
    heads, low = h.n_head * head, dsv4.groups_o * dsv4.lora_o

    def matrix(role: Role, name: str, *dims: int) -> SlotSpec:
        return SlotSpec(role, layer, f"{at}{name}.weight", dims, _MATRIX)

    def vector(role: Role, name: str, count: int) -> SlotSpec:
        return SlotSpec(role, layer, f"{at}{name}.weight", (count,), _VECTOR)

    yield matrix(Role.HC_ATTN_FN, "hc_attn_fn", streams, mix)
    yield vector(Role.HC_ATTN_BASE, "hc_attn_base", mix)
    yield vector(Role.HC_ATTN_SCALE, "hc_attn_scale", 3)
    yield vector(Role.ATTN_NORM, "attn_norm", d)
    yield matrix(Role.ATTN_Q_A, "attn_q_a", d, dsv4.lora_q)
    yield vector(Role.ATTN_Q_A_NORM, "attn_q_a_norm", dsv4.lora_q)
    yield matrix(Role.ATTN_Q_B, "attn_q_b", dsv4.lora_q, heads)
    yield matrix(Role.ATTN_KV, "attn_kv", d, head)
    yield vector(Role.ATTN_KV_NORM, "attn_kv_a_norm", head)
    yield vector(Role.ATTN_SINKS, "attn_sinks", h.n_head)
    if ratio:
        wide = head * (2 if ratio == 4 else 1)
        yield matrix(Role.COMPRESS_KV, "attn_compressor_kv", d, wide)
        yield matrix(Role.COMPRESS_GATE, "attn_compressor_gate", d, wide)
        yield matrix(Role.COMPRESS_APE, "attn_compressor_ape", wide, ratio)
        yield vector(Role.COMPRESS_NORM, "attn_compressor_norm", head)
    if ratio == 4:
        wide = 2 * dsv4.index_dim
        yield matrix(Role.INDEX_Q_B, "indexer.attn_q_b", dsv4.lora_q, dsv4.index_heads * dsv4.index_dim)
        yield matrix(Role.INDEX_PROJ, "indexer.proj", d, dsv4.index_heads)
        yield matrix(Role.INDEX_KV, "indexer_compressor_kv", d, wide)
        yield matrix(Role.INDEX_GATE, "indexer_compressor_gate", d, wide)
        yield matrix(Role.INDEX_APE, "indexer_compressor_ape", wide, 4)
        yield vector(Role.INDEX_NORM, "indexer_compressor_norm", dsv4.index_dim)
    yield matrix(Role.ATTN_OUT_A, "attn_output_a", heads // dsv4.groups_o, low)
    yield matrix(Role.ATTN_OUT_B, "attn_output_b", low, d)
    yield matrix(Role.HC_FFN_FN, "hc_ffn_fn", streams, mix)
    yield vector(Role.HC_FFN_BASE, "hc_ffn_base", mix)
    yield vector(Role.HC_FFN_SCALE, "hc_ffn_scale", 3)
    yield vector(Role.FFN_NORM, "ffn_norm", d)
    yield matrix(Role.ROUTER, "ffn_gate_inp", d, dsv4.n_expert)
    if hashed:
        dims = (dsv4.n_expert_used, h.n_vocab)
        yield SlotSpec(Role.ROUTER_HASH, layer, at + "ffn_gate_tid2eid.weight", dims, _TABLE)
    else:
        yield SlotSpec(Role.ROUTER_BIAS, layer, at + "exp_probs_b.bias", (dsv4.n_expert,), _VECTOR, required=biased)
    yield matrix(Role.EXPERTS_GATE, "ffn_gate_exps", d, dsv4.d_expert, dsv4.n_expert)
    yield matrix(Role.EXPERTS_UP, "ffn_up_exps", d, dsv4.d_expert, dsv4.n_expert)
    yield matrix(Role.EXPERTS_DOWN, "ffn_down_exps", dsv4.d_expert, d, dsv4.n_expert)
    yield matrix(Role.SHARED_GATE, "ffn_gate_shexp", d, h.d_ff)
    yield matrix(Role.SHARED_UP, "ffn_up_shexp", d, h.d_ff)
    yield matrix(Role.SHARED_DOWN, "ffn_down_shexp", h.d_ff, d)


def _drafting(h: HParams, mtp: Drafting) -> Iterator[SlotSpec]:
    """What the drafting block has beyond a layer."""
    d, n, table = h.d_model, dsv4_of(h).hc_count, (h.d_model, h.n_vocab)

    def slot(role: Role, name: str, *dims: int, required: bool = True) -> SlotSpec:
        return SlotSpec(role, h.n_layer, name, dims, _MATRIX if len(dims) > 1 else _VECTOR, required)

    names = mtp.names
    if names.eh_proj:
        yield slot(Role.MTP_EH_PROJ, names.eh_proj, 2 * d, d)
    else:
        yield slot(Role.MTP_E_PROJ, names.e_proj, d, d)
        yield slot(Role.MTP_H_PROJ, names.h_proj, d, d)
    yield slot(Role.MTP_E_NORM, names.e_norm, d)
    yield slot(Role.MTP_H_NORM, names.h_norm, d)
    yield slot(Role.MTP_NORM, names.norm, d, required=names.whole_head)
    yield slot(Role.MTP_HC_FN, names.hc_fn, n * d, n, required=names.whole_head)
    yield slot(Role.MTP_HC_BASE, names.hc_base, n, required=names.whole_head)
    yield slot(Role.MTP_HC_SCALE, names.hc_scale, 1, required=names.whole_head)
    if names.embedding:
        yield slot(Role.MTP_TOKEN_EMBD, names.embedding, *table, required=False)
        yield slot(Role.MTP_OUTPUT, names.output, *table, required=False)
