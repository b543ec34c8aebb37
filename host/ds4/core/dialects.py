"""Which dialect of chat a model has: its family's own encoding, else the template of its file."""

from __future__ import annotations

from ds4.core.chat import Dialect
from ds4.core.chat_dsv4 import Dsv4Chat
from ds4.core.chat_template import TemplateChat
from ds4.core.families import contract
from ds4.core.metadata import Metadata
from ds4.core.template import ChatTemplate
from ds4.core.tokenizer import Tokenizer
from ds4.errors import TemplateError


def dialect(metadata: Metadata, tokenizer: Tokenizer) -> Dialect | None:
    """The dialect of a model; None if it has none: neither its family an encoding nor its file a template.

    Raises TemplateError for a template that does not compile or a vocabulary without the family's markup.
    """
    facts = contract(metadata.string("general.architecture")).PROMPT
    match facts.encoder:
        case "dsv4":
            missing = [token for token in facts.markup if token not in tokenizer.special_tokens]
            if missing:
                raise TemplateError(
                    "the vocabulary lacks special tokens of the family's chat encoding",
                    subject="tokenizer.ggml.tokens",
                    code="template_markup",
                    expected=", ".join(facts.markup),
                    found=f"no {', '.join(missing)}",
                )
            return Dsv4Chat()
        case "":
            template = ChatTemplate.from_metadata(metadata, tokenizer)
            return None if template is None else TemplateChat(template)
        case other:
            raise AssertionError(f"a family names the chat encoding {other!r}, which there is not")
