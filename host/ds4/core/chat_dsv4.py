"""DeepSeek V4's chat: requests to prompts, answers to events. The seam that server, REPL and agent use; each half is a
component, decided by Python or by its oracle as the promotion ledger says.
"""

from __future__ import annotations

from ds4.core import components
from ds4.core.encoder_dsv4 import Conversation, encode
from ds4.core.output.dsml import DsmlParser
from ds4.core.output.events import Parser
from ds4.core.tapes.encoder import by_oracle
from ds4.core.tapes.output import OracleDsmlParser
from ds4.core.tokenizer import Segment


def prompt(conversation: Conversation) -> list[Segment]:
    """The conversation's prompt, for Tokenizer.encode_segments. EncoderError as `encode`."""
    return components.pick("encoder", python=encode, oracle=by_oracle)(conversation)


def parser(*, thinking: bool, tools: bool) -> Parser:
    """A parser for the answer to a prompt. thinking: whether the prompt ended in reasoning. tools: whether any were
    declared."""
    return components.pick("output", python=DsmlParser, oracle=OracleDsmlParser)(thinking=thinking, tools=tools)
