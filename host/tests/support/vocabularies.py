"""Small vocabularies for tests that need no model file."""

from __future__ import annotations

from collections.abc import Sequence

from ds4.core.tokenizer import Tokenizer, byte_alphabet
from ds4.core.vocabulary import Kind, Vocabulary

BYTE_CHARACTERS = {byte: character for character, byte in byte_alphabet().items()}
CHATML = ("<|im_start|>", "<|im_end|>", "<|endoftext|>")


def byte_level(
    special: Sequence[str] = CHATML,
    merges: Sequence[tuple[str, str]] = (),
    added: Sequence[str] = (),
    pre: str = "smollm",
    stop: Sequence[str] = ("<|im_end|>",),
) -> Tokenizer:
    """Specials first, then the 256 bytes, then what the merges make, then user-defined tokens."""
    merges = [(_spelled(left), _spelled(right)) for left, right in merges]
    tokens = [*special, *(BYTE_CHARACTERS[byte] for byte in range(256)), *(left + right for left, right in merges)]
    kinds = [Kind.CONTROL] * len(special) + [Kind.NORMAL] * (len(tokens) - len(special))
    tokens += added
    kinds += [Kind.USER_DEFINED] * len(added)
    return Tokenizer(
        Vocabulary(
            model="gpt2",
            pre=pre,
            tokens=tokens,
            kinds=list(kinds),
            scores=[],
            merges=merges,
            bos_id=0 if special else None,
            eos_id=1 if len(special) > 1 else None,
            unk_id=None,
            pad_id=None,
            add_bos=False,
            add_eos=False,
            space_prefix=False,
            stop_ids=frozenset(tokens.index(text) for text in stop if text in tokens),
        )
    )


def sentencepiece(
    pieces: dict[str, float],
    space_prefix: bool = True,
    add_bos: bool = True,
    added: Sequence[str] = (),
    html: bool = False,
) -> Tokenizer:
    """A tokenizer of `sentencepiece_vocabulary`."""
    return Tokenizer(sentencepiece_vocabulary(pieces, space_prefix, add_bos, added, html))


def sentencepiece_vocabulary(
    pieces: dict[str, float],
    space_prefix: bool = True,
    add_bos: bool = True,
    added: Sequence[str] = (),
    html: bool = False,
) -> Vocabulary:
    """<unk>, <s>, </s>, 256 byte tokens, then the pieces with their scores, then user-defined tokens."""
    bytes_ = [f"<0x{byte:02X}>" for byte in range(256)]
    tokens = ["<unk>", "<s>", "</s>", *bytes_, *pieces, *added]
    kinds = [Kind.UNKNOWN, Kind.CONTROL, Kind.CONTROL, *[Kind.BYTE] * 256, *[Kind.NORMAL] * len(pieces)]
    kinds += [Kind.USER_DEFINED] * len(added)
    return Vocabulary(
        model="llama",
        pre="default",
        tokens=tokens,
        kinds=list(kinds),
        scores=[*[0.0] * 259, *pieces.values(), *[0.0] * len(added)],
        merges=[],
        bos_id=1,
        eos_id=2,
        unk_id=0,
        pad_id=None,
        add_bos=add_bos,
        add_eos=False,
        space_prefix=space_prefix,
        stop_ids=frozenset({2}),
        html=html,
    )


def _spelled(text: str) -> str:
    return "".join(BYTE_CHARACTERS[byte] for byte in text.encode())
