"""Which dialect of chat a model has: its family's own encoding, else the template of its file."""

from __future__ import annotations

from ds4.core.chat import Dialect
from ds4.core.chat_dsv4 import Dsv4Chat
from ds4.core.chat_template import TemplateChat
from ds4.core.families import contract
from ds4.core.metadata import Metadata
from ds4.core.output.dialects import detect
from ds4.core.template import ChatTemplate
from ds4.core.tokenizer import Tokenizer


def dialect(metadata: Metadata, tokenizer: Tokenizer) -> Dialect | None:
    """The dialect of a model; None if it has none: its family has no encoding and its file no template, or its
    vocabulary lacks the markup of the encoding. Such a model completes texts only.

    Raises TemplateError for a template that does not compile.
    """
    facts = contract(metadata.string("general.architecture")).PROMPT
    match facts.encoder:
        case "dsv4":
            whole = all(token in tokenizer.special_tokens for token in facts.markup)
            return Dsv4Chat() if whole else None
        case "":
            template = ChatTemplate.from_metadata(metadata, tokenizer)
            if template is None:
                return None
            return TemplateChat(template, detect(template.source, tokenizer.special_tokens))
        case other:
            raise AssertionError(f"a family names the chat encoding {other!r}, which there is not")
