"""Inventories of `llama` models out of bytes, as input tapes of component `bind`: right ones, and all ways to be wrong.

Only lines are put together here; nothing is shared with the planner.
"""

from __future__ import annotations

import functools
import struct
from dataclasses import dataclass, field

from parity.choices import Choices

BLOCKS = {
    **{0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 10: (256, 84)},
    **{11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210), 30: (1, 2)},
}
KNOWN = (
    "block_count embedding_length feed_forward_length attention.head_count attention.head_count_kv "
    "attention.key_length attention.value_length context_length rope.dimension_count rope.scale_linear "
    "rope.scaling.factor rope.scaling.attn_factor rope.scaling.type rope.scaling.yarn_ext_factor "
    "rope.scaling.yarn_log_multiplier rope.scaling.yarn_attn_factor rope.scaling.yarn_beta_slow "
    "rope.scaling.yarn_beta_fast rope.scaling.original_context_length rope.freq_base attention.sliding_window "
    "vocab_size attention.layer_norm_rms_epsilon attention.scale expert_count expert_used_count attention.causal "
    "attention.clamp_kqv attention.max_alibi_bias attention.sliding_window_pattern attention.shared_kv_layers "
    "attention.key_length_mla attention.value_length_mla attn_logit_softcapping final_logit_softcapping "
    "embedding_scale residual_scale logit_scale rope.dimension_sections rope.scaling.alpha use_parallel_residual "
    "nextn_predict_layers tensor_data_layout rope.scaling.finetuned"
).split()
USED = KNOWN[:24]
INTEGERS = (b"u32", b"u8", b"i8", b"u16", b"i16", b"i32", b"u64", b"i64")
COUNTS = {f"{kind}{bits}".encode(): bits for kind in "ui" for bits in (8, 16, 32, 64)}


def f32(value: float) -> bytes:
    return b"f32 " + struct.pack(">f", value).hex().upper().encode()


def f64(value: float) -> bytes:
    return b"f64 " + struct.pack(">d", value).hex().upper().encode()


NUMBERS = (0, 1, 2, 3, 4, 6, 8, 16, 32, 64, 100, 128, 255, 256, 1023, 1024, 1025, 32768, 65536, 65537, 2**24, 2**24 + 2)
WIDE = (*NUMBERS, -1, -128, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 1)
FLOATS = (
    *(1.0, 2.0, 4.0, 0.0, -0.0, 0.5, 1e-5, 1.5, 8.0, 32.0, 40.0, 1e-3, 1e-4, 1e3, 1e4, 1e5, 1e6, 1e7, 1e12, 2e12),
    *(0.1, 0.999, -1.0, 1e-45, 1e38, float("inf"), float("-inf"), 0.30000001, 7.25, 0.707),
)
TEXTS = (
    b"yarn",
    b"linear",
    b"none",
    b"%-",
    b"YARN",
    b"longrope",
    b"llama",
    b"model",
    b"qwen2",
    b"adapter",
    b"llama%00",
    b"%E2%82%AC",
)


def _value(choices: Choices) -> bytes:
    """`<type> <value>` of any kind."""
    what = choices.below(12)
    if what < 3:
        return f32(choices.of(FLOATS))
    if what == 3:
        return f64(choices.of((*FLOATS, 1e-300, 1e-3 * (1 - 2**-53), 1 + 2**-40)))
    if what < 7:
        return _integer(choices)
    if what == 7:
        return b"string " + choices.of(TEXTS)
    if what == 8:
        return b"bool %d" % choices.below(2)
    if what == 9:
        return choices.of((b"f32 nan", b"f64 nan"))
    return _array(choices)


def _integer(choices: Choices) -> bytes:
    kind, value = choices.of(INTEGERS), choices.of(WIDE)
    low, high = _range(kind)
    return b"%s %d" % (kind, min(max(value, low), high))


def _range(kind: bytes) -> tuple[int, int]:
    bits = COUNTS[kind]
    return (0, (1 << bits) - 1) if kind.startswith(b"u") else (-(1 << bits - 1), (1 << bits - 1) - 1)


def _array(choices: Choices) -> bytes:
    count = choices.of((2, 1, 0, 3, 1024, 1025, 2**40, 2**63 - 1))
    element = choices.of((*INTEGERS, b"f32", b"string", b"bool", b"array", b"f64"))
    if element not in INTEGERS or not count:
        return b"array %s %d" % (element, count)
    low, high = _range(element)
    least = min(max(choices.of(WIDE), low), high)
    greatest = least if count == 1 or not choices.once_in(4) else min(least + choices.of((1, 100)), high)
    return b"array %s %d %d %d" % (element, count, least, greatest)


@dataclass
class Shape:
    """A model's shape; types: of matrices, in turn."""

    layers: int = 1
    width: int = 4
    heads: int = 2
    kv_heads: int = 1
    head: int = 2
    hidden: int = 3
    vocab: int = 5
    types: tuple[int, ...] = (0,)
    shards: int = 1
    head_tensor: bool = False
    freqs: bool = False
    keys: tuple[tuple[bytes, bytes], ...] = ()


@dataclass
class Draft:
    shards: list[list[int]] = field(default_factory=list)
    keys: list[tuple[bytes, bytes]] = field(default_factory=list)
    tensors: list[tuple[bytes, list[int], tuple[int, ...]]] = field(default_factory=list)  # name, four numbers, dims

    def copy(self) -> Draft:
        return Draft([list(s) for s in self.shards], list(self.keys), list(self.tensors))

    def tape(self) -> bytes:
        out = [b"plan %d %d %d\n" % (len(self.shards), len(self.keys), len(self.tensors))]
        out += [b"shard %d %d %d\n" % tuple(shard) for shard in self.shards]
        out += [b"key %s %s\n" % pair for pair in self.keys]
        for name, numbers, dims in self.tensors:
            out.append(b"tensor %s %s\n" % (name, " ".join(map(str, (*numbers, *dims))).encode()))
        return b"".join(out)


def draft(shape: Shape) -> Draft:
    s = shape
    made = Draft([[0, 64, 32] for _ in range(s.shards)])
    made.keys = [
        (b"general.architecture", b"string llama"),
        (b"llama.block_count", b"u32 %d" % s.layers),
        (b"llama.context_length", b"u32 2048"),
        (b"llama.embedding_length", b"u32 %d" % s.width),
        (b"llama.feed_forward_length", b"u32 %d" % s.hidden),
        (b"llama.attention.head_count", b"u32 %d" % s.heads),
        (b"llama.attention.head_count_kv", b"u32 %d" % s.kv_heads),
        (b"llama.attention.layer_norm_rms_epsilon", f32(1e-5)),
        (b"tokenizer.ggml.tokens", b"array string %d" % s.vocab),
    ]
    for key, value in s.keys:
        made.keys = [pair for pair in made.keys if pair[0] != key] + [(key, value)]
    q, kv = s.heads * s.head, s.kv_heads * s.head
    rows: list[tuple[str, tuple[int, ...], bool]] = [("token_embd", (s.width, s.vocab), True)]
    for layer in range(s.layers):
        at = f"blk.{layer}."
        rows += [
            (at + "attn_norm", (s.width,), False),
            (at + "attn_q", (s.width, q), True),
            (at + "attn_k", (s.width, kv), True),
            (at + "attn_v", (s.width, kv), True),
            (at + "attn_output", (q, s.width), True),
            (at + "ffn_norm", (s.width,), False),
            (at + "ffn_gate", (s.width, s.hidden), True),
            (at + "ffn_up", (s.width, s.hidden), True),
            (at + "ffn_down", (s.hidden, s.width), True),
        ]
    rows.append(("output_norm", (s.width,), False))
    if s.head_tensor:
        rows.append(("output", (s.width, s.vocab), True))
    if s.freqs:
        rows.append(("rope_freqs", (s.head // 2,), False))
    for index, (name, dims, matrix) in enumerate(rows):
        shard = made.shards[index * s.shards // len(rows)]
        kind = s.types[index % len(s.types)] if matrix else 0
        size, place = _bytes(kind, dims), max(shard[0], shard[1])
        numbers = [index * s.shards // len(rows), kind, place, size]
        made.tensors.append((name.encode() + b".weight", numbers, dims))
        shard[0] = place + -(-size // 32) * 32
    for shard in made.shards:
        shard[0] = max(shard)
    return made


def _bytes(kind: int, dims: tuple[int, ...]) -> int:
    block, nbytes = BLOCKS[kind]
    count = 1
    for dim in dims:
        count *= dim
    return min(count // block * nbytes, 2**63 - 1)  # no tape holds more


@functools.cache
def drafts() -> tuple[Draft, ...]:
    """Right models of every shape."""
    yarn = ((b"llama.rope.scaling.type", b"string yarn"), (b"llama.rope.scaling.factor", f32(4.0)))
    lists = tuple(
        (b"llama." + key, b"array i32 2 %d %d" % (value, value))
        for key, value in ((b"feed_forward_length", 32), (b"attention.head_count", 4), (b"attention.head_count_kv", 2))
    )
    stated = ((b"llama.attention.key_length", b"u32 6"), (b"llama.attention.value_length", b"u32 6"))
    old = ((b"llama.rope.scale_linear", f32(2.0)), (b"llama.vocab_size", b"u32 5"), (b"llama.shoe_size", b"u8 44"))
    return tuple(
        draft(shape)
        for shape in (
            Shape(),
            Shape(layers=2, width=32, heads=4, kv_heads=2, head=8, hidden=32, vocab=7, types=(8, 2, 3), keys=lists),
            Shape(head=6, head_tensor=True, freqs=True, keys=stated),
            Shape(keys=yarn, types=(1, 30), shards=3),
            Shape(keys=old, shards=2, head_tensor=True),
            Shape(width=256, heads=2, head=128, hidden=256, types=tuple(BLOCKS), head_tensor=True, freqs=True),
        )
    )


def tape(data: bytes) -> bytes:
    """An input tape out of bytes: a right model with a few changes."""
    choices = Choices(data)
    made = choices.of(drafts()).copy()
    for _ in range(choices.of((1, 0, 1, 1, 2, 3))):
        _key_changed(made, choices)
    for _ in range(choices.of((0, 0, 1, 1, 2))):
        _tensor_changed(made, choices)
    if choices.once_in(12):
        shard = choices.of(made.shards)
        which = choices.below(3)
        edge = choices.of((32, 1, 0, 64, 100, shard[which] - 1, shard[which] + 1, shard[0] - 32, 2**31, 2**63 - 1))
        shard[which] = min(max(edge, 0), 2**63 - 1) if which < 2 else min(max(edge, 1), 2**31)
    return made.tape()


def _key_changed(made: Draft, choices: Choices) -> None:
    what = choices.below(16)
    if what == 15:
        del made.keys[choices.below(len(made.keys))]
    elif what >= 12:
        index = choices.below(len(made.keys))
        made.keys[index] = (made.keys[index][0], _value(choices))
    else:
        name = b"llama." + choices.of(KNOWN if what == 9 else USED).encode() if what < 10 else choices.of(OTHERS)
        value = _fitting(name, choices) if choices.below(3) else _value(choices)
        index = next((i for i, (key, _) in enumerate(made.keys) if key == name), len(made.keys))
        made.keys[index:] = [(name, value), *made.keys[index + 1 :]]


OTHERS = (
    *(b"general.type", b"general.architecture", b"tokenizer.ggml.tokens", b"llama.new", b"llama.", b"llamas", b"llama"),
    *(b"llama.rope.scaling.factor%20", b"general.name", b"llama.%E2%82%AC"),
)
_FITTING_TEXT = {b"general.type": (b"model", b"adapter"), b"general.architecture": (b"llama", b"qwen2", b"Llama")}


def _fitting(name: bytes, choices: Choices) -> bytes:
    """A value of the kind that the key has."""
    if name == b"llama.rope.scaling.type" or name in _FITTING_TEXT:
        return b"string " + choices.of(_FITTING_TEXT.get(name, (b"yarn", b"none", b"linear", b"su")))
    if name == b"tokenizer.ggml.tokens":
        return b"array string %d" % choices.of((5, 7, 0, 6, 2**40))
    if name in (b"llama.attention.causal", b"llama.use_parallel_residual"):
        return b"bool %d" % choices.below(2)
    if name.endswith((b"scale", b"factor", b"slow", b"fast", b"multiplier", b"linear", b"base", b"epsilon", b"alpha")):
        return f32(choices.of(FLOATS))
    if name.endswith((b"softcapping", b"kqv", b"bias")):
        return f32(choices.of((0.0, -0.0, 1.0)))
    return b"%s %d" % (choices.of((b"u32", b"u64", b"i32")), choices.of(NUMBERS))


def _tensor_changed(made: Draft, choices: Choices) -> None:
    if not made.tensors:
        return
    index = choices.below(len(made.tensors))
    name, numbers, dims = made.tensors[index]
    what = choices.below(8)
    if what == 0:
        del made.tensors[index]
    elif what == 1:
        changed = list(dims) + [1] * choices.of((0, 0, 0, 1))
        changed[choices.below(len(changed))] = choices.of((1, 2, 4, 5, 32, 0, 2**24, 2**24 + 1, 2**62))
        made.tensors[index] = (name, numbers, tuple(changed[:4]))
    elif what == 2:
        kind = choices.of((*BLOCKS, 9, 15, 16, 24, 39, 99, 2**32 - 1))
        size = _bytes(kind, dims) if kind in BLOCKS else numbers[3]
        made.tensors[index] = (name, [numbers[0], kind, numbers[2], size], dims)
    elif what <= 5:
        field_ = choices.of((2, 3, 0))
        edge = (numbers[field_] + 1, numbers[field_] - 1, numbers[field_] + 32, 0, 32, 2**62, 2**63 - 1, 2**32 - 1)
        value = max(choices.of(edge), 0)
        changed = list(numbers)
        changed[field_] = min(value, 2**32 - 1 if field_ == 0 else 2**63 - 1)
        made.tensors[index] = (name, changed, dims)
    elif what == 6:
        made.tensors.insert(choices.below(len(made.tensors) + 1), _another(made, choices))
    else:
        other = choices.below(len(made.tensors))
        made.tensors[index], made.tensors[other] = made.tensors[other], made.tensors[index]


def _another(made: Draft, choices: Choices) -> tuple[bytes, list[int], tuple[int, ...]]:
    taken = {name for name, _, _ in made.tensors}
    wanted = choices.of(EXTRA)
    while wanted in taken:
        wanted += b"~"
    dims = choices.of(((4, 5), (1,), (2,), (3,), (4,)))
    return wanted, [0, 0, 64, _bytes(0, dims)], dims


EXTRA = (
    *(b"output.weight", b"rope_freqs.weight", b"blk.0.attn_rot_embd", b"blk.31.attn_rot_embd.weight", b"x%20y"),
    *(b"blk..attn_rot_embd", b"blk.1a.attn_rot_embd", b"blk.0.attn_rot_embd.bias", b"blk.0.attn_q.bias", b"k" * 97),
    *(b"blk.%D9%A1.attn_rot_embd", b"blk.0.attn_rot_embd%0A", b"%E2%80%8B%F0%9F%98%80" * 50, b"blk.0.attn_q.weight"),
)
