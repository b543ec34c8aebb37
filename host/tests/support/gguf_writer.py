"""Writes GGUF files byte by byte, right ones and every kind of wrong one.

Nothing here is shared with the reader under test: lengths, counts and offsets are what a test says they are.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
CODES = {U8: "B", I8: "b", U16: "H", I16: "h", U32: "I", I32: "i", F32: "f", BOOL: "B", U64: "Q", I64: "q", F64: "d"}

TYPE_F32, TYPE_F16, TYPE_Q4_0, TYPE_Q8_0, TYPE_Q4_K, TYPE_I32 = 0, 1, 2, 8, 12, 26
BLOCKS = {
    TYPE_F32: (1, 4),
    TYPE_F16: (1, 2),
    TYPE_Q4_0: (32, 18),
    TYPE_Q8_0: (32, 34),
    TYPE_Q4_K: (256, 144),
    TYPE_I32: (1, 4),
}


def u32(value: int) -> bytes:
    return struct.pack("<I", value)


def u64(value: int) -> bytes:
    return struct.pack("<Q", value)


def string(text: str | bytes, *, length: int | None = None) -> bytes:
    """length: what the length field says, if not the truth."""
    raw = text.encode() if isinstance(text, str) else text
    return u64(len(raw) if length is None else length) + raw


def scalar(kind: int, value: float) -> bytes:
    return struct.pack("<" + CODES[kind], value)


def array(kind: int, values: Sequence[object], *, count: int | None = None) -> bytes:
    """An array's payload: element type, count, elements. Strings as str or bytes, inner arrays as ready payloads."""
    out = [u32(kind), u64(len(values) if count is None else count)]
    for value in values:
        if isinstance(value, bytes) and kind == ARRAY:
            out.append(value)
        elif isinstance(value, str | bytes):
            out.append(string(value))
        else:
            assert isinstance(value, int | float)
            out.append(scalar(kind, value))
    return b"".join(out)


@dataclass
class Tensor:
    """offset: None places it behind the tensor before. data: None writes zeros of the right size."""

    name: str | bytes
    dims: Sequence[int]
    type: int = TYPE_F32
    offset: int | None = None
    data: bytes | None = None
    n_dims: int | None = None
    name_length: int | None = None

    def payload(self) -> bytes:
        if self.data is not None:
            return self.data
        count = 1
        for dim in self.dims:
            count *= dim
        block, nbytes = BLOCKS[self.type]
        return bytes(count // block * nbytes)


@dataclass
class GgufWriter:
    """magic, version, n_tensors, n_keys: what the header says; None counts. alignment: what the layout uses, without
    writing `general.alignment`. cut: bytes to leave off the end. keys: (key field, value type, payload)."""

    magic: bytes = b"GGUF"
    version: int = 3
    n_tensors: int | None = None
    n_keys: int | None = None
    alignment: int = 32
    cut: int = 0
    keys: list[tuple[bytes, int, bytes]] = field(default_factory=list)
    tensors: list[Tensor] = field(default_factory=list)

    def raw(self, key: str | bytes, kind: int, payload: bytes, *, key_length: int | None = None) -> GgufWriter:
        self.keys.append((string(key, length=key_length), kind, payload))
        return self

    def number(self, key: str, kind: int, value: float) -> GgufWriter:
        return self.raw(key, kind, scalar(kind, value))

    def u32(self, key: str, value: int) -> GgufWriter:
        return self.number(key, U32, value)

    def f32(self, key: str, value: float) -> GgufWriter:
        return self.number(key, F32, value)

    def string(self, key: str, text: str | bytes) -> GgufWriter:
        return self.raw(key, STRING, string(text))

    def array(self, key: str, kind: int, values: Sequence[object]) -> GgufWriter:
        return self.raw(key, ARRAY, array(kind, values))

    def tensor(self, name: str | bytes, dims: Sequence[int], kind: int = TYPE_F32, **more: Any) -> GgufWriter:
        self.tensors.append(replace(Tensor(name, dims, kind), **more))
        return self

    def without(self, key: str) -> GgufWriter:
        """Drops a key; it must be there."""
        kept = [entry for entry in self.keys if entry[0] != string(key)]
        assert len(kept) < len(self.keys), key
        self.keys = kept
        return self

    def drop(self, name: str) -> GgufWriter:
        """Drops a tensor; it must be there."""
        kept = [tensor for tensor in self.tensors if tensor.name != name]
        assert len(kept) < len(self.tensors), name
        self.tensors = kept
        return self

    def change(self, name: str, **more: Any) -> GgufWriter:
        """Changes fields of a tensor; it must be there."""
        index = [tensor.name for tensor in self.tensors].index(name)
        self.tensors[index] = replace(self.tensors[index], **more)
        return self

    def header(self) -> bytes:
        n_tensors = len(self.tensors) if self.n_tensors is None else self.n_tensors
        n_keys = len(self.keys) if self.n_keys is None else self.n_keys
        return self.magic + u32(self.version) + u64(n_tensors) + u64(n_keys)

    def build(self) -> bytes:
        out = [self.header()]
        out += [key + u32(kind) + payload for key, kind, payload in self.keys]
        data = b""
        for tensor in self.tensors:
            payload = tensor.payload()
            offset = tensor.offset
            if offset is None:
                data += bytes(-len(data) % self.alignment)
                offset = len(data)
                data += payload
            dims = b"".join(u64(dim) for dim in tensor.dims)
            n_dims = len(tensor.dims) if tensor.n_dims is None else tensor.n_dims
            name = string(tensor.name, length=tensor.name_length)
            out.append(name + u32(n_dims) + dims + u32(tensor.type) + u64(offset))
        meta = b"".join(out)
        whole = meta + bytes(-len(meta) % self.alignment) + data
        return whole[: len(whole) - self.cut]

    def write(self, path: Path) -> Path:
        path.write_bytes(self.build())
        return path


LAYERS, WIDTH, HEADS, KV_HEADS, HIDDEN, VOCAB = 2, 32, 4, 2, 64, 16


def tiny_llama() -> GgufWriter:
    """A whole `llama` model of a few kilobytes: two layers, Q8_0 matrices, F32 norms, a tied head."""
    w = GgufWriter()
    w.string("general.architecture", "llama")
    w.string("general.name", "Tiny")
    w.u32("general.file_type", 7)
    w.u32("llama.block_count", LAYERS)
    w.u32("llama.context_length", 128)
    w.u32("llama.embedding_length", WIDTH)
    w.u32("llama.feed_forward_length", HIDDEN)
    w.u32("llama.attention.head_count", HEADS)
    w.u32("llama.attention.head_count_kv", KV_HEADS)
    w.f32("llama.attention.layer_norm_rms_epsilon", 1e-5)
    w.string("tokenizer.ggml.model", "gpt2")
    w.array("tokenizer.ggml.tokens", STRING, [chr(ord("a") + i) for i in range(VOCAB)])
    w.array("tokenizer.ggml.token_type", I32, [1] * VOCAB)
    for tensor in tiny_tensors():
        w.tensors.append(tensor)
    return w


def tiny_tensors() -> Iterable[Tensor]:
    kv = WIDTH // HEADS * KV_HEADS
    yield Tensor("token_embd.weight", (WIDTH, VOCAB), TYPE_Q8_0)
    for layer in range(LAYERS):
        at = f"blk.{layer}."
        yield Tensor(at + "attn_norm.weight", (WIDTH,))
        yield Tensor(at + "attn_q.weight", (WIDTH, WIDTH), TYPE_Q8_0)
        yield Tensor(at + "attn_k.weight", (WIDTH, kv), TYPE_Q8_0)
        yield Tensor(at + "attn_v.weight", (WIDTH, kv), TYPE_Q8_0)
        yield Tensor(at + "attn_output.weight", (WIDTH, WIDTH), TYPE_Q8_0)
        yield Tensor(at + "ffn_norm.weight", (WIDTH,))
        yield Tensor(at + "ffn_gate.weight", (WIDTH, HIDDEN), TYPE_Q8_0)
        yield Tensor(at + "ffn_up.weight", (WIDTH, HIDDEN), TYPE_Q8_0)
        yield Tensor(at + "ffn_down.weight", (HIDDEN, WIDTH), TYPE_Q8_0)
    yield Tensor("output_norm.weight", (WIDTH,))


@dataclass
class ShardSet:
    """The tiny model in three shards; a test changes what it likes before it is written."""

    writers: list[GgufWriter] = field(default_factory=list)
    skip: set[int] = field(default_factory=set)

    def write(self, folder: Path) -> Path:
        for index, writer in enumerate(self.writers):
            if index not in self.skip:
                writer.write(folder / f"m-{index + 1:05d}-of-{len(self.writers):05d}.gguf")
        return folder / f"m-00001-of-{len(self.writers):05d}.gguf"


def tiny_shards() -> ShardSet:
    whole = tiny_llama()
    tensors = whole.tensors
    parts = [tensors[:5], tensors[5:14], tensors[14:]]
    made = ShardSet()
    for index, part in enumerate(parts):
        writer = whole if index == 0 else GgufWriter()
        writer.number("split.no", U16, index).number("split.count", U16, 3)
        writer.number("split.tensors.count", I32, len(tensors))
        writer.tensors = part
        made.writers.append(writer)
    return made
