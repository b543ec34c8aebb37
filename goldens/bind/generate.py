"""Writes the goldens of component `bind`.

    PYTHONPATH=host python goldens/bind/generate.py MODEL

MODEL is SmolLM2-135M-Instruct.Q4_1.gguf. published.jsonl: what the `gguf` package reads in it, put into slots by the
published tensor names, with the parameters of the model's config.json. byhand.jsonl: a model of one layer and what is
changed in it, with the outcome worked out by hand from the contract's order of checks; there is no outside program that
answers with the same verdicts.
"""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

from ds4.sys.tape import escape
from gguf import GGUFReader, GGUFValueType

HERE = Path(__file__).parent
Row = dict[str, str]
TYPES = "u8 i8 u16 i16 u32 i32 f32 bool string array u64 i64 f64".split()
ROLES = {
    **{"token_embd": 1, "output_norm": 2, "output": 3, "rope_freqs": 4, "attn_norm": 10, "attn_q": 11, "attn_k": 12},
    **{"attn_v": 13, "attn_output": 14, "ffn_norm": 15, "ffn_gate": 16, "ffn_up": 17, "ffn_down": 18},
}
LAYER = "attn_norm attn_q attn_k attn_v attn_output ffn_norm ffn_gate ffn_up ffn_down".split()
CONFIG = {
    # config.json of HuggingFaceTB/SmolLM2-135M-Instruct
    **{"num_hidden_layers": 30, "hidden_size": 576, "num_attention_heads": 9, "num_key_value_heads": 3},
    **{"intermediate_size": 1536, "vocab_size": 49152, "max_position_embeddings": 8192},
    **{"rms_norm_eps": 1e-5, "rope_theta": 100000.0},
}


def f32(value: float) -> str:
    return struct.pack(">f", value).hex().upper()


# ---- the real file ----


def published(model: Path) -> Iterator[Row]:
    reader = GGUFReader(model)
    tensors = {tensor.name: tensor for tensor in reader.tensors}
    keys = [f"key {escape(n).decode()} {_value(f)}" for n, f in reader.fields.items() if not n.startswith("GGUF.")]
    tape = [f"plan 1 {len(keys)} {len(tensors)}"]
    tape.append(f"shard {model.stat().st_size} {reader.data_offset} {reader.alignment}")
    tape += keys + [f"tensor {name} 0 {_numbers(t)} {_dims(t)}" for name, t in tensors.items()]

    c = CONFIG
    head = c["hidden_size"] // c["num_attention_heads"]
    shape = (c["num_hidden_layers"], c["hidden_size"], c["num_attention_heads"], c["num_key_value_heads"], head)
    rest = (c["intermediate_size"], c["vocab_size"], c["max_position_embeddings"], 0, head, 0, 0, 0)
    out = ["plan llama", "hparams 1 " + " ".join(map(str, (*shape, *rest)))]
    floats = (c["rms_norm_eps"], 0.0, c["rope_theta"], 1.0, 1.0, 0.0, 32.0, 1.0)
    out.append("floats " + " ".join(map(f32, floats)))
    names = ["token_embd", *(f"blk.{i}.{n}" for i in range(int(c["num_hidden_layers"])) for n in LAYER), "output_norm"]
    for name in names:
        tensor = tensors.pop(f"{name}.weight")
        layer = name.split(".")[1] if name.startswith("blk.") else "-1"
        kind, place = _numbers(tensor).split(" ", 1)
        role = ROLES[name.split(".")[-1]]
        out.append(f"slot {role} {layer} {kind} 0 {place} {name}.weight {_dims(tensor)}")
    assert not tensors, tensors
    yield {"case": f"published: {model.name}", "input": lines(tape), "expected": lines(out)}


def lines(rows: list[str]) -> str:
    return "".join(row + "\n" for row in rows)


def _numbers(tensor: object) -> str:
    return f"{int(tensor.tensor_type)} {int(tensor.data_offset)} {int(tensor.n_bytes)}"  # type: ignore[attr-defined]


def _dims(tensor: object) -> str:
    return " ".join(str(int(dim)) for dim in tensor.shape)  # type: ignore[attr-defined]


def _value(field: object) -> str:
    kind, parts = field.types[0], field.parts  # type: ignore[attr-defined]
    if kind == GGUFValueType.ARRAY:
        element, count = int(parts[3][0]), int(parts[4][0])
        words = f"array {TYPES[element]} {count}"
        if TYPES[element][0] in "ui" and count:
            values = [int(part[0]) for part in parts[5:]]
            words += f" {min(values)} {max(values)}"
        return words
    if kind == GGUFValueType.STRING:
        return f"string {escape(parts[4].tobytes()).decode()}"
    if kind in (GGUFValueType.FLOAT32, GGUFValueType.FLOAT64):
        return f"{TYPES[kind]} {parts[3].tobytes()[::-1].hex().upper()}"
    return f"{TYPES[kind]} {int(parts[3][0])}"


# ---- by hand ----

KEYS = {
    "general.architecture": "string llama",
    "llama.block_count": "u32 1",
    "llama.context_length": "u32 128",
    "llama.embedding_length": "u32 4",
    "llama.feed_forward_length": "u32 3",
    "llama.attention.head_count": "u32 2",
    "llama.attention.head_count_kv": "u32 1",
    "llama.attention.layer_norm_rms_epsilon": "f32 3727C5AC",
    "tokenizer.ggml.tokens": "array string 5",
}
TENSORS = {
    # name: type, offset, nbytes, dims
    "token_embd.weight": "0 64 80 4 5",
    "blk.0.attn_norm.weight": "0 160 16 4",
    "blk.0.attn_q.weight": "0 192 64 4 4",
    "blk.0.attn_k.weight": "0 256 32 4 2",
    "blk.0.attn_v.weight": "0 288 32 4 2",
    "blk.0.attn_output.weight": "0 320 64 4 4",
    "blk.0.ffn_norm.weight": "0 384 16 4",
    "blk.0.ffn_gate.weight": "0 416 48 4 3",
    "blk.0.ffn_up.weight": "0 480 48 4 3",
    "blk.0.ffn_down.weight": "0 544 48 3 4",
    "output_norm.weight": "0 608 16 4",
}
HPARAMS = (
    "family n_layer d_model n_head n_head_kv head_dim d_ff n_vocab n_ctx_train rope_kind rope_dim rope_scaling "
    "rope_ctx_original sliding_window"
).split()
PLAIN = dict(zip(HPARAMS, (1, 1, 4, 2, 1, 2, 3, 5, 128, 0, 2, 0, 0, 0), strict=True))
FLOATS = (
    "rms_eps attn_scale rope_base rope_factor rope_attn_factor rope_ext_factor rope_beta_fast rope_beta_slow".split()
)
PLAIN_FLOATS = dict(zip(FLOATS, (1e-5, 0.0, 1e4, 1.0, 1.0, 0.0, 32.0, 1.0), strict=True))

Changes = dict[str, str | None]


def tape(keys: Changes, tensors: Changes, shards: list[str]) -> str:
    """The model above with these keys and tensors instead; None drops one. A tensor's text may begin "shard n "."""
    all_keys = {k: v for k, v in {**KEYS, **keys}.items() if v is not None}
    all_tensors = {k: v for k, v in {**TENSORS, **tensors}.items() if v is not None}
    rows = [f"plan {len(shards)} {len(all_keys)} {len(all_tensors)}", *(f"shard {shard}" for shard in shards)]
    rows += [f"key {key} {value}" for key, value in all_keys.items()]
    for name, text in all_tensors.items():
        shard, text = text.split(" ", 2)[1:] if text.startswith("shard") else ("0", text)
        rows.append(f"tensor {name} {shard} {text}")
    return lines(rows)


def row(case: str, expected: str, keys: Changes | None, tensors: Changes | None, shards: list[str] | None) -> Row:
    return {"case": case, "input": tape(keys or {}, tensors or {}, shards or ["672 64 32"]), "expected": expected}


def bad(
    case: str,
    code: str,
    subject: str,
    keys: Changes | None = None,
    tensors: Changes | None = None,
    shards: list[str] | None = None,
) -> Row:
    return row(case, f"error {code} {subject}\n", keys, tensors, shards)


def good(
    case: str,
    keys: Changes | None = None,
    tensors: Changes | None = None,
    *,
    tail: str = "",
    shards: list[str] | None = None,
    slots: dict[str, str] | None = None,
    **changed: float,
) -> Row:
    """changed: parameters other than PLAIN's. slots: further or other slots by tensor name, as the output has them."""
    ints = [int(changed.get(name, value)) for name, value in PLAIN.items()]
    floats = [f32(changed.get(name, value)) for name, value in PLAIN_FLOATS.items()]
    filled = {}
    for name, text in TENSORS.items():
        kind, offset, nbytes, dims = text.split(" ", 3)
        layer = 0 if name.startswith("blk") else -1
        filled[name] = f"{ROLES[name.split('.')[-2]]} {layer} {kind} 0 {offset} {nbytes} {name} {dims}"
    filled.update(slots or {})
    out = ["plan llama", f"hparams {' '.join(map(str, ints))}", f"floats {' '.join(floats)}"]
    out += [f"slot {text}" for text in filled.values()]
    return row(case, lines(out) + tail, keys, tensors, shards)


def byhand() -> Iterator[Row]:
    yield from _kind()
    yield from _unsupported()
    yield from _shape()
    yield from _rope()
    yield from _vocabulary()
    yield from _tensors()
    yield from _precedence()
    yield from _near()


def _kind() -> Iterator[Row]:
    a, t = "general.architecture", "general.type"
    yield good("the model itself")
    yield good("it says that it is a model", {t: "string model"})
    yield bad("no architecture", "metadata_missing", a, {a: None})
    yield bad("an architecture that is a number", "metadata_type", a, {a: "u32 1"})
    yield bad("another architecture", "unsupported_architecture", a, {a: "string qwen2"})
    yield bad("an architecture in capitals", "unsupported_architecture", a, {a: "string Llama"})
    yield bad("an architecture without letters", "unsupported_architecture", a, {a: "string %-"})
    yield bad("an adapter", "unsupported_kind", t, {t: "string adapter"})
    yield bad("a type that is an array", "metadata_type", t, {t: "array string 1"})


def _unsupported() -> Iterator[Row]:
    off = {
        **{"expert_count": "u32 0", "expert_used_count": "u8 0", "attention.causal": "bool 1"},
        **{"attention.clamp_kqv": "f32 00000000", "attention.max_alibi_bias": "f64 8000000000000000"},
        **{"attention.shared_kv_layers": "i64 0", "attention.key_length_mla": "u16 0"},
        **{"attention.value_length_mla": "i8 0", "attn_logit_softcapping": "f32 80000000"},
        **{"final_logit_softcapping": "f32 00000000", "embedding_scale": "f32 3F800000"},
        **{
            "residual_scale": "f64 3FF0000000000000",
            "logit_scale": "f32 00000000",
            "rope.scaling.alpha": "f32 00000000",
        },
        **{"use_parallel_residual": "bool 0", "nextn_predict_layers": "i16 0"},
    }
    yield good("all that is not used, said so", {f"llama.{key}": value for key, value in off.items()})
    other = {"embedding_scale": "f64 0000000000000000", "residual_scale": "f32 80000000", "logit_scale": "f32 3F800000"}
    yield good("what has two such values, with the other", {f"llama.{key}": value for key, value in other.items()})
    on = {
        **{"expert_count": "u32 8", "attention.causal": "bool 0", "attention.clamp_kqv": "f32 41000000"},
        **{"attention.sliding_window_pattern": "u32 0", "attention.shared_kv_layers": "u32 2"},
        **{"attn_logit_softcapping": "f32 nan", "embedding_scale": "f32 40000000", "logit_scale": "f32 3F000000"},
        **{
            "rope.dimension_sections": "array i32 4 0 0",
            "use_parallel_residual": "bool 1",
            "expert_used_count": "f32 00000000",
        },
        **{"attention.max_alibi_bias": "u32 0", "nextn_predict_layers": "bool 0", "residual_scale": "string 1"},
        **{"attention.value_length_mla": "array u32 1 0 0", "final_logit_softcapping": "f32 00000001"},
    }
    for key, value in on.items():
        yield bad(f"{key} is {value}", "unsupported_key", f"llama.{key}", {f"llama.{key}": value})


def _ranged(key: str, low: int, high: int, *, required: bool) -> Iterator[Row]:
    """The ways of an integer key to be wrong."""
    name = f"llama.{key}"
    if required:
        yield bad(f"no {key}", "metadata_missing", name, {name: None})
    for what, value in (("text", "string 1"), ("a float", "f32 3F800000"), ("a boolean", "bool 1")):
        yield bad(f"{key} is {what}", "metadata_type", name, {name: value})
    for value in (f"i32 {low - 1}", f"u64 {high + 1}", "u64 4294967297", "i64 -9223372036854775808"):
        yield bad(f"{key} is {value}", "metadata_range", name, {name: value})


def _shape() -> Iterator[Row]:
    yield from _ranged("block_count", 1, 1024, required=True)
    yield from _ranged("embedding_length", 1, 2**24, required=True)
    yield from _ranged("feed_forward_length", 1, 2**24, required=True)
    yield from _ranged("attention.head_count", 1, 65536, required=True)
    yield from _ranged("attention.head_count_kv", 1, 2, required=False)
    yield from _ranged("attention.key_length", 1, 2**31 - 1, required=False)
    yield from _ranged("attention.value_length", 1, 2**31 - 1, required=False)
    yield from _ranged("context_length", 1, 2**31 - 1, required=True)
    yield from _ranged("rope.dimension_count", 2, 2, required=False)
    yield from _ranged("attention.sliding_window", 0, 2**31 - 1, required=False)
    yield from _ranged("vocab_size", 1, 2**31 - 1, required=False)
    yield from _ranged("rope.scaling.original_context_length", 1, 2**31 - 1, required=False)
    heads, kv = "llama.attention.head_count", "llama.attention.head_count_kv"
    ff, key, value = "llama.feed_forward_length", "llama.attention.key_length", "llama.attention.value_length"
    yield good("one value for each layer", {ff: "array i32 1 3 3", heads: "array u8 1 2 2", kv: "array i64 1 1 1"})
    yield bad("two values for one layer", "metadata_range", ff, {ff: "array i32 2 3 3"})
    yield bad("no value for a layer", "metadata_range", ff, {ff: "array i32 0"})
    yield bad("an array of floats for each layer", "metadata_type", ff, {ff: "array f32 1"})
    yield bad("an array of the wrong length and type", "metadata_range", ff, {ff: "array string 2"})
    layers = {"llama.block_count": "u32 2", heads: "array i32 2 2 4"}
    yield bad("layers of different heads", "unsupported_shape", heads, layers)
    yield bad("an array of a value out of range", "metadata_range", heads, {heads: "array i32 1 0 0"})
    yield bad("more kv heads in an array than heads", "metadata_range", kv, {kv: "array i32 1 3 3"})
    no_kv = dict.fromkeys(("blk.0.attn_k.weight", "blk.0.attn_v.weight"), "0 192 64 4 4")
    slots = {
        "blk.0.attn_k.weight": "12 0 0 0 192 64 blk.0.attn_k.weight 4 4",
        "blk.0.attn_v.weight": "13 0 0 0 192 64 blk.0.attn_v.weight 4 4",
    }
    yield good("as many kv heads as heads; three slots share bytes", {kv: None}, dict(no_kv), slots=slots, n_head_kv=2)
    yield bad("kv heads that do not divide the heads", "metadata_range", kv, {heads: "u32 4", kv: "u32 3"})
    yield bad("heads that do not divide the width", "metadata_range", heads, {heads: "u32 3"})
    yield good("a head length that is said", {key: "u32 2", value: "u32 2"})
    yield good("a key length that is said", {key: "u64 2"})
    yield bad("keys and values of different length", "unsupported_shape", value, {key: "u32 2", value: "u32 4"})
    yield bad("a key length alone that differs", "unsupported_shape", value, {key: "u32 4"})
    yield bad("both lengths, and heads that do not divide", "tensor_dims", "blk.0.attn_q.weight", odd(key, value))
    yield bad(
        "one length, and heads that do not divide", "metadata_range", heads, {heads: "u32 3", kv: None, key: "u32 2"}
    )
    yield bad("a head of 1025", "metadata_range", key, {key: "u32 1025", value: "u32 1025"})
    wide = {heads: "u32 65536", key: "u32 1024", value: "u32 1024"}
    yield bad("heads too wide together", "metadata_range", heads, wide)
    yield good("a window", {"llama.attention.sliding_window": "u32 4096"}, sliding_window=4096)
    one_head = {heads: "u32 4", kv: "u32 1"}
    yield bad("a head of one value cannot rotate", "metadata_range", "llama.rope.dimension_count", one_head)
    rope = {key: "u32 4", value: "u32 4", "llama.rope.dimension_count": "u32 3"}
    yield bad("an odd number of rotating values", "metadata_range", "llama.rope.dimension_count", rope)
    eps, scale = "llama.attention.layer_norm_rms_epsilon", "llama.attention.scale"
    yield bad("no epsilon", "metadata_missing", eps, {eps: None})
    yield bad("an epsilon that is an integer", "metadata_type", eps, {eps: "u32 0"})
    yield bad("an epsilon that is no number", "metadata_range", eps, {eps: "f32 nan"})
    yield bad("a negative epsilon", "metadata_range", eps, {eps: "f32 B727C5AC"})
    yield good("an epsilon of 0", {eps: "f32 00000000"}, rms_eps=0.0)
    yield good("an epsilon in binary64", {eps: "f64 3EE4F8B588E368F1"}, rms_eps=1e-5)
    yield good("a scale of attention", {scale: "f32 3E000000"}, attn_scale=0.125)
    yield bad("a scale of attention without bounds", "metadata_range", scale, {scale: "f32 7F800000"})
    yield good("keys nobody knows", {"llama.shoe_size": "u32 44", "llama.": "bool 0", "llamas.a": "u8 1"}, tail=UNKNOWN)
    plain = {"llama.tensor_data_layout": "string Meta%20AI%20original%20pth", "llama.rope.scaling.finetuned": "bool 1"}
    yield good("keys without arithmetic", plain)


UNKNOWN = "unknown llama.shoe_size\nunknown llama.\n"


def odd(key: str, value: str) -> Changes:
    return {"llama.attention.head_count": "u32 3", key: "u32 2", value: "u32 2"}


def _rope() -> Iterator[Row]:
    at = "llama.rope."
    kind, factor, attn = at + "scaling.type", at + "scaling.factor", at + "scaling.attn_factor"
    old, base, original = at + "scale_linear", at + "freq_base", at + "scaling.original_context_length"
    ext, log = at + "scaling.yarn_ext_factor", at + "scaling.yarn_log_multiplier"
    given, slow, fast = at + "scaling.yarn_attn_factor", at + "scaling.yarn_beta_slow", at + "scaling.yarn_beta_fast"
    two, half, four = "f32 40000000", "f32 3F000000", "f32 40800000"
    yield good("a base", {base: "f32 47C35000"}, rope_base=100000.0)
    yield bad("a base below 1", "metadata_range", base, {base: half})
    yield bad("a base beyond 1e12", "metadata_range", base, {base: "f64 427D1A94A2000001"})
    yield bad("a base that is an integer", "metadata_type", base, {base: "u32 10000"})
    yield good("linear scaling without a type", {factor: two}, rope_scaling=1, rope_factor=2.0)
    yield good("linear scaling by the old key", {old: two}, rope_scaling=1, rope_factor=2.0)
    yield good("the new key before the old", {old: two, factor: four}, rope_scaling=1, rope_factor=4.0)
    yield good("a factor of 0 means 1", {old: two, factor: "f32 00000000"})
    yield good("a factor of 1 scales nothing", {kind: "string linear", factor: "f32 3F800000"})
    yield bad("a factor below 1", "metadata_range", factor, {factor: half})
    yield good("a factor that nobody uses", {kind: "string none", factor: half})
    yield bad("a factor beyond 1e6", "metadata_range", factor, {kind: "string none", factor: "f32 49742401"})
    yield bad("a negative factor", "metadata_range", factor, {factor: "f32 C0000000"})
    yield bad("an infinite old factor", "metadata_range", old, {old: "f32 7F800000"})
    yield bad("a scaling nobody has heard of", "unsupported_key", kind, {kind: "string longrope"})
    yield bad("a scaling type that is a number", "metadata_type", kind, {kind: "u32 1"})
    yield good("a magnitude", {kind: "string none", attn: two}, rope_attn_factor=2.0)
    yield bad("a magnitude of 0", "metadata_range", attn, {attn: "f32 00000000"})
    # 0.1 ln 4 + 1 = 1.138629436...
    yarn = {kind: "string yarn", factor: four}
    plain = {"rope_scaling": 2, "rope_factor": 4.0, "rope_ext_factor": 1.0, "rope_ctx_original": 128}
    yield good("YaRN", dict(yarn), **plain, rope_attn_factor=1.1386294361119891)
    yield good("YaRN with a magnitude", {**yarn, attn: two}, **plain, rope_attn_factor=2.2772588722239782)
    # (0.138629436 + 1) / (0.138629436 * 1 + 1) = 1
    yield good("YaRN with a log multiplier of 1", {**yarn, log: "f32 3F800000"}, **plain)
    # (0.138629436 + 1) / (0.138629436 * 0.5 + 1) = 1.064821625...
    some = {**yarn, log: half, given: two}
    yield good("YaRN with a log multiplier of 0.5", some, **plain, rope_attn_factor=1.0648216253695715)
    none = {**plain, "rope_ext_factor": 0.0}
    yield good(
        "YaRN without a mix takes the stated magnitude",
        {**yarn, ext: "f32 00000000", given: two},
        **none,
        rope_attn_factor=2.0,
    )
    full = {**yarn, slow: two, fast: "f32 42800000", original: "u32 64", ext: half}
    most = {**plain, "rope_ext_factor": 0.5, "rope_ctx_original": 64}
    yield good(
        "YaRN with all its keys",
        full,
        **most,
        rope_attn_factor=1.1386294361119891,
        rope_beta_slow=2.0,
        rope_beta_fast=64.0,
    )
    yield good("a slow beta above 32 takes the fast one along", {**yarn, slow: "f32 42200000"}, **plain, **BETA)
    yield bad("a fast beta below the slow one", "metadata_range", fast, {**yarn, slow: two, fast: "f32 3F800000"})
    yield bad("a fast beta below the slow one, unused", "metadata_range", fast, {slow: two, fast: "f32 3F800000"})
    yield bad("a mix above 1", "metadata_range", ext, {ext: "f32 3F800001"})
    yield bad("a log multiplier that is negative", "metadata_range", log, {log: "f32 BF800000"})
    yield bad("YaRN over a base of 1", "metadata_range", base, {**yarn, base: "f32 3F800000"})
    yield good("a base of 1 without YaRN", {base: "f32 3F800000"}, rope_base=1.0)
    yield good("YaRN with a factor of 1", {kind: "string yarn"}, **{**plain, "rope_factor": 1.0})


BETA = {"rope_attn_factor": 1.1386294361119891, "rope_beta_slow": 40.0, "rope_beta_fast": 40.0}


def _vocabulary() -> Iterator[Row]:
    embedding, tokens, size = "token_embd.weight", "tokenizer.ggml.tokens", "llama.vocab_size"
    yield bad("no embedding", "tensor_missing", embedding, {}, {embedding: None})
    yield bad("an embedding of one dimension", "tensor_dims", embedding, {}, {embedding: "0 64 80 20"})
    yield bad("an embedding of three", "tensor_dims", embedding, {}, {embedding: "0 64 80 4 5 1"})
    yield bad("an embedding of another width", "tensor_dims", embedding, {}, {embedding: "0 64 80 5 5"})
    yield good("the size of the vocabulary", {size: "u16 5"})
    yield bad("another size of the vocabulary", "metadata_range", size, {size: "u32 6"})
    yield good("no tokens", {tokens: None})
    yield bad("tokens too many", "metadata_range", tokens, {tokens: "array string 6"})
    yield bad("tokens that are no array", "metadata_type", tokens, {tokens: "u32 5"})
    large = f"0 64 {4 * 4 * (2**24 + 1)} 4 {2**24 + 1}"
    yield bad("a vocabulary beyond 2^24", "metadata_range", size, {tokens: None}, {embedding: large})


def _tensors() -> Iterator[Row]:
    norm, q, down = "blk.0.attn_norm.weight", "blk.0.attn_q.weight", "blk.0.ffn_down.weight"
    for name in TENSORS:
        if name != "token_embd.weight":
            yield bad(f"no {name}", "tensor_missing", name, {}, {name: None})
    yield bad("a matrix the other way round", "tensor_dims", down, {}, {down: "0 544 48 4 3"})
    yield bad("a norm of two dimensions", "tensor_dims", norm, {}, {norm: "0 160 16 4 1"})
    yield bad("a norm in half precision", "tensor_type", norm, {}, {norm: "1 160 8 4"})
    half = {q: "11 0 1 0 192 32 blk.0.attn_q.weight 4 4"}
    yield good("a matrix in half precision", {}, {q: "1 192 32 4 4"}, slots=half)
    for kind in (4, 9, 15, 16, 24, 26, 39, 99):
        yield bad(f"a matrix of type {kind}", "tensor_type", q, {}, {q: f"{kind} 192 64 4 4"})
    yield bad("rows that are no whole blocks", "bind_plan", q, {}, {q: "8 192 64 4 4"})
    yield bad("a byte too few", "bind_plan", q, {}, {q: "0 192 63 4 4"})
    yield bad("an offset that is not aligned", "bind_plan", q, {}, {q: "0 193 64 4 4"})
    yield bad("an offset before the data", "bind_plan", q, {}, {q: "0 32 64 4 4"})
    yield bad("data behind the end", "bind_plan", q, {}, {q: "0 640 64 4 4"})
    yield bad("data that ends beyond 2^63", "bind_plan", q, {}, {q: f"0 {2**63 - 32} 64 4 4"})
    yield bad("a shard that there is none of", "bind_plan", q, {}, {q: "shard 1 0 192 64 4 4"})
    yield bad("a tensor in the last shard, too short for it", "bind_plan", q, {}, {q: "shard 1 0 192 64 4 4"}, TWO)
    placed = {q: "11 0 0 1 64 64 blk.0.attn_q.weight 4 4"}
    yield good("a tensor in the second shard", {}, {q: "shard 1 0 64 64 4 4"}, slots=placed, shards=TWO)
    output = {"output.weight": "3 -1 0 0 64 80 output.weight 4 5"}
    yield good("a head of its own", {}, {"output.weight": "0 64 80 4 5"}, slots=output)
    yield bad("a head of another size", "tensor_dims", "output.weight", {}, {"output.weight": "0 64 80 5 4"})
    freqs = {"rope_freqs.weight": "4 -1 0 0 64 4 rope_freqs.weight 1"}
    yield good("factors of the rope", {}, {"rope_freqs.weight": "0 64 4 1"}, slots=freqs)
    yield bad("too many factors of the rope", "tensor_dims", "rope_freqs.weight", {}, {"rope_freqs.weight": "0 64 8 2"})
    left = dict.fromkeys(("blk.0.attn_rot_embd", "blk.77.attn_rot_embd.weight"), "0 64 4 1")
    tail = "ignored blk.0.attn_rot_embd\nignored blk.77.attn_rot_embd.weight\n"
    yield good("what older converters left", {}, dict(left), tail=tail)
    for name in ("blk..attn_rot_embd", "blk.0.attn_rot_embd.bias", "blk.0.attn_q.bias", "x%20y", "blk.1.attn_q.weight"):
        yield bad(f"a tensor {name}", "tensor_unused", name, {}, {name: "0 64 4 1"})
    long = "n" * 97
    yield bad("a long name", "tensor_unused", "n" * 93 + "...", {}, {long: "0 64 4 1"})
    yield bad("a name that is not ASCII", "tensor_unused", "\\xe9\\u20ac", {}, {"%C3%A9%E2%82%AC": "0 64 4 1"})


TWO = ["672 64 32", "128 64 64"]


def _precedence() -> Iterator[Row]:
    """Which of several faults is told."""
    a, t = "general.architecture", "general.type"
    yield bad("an adapter of another architecture", "unsupported_kind", t, {a: "string qwen2", t: "string adapter"})
    keys: Changes = {"llama.expert_count": "u32 8", "llama.block_count": None}
    yield bad("experts, and no layers", "unsupported_key", "llama.expert_count", keys)
    keys = {"llama.nextn_predict_layers": "u32 1", "llama.attention.causal": "bool 0"}
    yield bad("two things that are not supported", "unsupported_key", "llama.attention.causal", keys)
    keys = {"llama.context_length": "u32 0", "llama.attention.key_length": "u32 1025"}
    yield bad("a bad head length and a bad context", "unsupported_shape", "llama.attention.value_length", keys)
    keys = {"llama.rope.scaling.type": "string su", "llama.rope.scaling.yarn_ext_factor": "f32 nan"}
    yield bad("a bad scaling type and a bad mix", "unsupported_key", "llama.rope.scaling.type", keys)
    keys = {"llama.rope.scaling.factor": "f32 3F000000", "llama.rope.scaling.yarn_ext_factor": "f32 nan"}
    yield bad("a factor below 1 and a bad mix", "metadata_range", "llama.rope.scaling.yarn_ext_factor", keys)
    keys = {"llama.attention.layer_norm_rms_epsilon": None, "tokenizer.ggml.tokens": "array string 6"}
    yield bad("no epsilon and another vocabulary", "metadata_range", "tokenizer.ggml.tokens", keys)
    tensors: Changes = {"output_norm.weight": "1 608 8 4", "x": "0 64 4 1"}
    yield bad("a bad type and a tensor too many", "tensor_type", "output_norm.weight", {}, tensors)
    tensors = {"blk.0.attn_q.weight": "0 193 64 4 4", "x": "0 64 4 1"}
    yield bad("a crooked offset and a tensor too many", "tensor_unused", "x", {}, tensors)
    tensors = {"blk.0.attn_q.weight": "99 192 64 4 5", "blk.0.attn_k.weight": None}
    yield bad("bad dimensions, a bad type and a missing tensor", "tensor_dims", "blk.0.attn_q.weight", {}, tensors)
    tensors = {"blk.0.attn_v.weight": None, "blk.0.attn_k.weight": "99 256 32 4 2"}
    yield bad("two bad slots", "tensor_type", "blk.0.attn_k.weight", {}, tensors)


def _near() -> Iterator[Row]:
    """What is nearly right, or right where another model could not tell."""
    heads = {
        "blk.0.attn_q.weight": "640 128 blk.0.attn_q.weight 4 8",
        "blk.0.attn_k.weight": "768 64 blk.0.attn_k.weight 4 4",
        "blk.0.attn_v.weight": "832 64 blk.0.attn_v.weight 4 4",
        "blk.0.attn_output.weight": "896 128 blk.0.attn_output.weight 8 4",
    }
    yield good(
        "heads wider together than the model",
        {"llama.attention.key_length": "u32 4", "llama.attention.value_length": "u32 4"},
        {name: f"0 {text.replace(name + ' ', '')}" for name, text in heads.items()},
        shards=["1024 64 32"],
        slots={name: f"{11 + index} 0 0 0 {text}" for index, (name, text) in enumerate(heads.items())},
        head_dim=4,
        rope_dim=4,
    )
    embedding = {"token_embd.weight": "0 64 80 4 5 1"}
    yield bad("an embedding of three dimensions", "tensor_dims", "token_embd.weight", {}, embedding)
    norm = "blk.0.ffn_norm.weight"
    yield bad("a tensor with bytes too many", "bind_plan", norm, {}, {norm: "0 384 20 4"})
    names = {
        "blk.%D9%A1.attn_rot_embd": "blk.\\u0661.attn_rot_embd",
        "blk.0.attn_rot_embd%0A": "blk.0.attn_rot_embd\\n",
    }
    for name, subject in names.items():
        yield bad(f"a tensor {name}", "tensor_unused", subject, {}, {name: "0 64 4 1"})


def main() -> None:
    for name, rows in (("published", published(Path(sys.argv[1]))), ("byhand", byhand())):
        folder = HERE / name
        folder.mkdir(exist_ok=True)
        text = lines([json.dumps(row, ensure_ascii=False) for row in rows])
        (folder / "cases.jsonl").write_text(text, encoding="utf-8")
        print(name, text.count("\n"), "cases", len(text), "bytes")


if __name__ == "__main__":
    main()
