"""What a bank of this family takes: native's `ds4_bank_bytes` again, for planning before native is loaded.

A bank holds, for each layer:

    raw rows         of the last window + rewind positions
    rolling state    layers with a ratio r: fp32, twice the columns c of what is compressed, of the last reach + rewind
                     positions; reach is 2 r where windows overlap (r = 4), else r
    compressed rows  one for each r positions: all that grows with the context
    the last two     once more, of the indexer's width, in layers of ratio 4

and for a block that drafts one more layer without a ratio, and the residual streams of the last rewind + 1 positions.
rewind is two steps' rows. Each array is a whole number of pages.
"""

from __future__ import annotations

import mmap

from ds4.core.families.cache import row_bytes
from ds4.sys.descriptors import STEPS_IN_FLIGHT, Dsv4, GgmlType, HParams

_RATIO_OVERLAPPING = 4


def _up(size: int, unit: int) -> int:
    return -(-size // unit) * unit


def _own(hparams: HParams) -> Dsv4:
    assert hparams.dsv4 is not None, "parameters of another family"
    return hparams.dsv4


def kv_bytes_per_position(hparams: HParams, kv_type: GgmlType) -> int:
    """Compressed rows alone, rounded up: in 128ths, as every ratio divides 128."""
    own = _own(hparams)
    row, index = row_bytes(kv_type, hparams.head_dim), row_bytes(kv_type, own.index_dim)
    parts = {4: 32 * (row + index), 128: row}
    return -(-sum(parts.get(ratio, 0) for ratio in own.ratios) // 128)


def bank_bytes(hparams: HParams, kv_type: GgmlType, n_ctx: int, max_rows: int) -> int:
    """Bytes of a full bank of n_ctx positions, in a session whose steps have max_rows rows at most."""
    own, page = _own(hparams), mmap.PAGESIZE
    rewind = STEPS_IN_FLIGHT * max_rows

    def stream(ratio: int, width: int) -> int:
        overlapping = ratio == _RATIO_OVERLAPPING
        states = min((2 if overlapping else 1) * ratio + rewind, n_ctx)
        state = states * 2 * 4 * (2 * width if overlapping else width)
        rows = n_ctx // ratio * row_bytes(kv_type, width)
        return _up(state, page) + _up(rows, page)

    def layer(ratio: int) -> int:
        raw = min(hparams.sliding_window + rewind, n_ctx) * row_bytes(kv_type, hparams.head_dim)
        size = _up(raw, page)
        if ratio:
            size += stream(ratio, hparams.head_dim)
        if ratio == _RATIO_OVERLAPPING:
            size += stream(ratio, own.index_dim)
        return size

    total = sum(map(layer, own.ratios))
    if own.n_mtp:
        carried = min(rewind + 1, n_ctx)
        total += own.n_mtp * layer(0) + _up(4 * carried * own.hc_count * hparams.d_model, page)
    return total
