"""The wire form of `tokenizer`, as oracles/tokenizer/README.md states it, and the tokenizer answered by the oracle."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from ds4.core import components
from ds4.core.pretokenizers import TABLE
from ds4.core.tokenizer import Segment, StreamDecoder, Tokenizer
from ds4.core.vocabulary import Vocabulary
from ds4.errors import Ds4Error, TokenizerError
from ds4.sys.oracles import Oracle
from ds4.sys.tape import TapeError, escape, integer, line, lines, text, unescape


@dataclass(frozen=True, slots=True)
class Encode:
    segments: tuple[Segment, ...]


@dataclass(frozen=True, slots=True)
class Bos:
    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Decode:
    """special: whether control tokens show."""

    special: bool
    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Stream:
    """The same one by one."""

    special: bool
    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Texts:
    """One for each id, and what flush gave."""

    texts: tuple[str, ...]


Request = Encode | Bos | Decode | Stream
Result = list[int] | str | Texts | TokenizerError

_FLAGS = {b"0": False, b"1": True}


# ---- the vocabulary ----


def write_setup(vocabulary: Vocabulary) -> bytes:
    """The setup tape of a byte-level vocabulary."""
    bos = -1 if vocabulary.bos_id is None else vocabulary.bos_id
    head = line("pre", vocabulary.pre.encode()) + line("bos", bos, int(vocabulary.add_bos))
    rows = zip(vocabulary.tokens, vocabulary.kinds, strict=True)
    tokens = [b"token %b %d\n" % (escape(name), kind) for name, kind in rows]
    merges = [b"merge %b %b\n" % (escape(left), escape(right)) for left, right in vocabulary.merges]
    return head + b"".join(tokens) + b"".join(merges)


def read_setup(tape: bytes) -> Vocabulary:
    """TapeError for what is no setup of tokenizer. What the tape does not carry is as in a file that is silent."""
    rows = list(lines(tape))
    match rows[:2]:
        case [[b"pre", name], [b"bos", bos, add]] if add in _FLAGS:
            pre, bos_id, add_bos = text(name), integer(bos), _FLAGS[add]
        case _:
            raise TapeError("no head of a vocabulary")
    tokens: list[str] = []
    kinds: list[int] = []
    merges: list[tuple[str, str]] = []
    for words in rows[2:]:
        match words:
            case [b"token", word, kind] if not merges:
                tokens.append(_whole(word))
                kinds.append(integer(kind))
            case [b"merge", left, right]:
                merges.append((_whole(left), _whole(right)))
            case _:
                raise TapeError("neither a token nor a merge in its place")
    known = set(tokens)
    if pre not in TABLE or not tokens or not -1 <= bos_id < len(tokens):
        raise TapeError("not a vocabulary")
    if not all(-(1 << 31) <= kind < 1 << 31 for kind in kinds):
        raise TapeError("a token's type is no int32")
    if not all(a and b and a in known and b in known and a + b in known for a, b in merges):
        raise TapeError("the merges do not fit the vocabulary")
    return byte_level(pre, tokens, kinds, merges, None if bos_id < 0 else bos_id, add_bos)


def _whole(word: bytes) -> str:
    try:
        return unescape(word).decode()
    except UnicodeDecodeError:
        raise TapeError("a token's text is no UTF-8") from None


def byte_level(
    pre: str, tokens: list[str], kinds: list[int], merges: list[tuple[str, str]], bos_id: int | None, add_bos: bool
) -> Vocabulary:
    """A vocabulary of nothing but what this component looks at."""
    return Vocabulary(
        model="gpt2",
        pre=pre,
        tokens=tokens,
        kinds=kinds,
        scores=[],
        merges=merges,
        bos_id=bos_id,
        eos_id=None,
        unk_id=None,
        pad_id=None,
        add_bos=add_bos,
        add_eos=False,
        space_prefix=False,
        stop_ids=frozenset(),
    )


# ---- requests and results ----


def write_input(request: Request) -> bytes:
    match request:
        case Encode(segments):
            words = [b"%d %b" % (special, escape(content)) for content, special in segments]
            return b" ".join([b"encode", *words]) + b"\n"
        case Bos(ids):
            return line("bos", *ids)
        case Decode(special, ids):
            return line("decode", int(special), *ids)
        case Stream(special, ids):
            return line("stream", int(special), *ids)


def read_input(tape: bytes) -> Request:
    """TapeError for what is no tape of tokenizer."""
    match list(lines(tape)):
        case [[b"encode", *words]] if len(words) % 2 == 0:
            pairs = zip(words[::2], words[1::2], strict=True)
            return Encode(tuple([Segment(text(content), _flag(special)) for special, content in pairs]))
        case [[b"bos", *ids]]:
            return Bos(_ids(ids))
        case [[b"decode", special, *ids]]:
            return Decode(_flag(special), _ids(ids))
        case [[b"stream", special, *ids]]:
            return Stream(_flag(special), _ids(ids))
    raise TapeError("no request to a tokenizer")


def _flag(word: bytes) -> bool:
    if word not in _FLAGS:
        raise TapeError(f"neither 0 nor 1: {word[:60]!r}")
    return _FLAGS[word]


def _ids(words: Sequence[bytes]) -> tuple[int, ...]:
    ids = tuple([integer(word) for word in words])
    if ids and not (min(ids) >= -(1 << 63) and max(ids) < 1 << 63):
        raise TapeError("an id is no int64")
    return ids


def write_output(result: Result) -> bytes:
    match result:
        case TokenizerError():
            return line("error", result.code, result.subject or "-")
        case str():
            return b"text %b\n" % escape(result)
        case Texts(texts):
            return b" ".join([b"texts", *map(escape, texts)]) + b"\n"
        case _:
            return line("ids", *result)


def read_output(tape: bytes) -> Result:
    """TapeError for what is no output of tokenizer."""
    match list(lines(tape)):
        case [[b"error", code, subject]]:
            return TokenizerError("refused", code=code.decode("ascii"), subject=subject.decode("ascii"))
        case [[b"text", word]]:
            return text(word)
        case [[b"texts", *words]] if words:
            return Texts(tuple(map(text, words)))
        case [[b"ids", *words]]:
            return list(map(integer, words))
    raise TapeError("no result of a tokenizer")


def run(tokenizer: Tokenizer, request: Request) -> Result:
    """The replacement's answer to a request."""
    try:
        match request:
            case Encode(segments):
                return tokenizer.encode_segments(segments)
            case Bos(ids):
                return tokenizer.with_bos(list(ids))
            case Decode(special, ids):
                return tokenizer.decode(ids, special=special)
            case Stream(special, ids):
                decoder = tokenizer.stream(special=special)
                texts = [decoder.push(token) for token in ids]
                return Texts((*texts, decoder.flush()))
    except Ds4Error as error:
        if isinstance(error, TokenizerError):
            return error
        raise


def by_tape(tokenizer: Tokenizer, tape: bytes) -> bytes:
    """The replacement as the component that it is."""
    return write_output(run(tokenizer, read_input(tape)))


# ---- answered by the oracle ----


class OracleTokenizer(Tokenizer):
    """Tokenizer, answered by the oracle; what names the vocabulary's parts is Tokenizer's own."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        super().__init__(vocabulary)
        self._oracle = Oracle("tokenizer", write_setup(vocabulary))
        self._encoded = components.pick("tokenizer", python=super().encode_segments, oracle=self._encode)
        self._decoded = components.pick("tokenizer", python=super().decode, oracle=self._decode)
        self._prefixed = components.pick("tokenizer", python=super().with_bos, oracle=self._bos)
        self._streamed = components.pick("tokenizer", python=StreamDecoder, oracle=OracleStreamDecoder)

    def ask(self, request: Request) -> list[int] | str | Texts:
        """The oracle's answer. TokenizerError where that is one."""
        result = read_output(self._oracle.run(write_input(request)))
        if isinstance(result, TokenizerError):
            raise result
        return result

    def encode_segments(self, segments: Iterable[Segment]) -> list[int]:
        return self._encoded(tuple(segments))

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        return [self._encoded((Segment(one, False),)) for one in texts]

    def with_bos(self, ids: list[int]) -> list[int]:
        return self._prefixed(ids)

    def decode(self, ids: Iterable[int], *, special: bool = True, continuation: bool = False) -> str:
        return self._decoded(tuple(ids), special=special)

    def stream(
        self, *, special: bool = True, continuation: bool = True, visible: Collection[str] = frozenset()
    ) -> StreamDecoder:
        return self._streamed(self, special, False, visible)

    def _encode(self, segments: Iterable[Segment]) -> list[int]:
        ids = self.ask(Encode(tuple(segments)))
        assert isinstance(ids, list)
        return ids

    def _bos(self, ids: list[int]) -> list[int]:
        found = self.ask(Bos(tuple(ids)))
        assert isinstance(found, list)
        return found

    def _decode(self, ids: Iterable[int], *, special: bool = True, continuation: bool = False) -> str:
        decoded = self.ask(Decode(special, tuple(ids)))
        assert isinstance(decoded, str)
        return decoded


class OracleStreamDecoder(StreamDecoder):
    """StreamDecoder, answered by the oracle: the ids since nothing was held back are played again with every push."""

    __slots__ = ("_held", "_ids", "_special", "_tokenizer", "_visible")

    def __init__(
        self, tokenizer: Tokenizer, special: bool, strip: bool, visible: Collection[str] = frozenset()
    ) -> None:
        assert isinstance(tokenizer, OracleTokenizer)
        self._tokenizer, self._special = tokenizer, special
        self._visible = tokenizer.ids_of(visible)
        self._ids: tuple[int, ...] = ()
        self._held = ""

    @property
    def pending(self) -> bool:
        return bool(self._held)

    def push(self, token: int) -> str:
        ids = (*self._ids, token)
        # The oracle shows all special tokens or none; none is held back, so those before are not in ids.
        result = self._tokenizer.ask(Stream(self._special or token in self._visible, ids))
        assert isinstance(result, Texts)
        *_, shown, self._held = result.texts
        self._ids = ids if self._held else ()
        return shown

    def flush(self) -> str:
        held, self._held, self._ids = self._held, "", ()
        return held
