"""Which dialect of chat a model has: its family's own encoding, else the template of its file."""

from __future__ import annotations

from dataclasses import dataclass

from ds4.core.chat import Dialect
from ds4.core.chat_dsv4 import Dsv4Chat
from ds4.core.chat_template import TemplateChat
from ds4.core.families import contract
from ds4.core.metadata import Metadata
from ds4.core.options import REASONING_TAGS, TOOL_DIALECT
from ds4.core.output.answer import Tags
from ds4.core.output.dialects import detect
from ds4.core.settings import Settings
from ds4.core.template import ChatTemplate
from ds4.core.tokenizer import Tokenizer
from ds4.errors import SettingsError


@dataclass(frozen=True)
class Override:
    """What a person knows better than the template shows. See `output.dialects.detect`."""

    tools: str | None = None
    reasoning: str | Tags | None = None

    @classmethod
    def of(cls, settings: Settings) -> Override:
        return cls(settings[TOOL_DIALECT], settings[REASONING_TAGS])

    def refuse(self, why: str) -> None:
        """SettingsError if anything is overridden where nothing can be."""
        for value, option in ((self.tools, TOOL_DIALECT), (self.reasoning, REASONING_TAGS)):
            if value is not None:
                raise SettingsError(f"cannot be chosen for this model: {why}", subject=f"--{option.name}")


AS_SHOWN = Override()


def dialect(metadata: Metadata, tokenizer: Tokenizer, override: Override = AS_SHOWN) -> Dialect | None:
    """The dialect of a model; None if it has none: its family has no encoding and its file no template, or its
    vocabulary lacks the markup of the encoding. Such a model completes texts only.

    Raises TemplateError for a template that does not compile, SettingsError for an override where no template is used.
    """
    facts = contract(metadata.string("general.architecture")).PROMPT
    match facts.encoder:
        case "dsv4":
            override.refuse("its family has a chat encoding of its own")
            whole = all(token in tokenizer.special_tokens for token in facts.markup)
            return Dsv4Chat() if whole else None
        case "":
            template = ChatTemplate.from_metadata(metadata, tokenizer)
            if template is None:
                override.refuse("its file has no chat template")
                return None
            specials = tokenizer.special_tokens
            answers = detect(template.source, specials, tools=override.tools, reasoning=override.reasoning)
            return TemplateChat(template, answers)
        case other:
            raise AssertionError(f"a family names the chat encoding {other!r}, which there is not")
