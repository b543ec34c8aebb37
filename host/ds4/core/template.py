"""Chat templates: the Jinja program in a GGUF file that turns a conversation into a prompt.

What Hugging Face's `apply_chat_template` offers is here: `messages`, `tools`, `add_generation_prompt`, the names of
special tokens, `raise_exception`, `strftime_now`, `tojson`. Rendering is bounded (`ds4.core.template_sandbox`) and
gives segments that say which text is the template's and which the request's (`ds4.core.template_origin`); a few
templates are known by heart (`ds4.core.template_known`).
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jinja2

from ds4.core import components
from ds4.core.metadata import Metadata
from ds4.core.template_known import SMOLLM2, digest, renderer
from ds4.core.template_origin import Request, SpecialTexts, mark_literals, mark_text, overlay
from ds4.core.template_sandbox import Budget, Sandbox, dumps
from ds4.core.tokenizer import Segment, Tokenizer
from ds4.errors import TemplateError

__all__ = ["ChatTemplate", "Segment"]

_KEY = "tokenizer.chat_template"
MOST_SOURCE = 256 * 1024  # characters
MOST_OUTPUT = 16 * 1024 * 1024  # characters
MOST_SECONDS = 5.0
_RESERVED = frozenset({"messages", "tools", "add_generation_prompt"})


class ChatTemplate:
    """One compiled template. Thread-safe. Raises TemplateError from its constructor if the source does not
    compile.
    """

    def __init__(
        self,
        source: str,
        *,
        special_tokens: Sequence[str] = (),
        names: Mapping[str, str] | None = None,
        clock: Callable[[], time.struct_time] = time.localtime,
        seconds: float = MOST_SECONDS,
        characters: int = MOST_OUTPUT,
    ) -> None:
        """special_tokens: texts of the vocabulary's special tokens. names: what the template knows by name, such as
        bos_token. clock: what strftime_now reads. seconds, characters: the bounds of one render."""
        if len(source) > MOST_SOURCE:
            limit = f"at most {MOST_SOURCE} characters"
            raise TemplateError("too long", subject=_KEY, expected=limit, found=len(source))
        self.source = source
        self._specials = SpecialTexts(special_tokens)
        self._names = dict(names or {})
        self._seconds, self._characters = seconds, characters
        self._sandbox = Sandbox(clock)
        self._template = self._compile(marked=False)
        self._marked: list[jinja2.Template] = []  # compiled when first needed
        self._known = renderer(source)

    @classmethod
    def from_metadata(
        cls, md: Metadata, tokenizer: Tokenizer, *, clock: Callable[[], time.struct_time] = time.localtime
    ) -> ChatTemplate | None:
        """The file's template, or None if it carries none (raw completions only)."""
        source = md.string(_KEY, None)
        if source is None:
            return None
        ids = {"bos_token": tokenizer.bos_id, "eos_token": tokenizer.eos_id, "unk_token": tokenizer.unk_id}
        ids["pad_token"] = tokenizer.vocabulary.pad_id
        tokens = tokenizer.vocabulary.tokens
        names = {name: tokens[index] if index is not None else "" for name, index in ids.items()}
        make = cls
        if digest(source) == SMOLLM2 and components.choice("template").side == "oracle":
            from ds4.core.tapes.template import OracleChatTemplate  # which is built on this module

            make = OracleChatTemplate
        return make(source, special_tokens=list(tokenizer.special_tokens), names=names, clock=clock)

    def within(self, characters: int) -> ChatTemplate:
        """The same template with another bound on what a render makes."""
        other = copy.copy(self)
        other._characters = characters
        return other

    @property
    def characters(self) -> int:
        """The bound on what a render makes."""
        return self._characters

    def _compile(self, marked: bool) -> jinja2.Template:
        try:
            tree = self._sandbox.parse(self.source)
            return self._sandbox.build(mark_literals(tree, self._specials) if marked else tree)
        except jinja2.TemplateSyntaxError as error:
            message = f"does not compile, line {error.lineno}: {error.message}"
            raise TemplateError(message, subject=_KEY, code="template_syntax") from None
        except (RecursionError, MemoryError):
            raise TemplateError("nests too deeply", subject=_KEY, code="template_syntax") from None
        except (jinja2.TemplateError, SyntaxError, ValueError) as error:
            raise TemplateError(f"does not compile: {error}", subject=_KEY, code="template_syntax") from None

    def _values(
        self,
        messages: Sequence[Mapping[str, Any]],
        add_generation_prompt: bool,
        tools: Sequence[Mapping[str, Any]] | None,
        kwargs: Mapping[str, Any],
    ) -> dict[str, Any]:
        taken = (_RESERVED | self._names.keys()) & kwargs.keys()
        if taken:
            subject = ", ".join(sorted(taken))
            raise TemplateError("reserved template variables", subject=subject, code="template_variable")
        own = {"messages": list(messages), "tools": list(tools) if tools else None}
        return {**kwargs, **own, "add_generation_prompt": add_generation_prompt}

    def render_text(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        add_generation_prompt: bool = True,
        tools: Sequence[Mapping[str, Any]] | None = None,
        **kwargs: Any,
    ) -> str:
        """The prompt as text. kwargs: further variables of the template, such as enable_thinking.

        TemplateError: template_refused (raise_exception), template_failed, template_time, template_size.
        """
        values = self._values(messages, add_generation_prompt, tools, kwargs)
        return self._sandbox.run(self._template, {**self._names, **values}, self._budget())

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        add_generation_prompt: bool = True,
        tools: Sequence[Mapping[str, Any]] | None = None,
        **kwargs: Any,
    ) -> list[Segment]:
        """The prompt as segments, for Tokenizer.encode_segments; joined, their text is render_text's.

        special=False: text of the request that special tokens must not be read from. Stretches of the request's text
        that cannot hold or complete a special token may stand in special=True segments.
        """
        values = self._values(messages, add_generation_prompt, tools, kwargs)
        if self._known is not None:
            known = self._known(messages, add_generation_prompt, self._characters)
            if known is not None:
                return known
        return self.render_by_proof(values)

    def render_by_proof(self, values: dict[str, Any]) -> list[Segment]:
        """As `render`, for any template: by rendering it, and finding out where each character came from. values: all
        variables of the template but special tokens."""
        budget = self._budget()
        prompt = self._sandbox.run(self._template, {**self._names, **values}, budget)
        request = Request(self._specials, values)
        if not request.suspects:
            return [Segment(prompt, True)]
        segments = None if request.exhausted else self._by_placeholders(request, values, prompt, budget)
        if segments is not None and not self._specials.inside(segments):
            return segments
        marked = self._by_marks(request, values, prompt, budget)
        if segments is None or marked is None:
            return segments or marked or request.cautious(prompt)
        return overlay(segments, marked)

    def _budget(self) -> Budget:
        return Budget(self._seconds, self._characters)

    def _by_placeholders(
        self, request: Request, values: dict[str, Any], prompt: str, budget: Budget
    ) -> list[Segment] | None:
        try:
            wrapped = {**self._names, **request.wrapped(values)}
            text = self._sandbox.run(self._template, wrapped, budget.again(), request.encoder(dumps))
        except TemplateError:
            return None  # a template that fails over placeholders looks into the strings
        return request.put_back(text, prompt)

    def _by_marks(self, request: Request, values: dict[str, Any], prompt: str, budget: Budget) -> list[Segment] | None:
        if not self._marked:
            self._marked.append(self._compile(marked=True))
        names = {name: mark_text(text, self._specials) for name, text in self._names.items()}
        try:
            text = self._sandbox.run(self._marked[0], {**names, **values}, budget.again())
        except TemplateError:
            return None
        return request.unmark(text, prompt)
