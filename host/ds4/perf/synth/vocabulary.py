"""The tokenizer keys of a file: of a tokenizer.json, of another GGUF file, or a placeholder that can say any bytes.

tokenizer.json of Hugging Face's `tokenizers`, byte-level BPE: model.vocab (text to id), model.merges (pairs, or lines
of two), added_tokens. Which row of `ds4.core.pretokenizers` cuts as it does is found by comparing the expressions.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from ds4.core.cursor import shown
from ds4.core.gguf import read
from ds4.core.metadata import ArrayRef, ValueType
from ds4.core.pretokenizers import TABLE, PreTokenizer
from ds4.core.tokenizer import byte_alphabet
from ds4.core.vocabulary import Kind
from ds4.errors import ModelFileError
from ds4.perf.synth import gguf_file
from ds4.perf.synth.gguf_file import Key, Keys
from ds4.perf.synth.safetensors import read_json

_K = "tokenizer.ggml."
_PREFERRED = ("joyai-llm", "llama-bpe", "qwen2", "gpt-2")  # of names that cut alike
_UNUSED = "<｜unused▁{}｜>"


def placeholder(count: int, pre: str, markup: Sequence[str]) -> Keys:
    """`count` tokens: the markup, each byte by itself, then unused ones. A vocabulary too small for all bytes has those
    that fit, ASCII first."""
    alphabet = sorted((byte, character) for character, byte in byte_alphabet().items())
    tokens = [*markup[:count], *(character for _, character in alphabet)][:count]
    kinds = [int(Kind.CONTROL)] * min(count, len(markup)) + [int(Kind.NORMAL)] * (len(tokens) - min(count, len(markup)))
    tokens += [_UNUSED.format(index) for index in range(count - len(tokens))]
    kinds += [int(Kind.UNUSED)] * (count - len(kinds))
    return _keys(pre, tokens, kinds, [], {"bos": 0, "eos": 1 if count > 1 else None, "padding": None})


def from_gguf(path: Path) -> Keys:
    """The tokenizer keys of another file, as they are."""
    metadata = read(path).metadata
    out: Keys = {}
    for name in metadata:
        if name.startswith("tokenizer."):
            entry, value = metadata.entry(name), metadata[name]
            if isinstance(entry.value, ArrayRef):
                if entry.value.element is ValueType.ARRAY:
                    _fail(path, name, "an array of arrays", "an array of values")
                out[name] = Key(entry.value.element, value, array=True)  # type: ignore[arg-type]
            else:
                out[name] = Key(entry.type, value)  # type: ignore[arg-type]
    return out


def from_folder(folder: Path, count: int) -> Keys | None:
    """The keys of a checkpoint's tokenizer.json; None if it has none. count: rows of the embedding; tokens that the
    file does not name are unused. Raises ModelFileError, code `tokenizer_file`."""
    file = folder / "tokenizer.json"
    if not file.is_file():
        return None
    data = read_json(file)
    model = data.get("model")
    if not isinstance(model, dict) or model.get("type") != "BPE" or not isinstance(model.get("vocab"), dict):
        found = model.get("type") if isinstance(model, dict) else model
        _fail(file, "model", "BPE with a vocabulary", shown(str(found)))
    settings = folder / "tokenizer_config.json"
    config = read_json(settings) if settings.is_file() else {}
    added = data.get("added_tokens") or []
    if not isinstance(added, list) or not all(isinstance(entry, dict) for entry in added):
        _fail(file, "added_tokens", "a list of tokens", shown(str(added)))
    tokens, kinds = _tokens(file, model["vocab"], added, count)
    named = {}
    for name, key in (("bos", "bos_token"), ("eos", "eos_token"), ("padding", "pad_token")):
        text = config.get(key)
        text = text.get("content") if isinstance(text, dict) else text
        named[name] = tokens.index(text) if isinstance(text, str) and text in tokens else None
    out = _keys(_pre(file, data), tokens, kinds, _merges(file, model.get("merges")), named)
    if isinstance(config.get("add_bos_token"), bool):
        out[_K + "add_bos_token"] = gguf_file.boolean(config["add_bos_token"])
    if isinstance(config.get("chat_template"), str):
        out["tokenizer.chat_template"] = gguf_file.text(config["chat_template"])
    return out


def _keys(
    pre: str, tokens: Sequence[str], kinds: Sequence[int], merges: Sequence[str], named: dict[str, int | None]
) -> Keys:
    out: Keys = {
        _K + "model": gguf_file.text("gpt2"),
        _K + "pre": gguf_file.text(pre),
        _K + "tokens": gguf_file.array(ValueType.STRING, tokens),
        _K + "token_type": gguf_file.array(ValueType.I32, kinds),
        _K + "merges": gguf_file.array(ValueType.STRING, merges),
    }
    for name, index in named.items():
        if index is not None:
            out[f"{_K}{name}_token_id"] = gguf_file.u32(index)
    return out


def _tokens(file: Path, vocab: dict[str, Any], added: list[dict[str, Any]], count: int) -> tuple[list[str], list[int]]:
    tokens: list[str | None] = [None] * count
    kinds = [int(Kind.UNUSED)] * count
    entries: list[tuple[object, object, Kind]] = [(text, index, Kind.NORMAL) for text, index in vocab.items()]
    for entry in added:
        kind = Kind.CONTROL if entry.get("special") is True else Kind.USER_DEFINED
        entries.append((entry.get("content"), entry.get("id"), kind))
    for text, index, kind in entries:
        if not isinstance(text, str) or not isinstance(index, int) or not 0 <= index < count:
            _fail(file, shown(str(text)), f"a token with an id in 0..{count - 1}", shown(str(index)))
        if tokens[index] not in (None, text):
            _fail(file, f"id {index}", "one token", f"{shown(str(tokens[index]))} and {shown(text)}")
        tokens[index], kinds[index] = text, int(kind)
    named = [_UNUSED.format(index) if text is None else text for index, text in enumerate(tokens)]
    return named, kinds


def _merges(file: Path, merges: object) -> list[str]:
    if not isinstance(merges, list):
        _fail(file, "model.merges", "a list", type(merges).__name__)
    out = []
    for index, merge in enumerate(merges):
        pair = merge.split(" ") if isinstance(merge, str) else merge if isinstance(merge, list) else []
        if len(pair) != 2 or not all(isinstance(word, str) and word and " " not in word for word in pair):
            _fail(file, f"model.merges[{index}]", "two tokens", shown(str(merge)))
        out.append(f"{pair[0]} {pair[1]}")
    return out


def _pre(file: Path, data: dict[str, Any]) -> str:
    """The name of the row that cuts as the file's pre-tokenizer does."""
    stages = _stages(data.get("pre_tokenizer"))
    model = data["model"]
    nfc = data.get("normalizer") == {"type": "NFC"}
    for name in (*_PREFERRED, *TABLE):
        row = TABLE[name]
        if _same(row, stages) and row.nfc == nfc and row.whole_words == bool(model.get("ignore_merges")):
            return name
    found = shown(json.dumps(data.get("pre_tokenizer")), 400)
    _fail(file, "pre_tokenizer", "one that ds4.core.pretokenizers has", found)


def _same(row: PreTokenizer, stages: list[tuple[str, str]] | None) -> bool:
    def plain(parts: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
        return [(kind, expression.replace(r"\"", '"')) for kind, expression in parts]  # a quote need not be escaped

    return stages is not None and plain(row.stages) == plain(stages)


def _stages(value: object) -> list[tuple[str, str]] | None:
    """The stages as ds4.core.pretokenizers writes them; None for what it has no word for."""
    if not isinstance(value, dict):
        return None
    match value:
        case {"type": "Sequence", "pretokenizers": list(parts)}:
            out: list[tuple[str, str]] = []
            for part in parts:
                stages = _stages(part)
                if stages is None:
                    return None
                out += stages
            return out
        case {"type": "Split", "pattern": {"Regex": str(expression)}, "behavior": "Isolated", "invert": False}:
            return [("split", expression)]
        case {"type": "Digits", "individual_digits": bool(one)}:
            return [("digits", "one" if one else "runs")]
        case {"type": "ByteLevel", "add_prefix_space": False, "use_regex": bool(own)}:
            return [("bytes", "gpt2" if own else "plain")]
    return None


def _fail(file: Path, subject: str, expected: str, found: str) -> NoReturn:
    raise ModelFileError(
        f"{file.name} has no tokenizer that can be written",
        code="tokenizer_file",
        subject=shown(subject),
        expected=expected,
        found=found,
    )


