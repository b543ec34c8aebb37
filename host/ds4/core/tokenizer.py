"""Text to token ids and back, from the vocabulary in a GGUF file.

Hugging Face's `tokenizers` does the merging. Special tokens are not its business here: text is split on them by this
module, and only where the caller says that the text may hold them, so that what a user wrote can never become markup.
White space that a publisher added to a vocabulary as tokens of their own is no markup and is always recognised.

A Tokenizer may be used from several threads at once. Short texts take microseconds; `encode_batch` (and long texts in
general) release the GIL while they are tokenised.
"""

from __future__ import annotations

import os
import threading
from array import array
from collections import OrderedDict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

# One text is encoded on one core, the caller's: the engine's threads own the others. Read when `tokenizers` first
# encodes.
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import tokenizers
from tokenizers import models, normalizers

from ds4.core import components, sentencepiece
from ds4.core.alternatives import longest_of
from ds4.core.metadata import Metadata
from ds4.core.output.utf8 import Utf8Stream
from ds4.core.pretokenizers import TABLE
from ds4.core.sentencepiece import SPACE, Joiner
from ds4.core.tapes.stops import OracleUtf8Stream
from ds4.core.vocabulary import Kind, Vocabulary
from ds4.core.words import Words
from ds4.errors import TokenizerError


class Segment(NamedTuple):
    """A stretch of a prompt. special: it comes from the template, so special tokens in it are meant as such."""

    text: str
    special: bool


def byte_alphabet() -> dict[str, int]:
    """GPT-2's printable stand-ins for bytes: character to byte.

    Bytes that print in Latin-1 stand for themselves; the other 68 are numbered from U+0100 on, in rising order.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table = {chr(byte): byte for byte in printable}
    hidden = [byte for byte in range(256) if byte not in set(printable)]
    table.update({chr(0x100 + index): byte for index, byte in enumerate(hidden)})
    return table


_BYTES = byte_alphabet()


class StreamDecoder:
    """Token ids to text, one at a time; never half a character. Joined, what it returns equals Tokenizer.decode."""

    __slots__ = ("_bytes", "_hidden", "_strip", "_utf8")

    def __init__(
        self, tokenizer: Tokenizer, special: bool, strip: bool, visible: Collection[str] = frozenset()
    ) -> None:
        self._bytes = tokenizer.token_bytes
        self._hidden = frozenset() if special else tokenizer.control_ids - tokenizer.ids_of(visible)
        self._strip = strip
        self._utf8 = components.pick("stops", python=Utf8Stream, oracle=OracleUtf8Stream)()

    @property
    def pending(self) -> bool:
        """Whether bytes of an unfinished character are being held back."""
        return self._utf8.pending

    def push(self, token: int) -> str:
        """The text that this token completes; "" while a character is unfinished."""
        if token in self._hidden:
            return ""
        data = self._bytes(token)
        if self._strip and data:
            self._strip = False
            if data.startswith(b" "):
                data = data[1:]
        return self._utf8.push(data)

    def flush(self) -> str:
        """What is left at the end: U+FFFD if a character was cut off, else nothing."""
        return self._utf8.flush()


class Tokenizer:
    """Encode and decode. Made by `from_metadata`.

    n_vocab, bos_id, eos_id, unk_id: from the file; None where it names none.
    stop_ids: tokens that end an answer. add_bos: whether a prompt starts with bos_id by the model's habit.
    special_tokens: text to id of every markup token; control_ids: those that decode to nothing with special=False.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = replace(vocabulary, merges=[], scores=[])  # what only the core below needs is megabytes
        self.n_vocab = len(vocabulary.tokens)
        self.bos_id, self.eos_id, self.unk_id = vocabulary.bos_id, vocabulary.eos_id, vocabulary.unk_id
        self.stop_ids = vocabulary.stop_ids
        self.add_bos = vocabulary.add_bos and vocabulary.bos_id is not None
        unusual = vocabulary.unusual()
        self.special_tokens = {vocabulary.tokens[i]: i for i in unusual if vocabulary.special(i)}
        self.control_ids = frozenset(i for i in unusual if vocabulary.kinds[i] == Kind.CONTROL)
        self._markup = longest_of(self.special_tokens)
        self._cache: list[bytes | None] = [None] * self.n_vocab
        self._spm = vocabulary.model == "llama"
        self._core = _spm_core(vocabulary) if self._spm else _bpe_core(vocabulary)
        plain = [vocabulary.tokens[i] for i in unusual if vocabulary.plain_added(i)]
        if plain and not isinstance(self._core, Joiner):
            self._core.add_tokens([tokenizers.AddedToken(text, normalized=False) for text in plain])
        quick = "" if self._spm or plain else TABLE[vocabulary.pre].quick
        self._words = Words(quick, self._merge) if quick else None
        self._runs = _RunCache(limit=4 << 20)

    @classmethod
    def from_metadata(cls, md: Metadata) -> Tokenizer:
        """Raises ModelFileError for keys missing or of a wrong type, TokenizerError for a vocabulary that cannot
        work.
        """
        vocabulary = Vocabulary.from_metadata(md)
        if vocabulary.model == "gpt2" and components.choice("tokenizer").side == "oracle":
            from ds4.core.tapes.tokenizer import OracleTokenizer  # which is built on this module

            return OracleTokenizer(vocabulary)
        return cls(vocabulary)

    # ---- encoding

    def encode(self, text: str, *, special: bool = False) -> list[int]:
        """Ids of the text, without BOS. special: whether special tokens written in it become themselves.

        Raises TokenizerError for lone surrogates, which no UTF-8 text can hold.
        """
        return self.encode_segments((Segment(text, special),))

    def encode_segments(self, segments: Iterable[Segment]) -> list[int]:
        """Ids of a rendered prompt. Text that no special token separates is tokenised as one, whatever segments it
        came from, so that the ids are those of the whole prompt except where a user wrote a special token."""
        runs, texts = self._plan(segments)
        encoded = iter(self._encode_runs(texts))
        ids: list[int] = []
        for run in runs:
            if run is None:
                ids.extend(next(encoded))
            else:
                ids.append(run)
        return ids

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of each text, special tokens taken as text. Releases the GIL; for use off an event loop."""
        prefix = " " if self.vocabulary.space_prefix else ""
        for text in texts:
            _check_unicode(text)
        return [list(ids) for ids in self._merge([prefix + t if t else t for t in texts])]

    def continuation(self, text: str) -> list[int]:
        """Ids of text that follows other text: as `encode`, without the space that some models put in front of a
        prompt's first word."""
        _check_unicode(text)
        return list(self._merge([text])[0]) if text else []

    def with_bos(self, ids: list[int]) -> list[int]:
        """The ids with BOS in front where the model wants one and they do not start with it."""
        bos = self.bos_id
        if not self.add_bos or bos is None or (ids and ids[0] == bos):
            return ids
        return [bos, *ids]

    def _plan(self, segments: Iterable[Segment]) -> tuple[list[int | None], list[str]]:
        """The prompt as special ids and None for each run of text between them, with the texts of those runs."""
        runs: list[int | None] = []
        texts: list[str] = []
        current: list[str] = []
        after_special = True

        def close() -> None:
            nonlocal after_special
            text = "".join(current)
            current.clear()
            if text:
                runs.append(None)
                texts.append(" " + text if after_special and self.vocabulary.space_prefix else text)
                after_special = False

        for text, special in segments:
            _check_unicode(text)
            if not special or self._markup is None:
                current.append(text)
                continue
            end = 0
            for match in self._markup.finditer(text):
                current.append(text[end : match.start()])
                close()
                runs.append(self.special_tokens[match[0]])
                after_special, end = True, match.end()
            current.append(text[end:])
        close()
        return runs, texts

    def _encode_runs(self, texts: list[str]) -> list[Sequence[int]]:
        found: list[Sequence[int] | None] = [self._runs.get(text) for text in texts]
        missing = [text for text, ids in zip(texts, found, strict=True) if ids is None]
        if missing:
            fresh = iter(self._merge(missing) if self._words is None else self._words.encode(missing))
            for index, ids in enumerate(found):
                if ids is None:
                    found[index] = new = next(fresh)
                    self._runs.put(texts[index], new)
        return [ids for ids in found if ids is not None]

    def _merge(self, texts: list[str]) -> list[Sequence[int]]:
        """Ids of each text. TokenizerError where the regular expressions of `tokenizers` give up."""
        if isinstance(self._core, Joiner):
            return [self._core.encode(text) for text in texts]
        try:
            return [encoding.ids for encoding in self._core.encode_batch_fast(texts, add_special_tokens=False)]
        except BaseException as error:
            if type(error).__name__ != "PanicException":  # Rust's, which is no Exception
                raise
            raise TokenizerError("too long a run of characters of one kind", subject="text") from None

    # ---- decoding

    def token_bytes(self, token: int) -> bytes:
        """The bytes that a token stands for. TokenizerError for an id outside the vocabulary."""
        if not 0 <= token < self.n_vocab:
            raise TokenizerError("no such token", subject="id", expected=f"0..{self.n_vocab - 1}", found=token)
        known = self._cache[token]
        if known is None:
            known = self._cache[token] = self._spell(token)
        return known

    def _spell(self, token: int) -> bytes:
        text, kind = self.vocabulary.tokens[token], self.vocabulary.kinds[token]
        if self._spm:
            if kind == Kind.BYTE:
                return bytes([int(text[3:5], 16)])
            return text.encode() if kind == Kind.CONTROL else text.replace(SPACE, " ").encode()
        if kind in (Kind.NORMAL, Kind.UNUSED, Kind.BYTE):
            try:
                return bytes([_BYTES[character] for character in text])
            except KeyError:
                pass  # a vocabulary may pad itself with names that are not in the byte alphabet
        return text.encode()

    def decode(self, ids: Iterable[int], *, special: bool = True, continuation: bool = False) -> str:
        """Text of the ids. special: whether control tokens show. What is not UTF-8 becomes U+FFFD.

        continuation: the ids follow other text; else the space that `encode` put in front of the first word (some
        SentencePiece models) is taken off again.
        """
        decoder = StreamDecoder(self, special, self.vocabulary.space_prefix and not continuation)
        text = [decoder.push(token) for token in ids]
        text.append(decoder.flush())
        return "".join(text)

    def stream(
        self, *, special: bool = True, continuation: bool = True, visible: Collection[str] = frozenset()
    ) -> StreamDecoder:
        """A decoder for ids that arrive one at a time; by default they continue a prompt. visible: special tokens that
        show although special is False."""
        return StreamDecoder(self, special, self.vocabulary.space_prefix and not continuation, visible)

    def ids_of(self, tokens: Collection[str]) -> frozenset[int]:
        """Ids of those of these special tokens that the vocabulary has."""
        return frozenset([self.special_tokens[text] for text in tokens if text in self.special_tokens])


class _RunCache:
    """The ids of recent longer runs of text: a conversation comes back whole with every turn.

    limit: characters of text kept, least recently used going first.
    """

    _SHORTEST, _LONGEST_SHARE = 64, 4

    def __init__(self, limit: int) -> None:
        self._limit, self._size = limit, 0
        self._runs: OrderedDict[str, Sequence[int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, text: str) -> Sequence[int] | None:
        if len(text) < self._SHORTEST:
            return None
        with self._lock:
            ids = self._runs.get(text)
            if ids is not None:
                self._runs.move_to_end(text)
            return ids

    def put(self, text: str, ids: Sequence[int]) -> None:
        if not self._SHORTEST <= len(text) <= self._limit // self._LONGEST_SHARE:
            return
        with self._lock:
            if text not in self._runs:
                self._size += len(text)
            self._runs[text] = array("i", ids)  # a list of them takes nine times as much
            while self._size > self._limit:
                self._size -= len(self._runs.popitem(last=False)[0])


def _check_unicode(text: str) -> None:
    if text.isascii():
        return
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise TokenizerError(
            "a lone surrogate is not a character",
            subject="text",
            expected="Unicode text",
            found=f"U+{ord(text[error.start]):04X} at character {error.start}",
        ) from None


def _bpe_core(vocabulary: Vocabulary) -> tokenizers.Tokenizer:
    row = TABLE.get(vocabulary.pre)
    if row is None:
        known = ", ".join(sorted(TABLE))
        found = vocabulary.pre or "nothing"
        raise TokenizerError("unknown pre-tokenizer", subject="tokenizer.ggml.pre", expected=known, found=found)
    ids = dict(zip(vocabulary.tokens, range(len(vocabulary.tokens)), strict=True))
    core = _build(ids, vocabulary.merges, ignore_merges=row.whole_words)
    core.pre_tokenizer = row.build()
    normalizer = row.normalizer()
    if normalizer is not None:
        core.normalizer = normalizer
    return core


def _spm_core(vocabulary: Vocabulary) -> tokenizers.Tokenizer | Joiner:
    """SentencePiece's BPE as ranked merges. Markup is no piece, so that no text can come together to it; but for the
    unknown token, which stands for characters that have no piece and no bytes."""
    special = {index for index in vocabulary.unusual() if vocabulary.special(index)}
    ids = {text: index for index, text in enumerate(vocabulary.tokens) if index not in special}
    fallback = all(f"<0x{byte:02X}>" in ids for byte in range(256))
    unknown = None if vocabulary.unk_id is None else vocabulary.tokens[vocabulary.unk_id]
    with sentencepiece.uncollected():
        ranked = sentencepiece.merges(vocabulary, ids)
        if ranked is None:
            spelled = [ids[f"<0x{byte:02X}>"] for byte in range(256)] if fallback else []
            return Joiner(vocabulary, ids, spelled)
        if unknown is not None:
            ids[unknown] = vocabulary.unk_id or 0
        core = _build(ids, ranked, unk_token=unknown, fuse_unk=True, byte_fallback=fallback)
        del ranked
    core.normalizer = normalizers.Replace(" ", SPACE)
    return core


def _build(ids: dict[str, int], merges: list[tuple[str, str]], **options: object) -> tokenizers.Tokenizer:
    try:
        return tokenizers.Tokenizer(models.BPE(vocab=ids, merges=merges, **options))
    except Exception as error:  # a bare one is what `tokenizers` raises
        raise TokenizerError(
            "the merges do not fit the vocabulary",
            subject="tokenizer.ggml.merges",
            expected="pairs of tokens that join to a token",
            found=str(error)[:200],
        ) from None
