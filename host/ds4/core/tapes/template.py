"""The wire form of `template`, as oracles/template/README.md states it, and the template answered by the oracle."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ds4.core import components
from ds4.core.alternatives import longest_of
from ds4.core.template import ChatTemplate
from ds4.core.tokenizer import Segment
from ds4.errors import TemplateError
from ds4.sys.oracles import oracle
from ds4.sys.tape import TapeError, escape, line, lines, text, unsigned

MOST_LIMIT = 1 << 53
Field = str | None
"""A role or a content; None: there is none, or it is no text."""


@dataclass(frozen=True, slots=True)
class Render:
    """limit: the most characters that may be made. messages: (role, content)."""

    add_generation_prompt: bool
    limit: int
    messages: tuple[tuple[Field, Field], ...]


Result = list[Segment] | TemplateError
"""Segments as the component has them: a special one is exactly one special token, plain ones do not touch."""

_MARKUP = longest_of(("<|im_start|>", "<|im_end|>"))


def canonical(segments: Iterable[Segment]) -> list[Segment]:
    """Segments that say the same, in the component's form."""
    assert _MARKUP is not None
    out: list[Segment] = []
    plain: list[str] = []

    def close() -> None:
        joined = "".join(plain)
        plain.clear()
        if joined:
            out.append(Segment(joined, False))

    for content, special in segments:
        end = 0
        for found in _MARKUP.finditer(content) if special else ():
            plain.append(content[end : found.start()])
            close()
            out.append(Segment(found[0], True))
            end = found.end()
        plain.append(content[end:])
    close()
    return out


def request(messages: Sequence[Mapping[str, Any]], add_generation_prompt: bool, limit: int) -> Render:
    """What a conversation is to the component."""
    fields = [(_field(message.get("role")), _field(message.get("content"))) for message in messages]
    return Render(add_generation_prompt, limit, tuple(fields))


def _field(value: object) -> Field:
    return value if isinstance(value, str) else None


def write_input(given: Render) -> bytes:
    rows = [b"message %b %b\n" % (_written(role), _written(content)) for role, content in given.messages]
    return line("render", int(given.add_generation_prompt), given.limit) + b"".join(rows)


def _written(field: Field) -> bytes:
    return b"other -" if field is None else b"text " + escape(field)


def read_input(tape: bytes) -> Render:
    """TapeError for what is no tape of template."""
    rows = lines(tape)
    match next(rows, []):
        case [b"render", b"0" | b"1" as add, limit]:
            most = unsigned(limit)
        case _:
            raise TapeError("the first line says what to render")
    if most > MOST_LIMIT:
        raise TapeError(f"{most} is above 2^53")
    return Render(add == b"1", most, tuple([_message(words) for words in rows]))


def _message(words: list[bytes]) -> tuple[Field, Field]:
    match words:
        case [b"message", role_kind, role, content_kind, content]:
            return _read(role_kind, role), _read(content_kind, content)
    raise TapeError("not a message")


def _read(kind: bytes, word: bytes) -> Field:
    if kind == b"text":
        return text(word)
    if kind == b"other" and word == b"-":
        return None
    raise TapeError(f"not a field: {kind[:20]!r} {word[:20]!r}")


def write_output(result: Result) -> bytes:
    if isinstance(result, TemplateError):
        return line("error", result.code)
    return b"".join([b"%b %b\n" % (b"special" if s else b"plain", escape(content)) for content, s in result])


def read_output(tape: bytes) -> Result:
    """TapeError for what is no output of template."""
    segments: list[Segment] = []
    for words in lines(tape):
        match words:
            case [b"error", code] if not segments:
                return TemplateError("refused", code=code.decode("ascii"))
            case [b"special" | b"plain" as kind, word]:
                segments.append(Segment(text(word), kind == b"special"))
            case _:
                raise TapeError("not a segment")
    return segments


def run(template: ChatTemplate, given: Render) -> Result:
    """The replacement's answer to a request. template: SmolLM2's."""
    messages: list[dict[str, Any]] = [{"role": role, "content": content} for role, content in given.messages]
    if given.limit != template.characters:
        template = template.within(given.limit)
    try:
        return canonical(template.render(messages, add_generation_prompt=given.add_generation_prompt))
    except TemplateError as error:
        return error


def by_tape(template: ChatTemplate, tape: bytes) -> bytes:
    """The replacement as the component that it is."""
    return write_output(run(template, read_input(tape)))


# ---- answered by the oracle ----


class OracleChatTemplate(ChatTemplate):
    """ChatTemplate, answered by the oracle. Its source is SmolLM2's."""

    def __init__(self, source: str, **options: Any) -> None:
        super().__init__(source, **options)
        self._rendered = components.pick("template", python=self._by_python, oracle=self._by_oracle)

    def _by_python(self, messages: Sequence[Mapping[str, Any]], add_generation_prompt: bool) -> list[Segment]:
        return canonical(super().render(messages, add_generation_prompt=add_generation_prompt))

    def _by_oracle(self, messages: Sequence[Mapping[str, Any]], add_generation_prompt: bool) -> list[Segment]:
        given = request(messages, add_generation_prompt, self.characters)
        result = read_output(oracle("template").run(write_input(given)))
        if isinstance(result, TemplateError):
            raise result
        return result

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        add_generation_prompt: bool = True,
        tools: Sequence[Mapping[str, Any]] | None = None,
        **kwargs: Any,
    ) -> list[Segment]:
        self._values(messages, add_generation_prompt, tools, kwargs)  # which refuses reserved names
        return self._rendered(messages, add_generation_prompt)

    def render_text(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        add_generation_prompt: bool = True,
        tools: Sequence[Mapping[str, Any]] | None = None,
        **kwargs: Any,
    ) -> str:
        segments = self.render(messages, add_generation_prompt=add_generation_prompt, tools=tools, **kwargs)
        return "".join([segment.text for segment in segments])
