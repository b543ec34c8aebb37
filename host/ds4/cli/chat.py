"""A conversation: the messages so far, and answers generated on one session."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ds4.cli.arguments import EFFORT, INTERACTIVE, QUIET, RAW, STOP, SYSTEM, TOKENS
from ds4.cli.form import asked_for
from ds4.cli.prompt import effort_as, messages
from ds4.cli.terminal import Printer, Progress, dim, figures
from ds4.core.chat import ChatRequest, Prompt
from ds4.core.chat_template import PlainParser
from ds4.core.defaults import sampling
from ds4.core.dialects import Override
from ds4.core.exits import Exit
from ds4.core.generation import Generation
from ds4.core.model import Model
from ds4.core.options import BACKEND, BATCH, CTX, DRAFT, KV, MTP, NUMERIC, THREADS, WARM
from ds4.core.output.events import Parser
from ds4.core.output.grammar.rules import ToolRules
from ds4.core.reply import Piece, Reply
from ds4.core.sampling import Sampling
from ds4.core.session import Session
from ds4.core.settings import Settings
from ds4.errors import TemplateError
from ds4.sys.descriptors import Backend, GgmlType, Numeric

if TYPE_CHECKING:
    from ds4.core.constraint.grammar import Grammar

# Where neither the command line nor the file says: livelier than greedy, and held to likely words.
FALLBACK = Sampling(temperature=0.8, top_p=0.95, min_p=0.05)


def open_model(settings: Settings, path: Path) -> Model:
    """The model, its weights read; progress shows on a terminal."""
    progress = Progress(path.name.removesuffix(".gguf"), quiet=settings[QUIET])
    try:
        return Model.open(
            path,
            threads=settings[THREADS],
            drafting=settings[MTP],
            warm=settings[WARM],
            answers=Override.of(settings),
            progress=progress,
        )
    finally:
        progress.close()


def open_session(settings: Settings, model: Model, context: int | None) -> Session:
    return model.session(
        context,
        numeric=Numeric[settings[NUMERIC].upper()],
        kv_type=GgmlType[settings[KV].upper()],
        backend=Backend[settings[BACKEND].upper()],
        prefill_width=settings[BATCH],
        drafting=settings[DRAFT] or settings[MTP] is not None,
    )


class Chat:
    """The model must have a chat dialect: a format that is guessed would give answers that are nobody's fault.

    system: the system message, or None. effort: how much to think, or None: as the model does by itself.
    """

    def __init__(self, model: Model, settings: Settings) -> None:
        if model.dialect is None:
            message = "the model file carries no chat template or markup; -p with --raw completes a text"
            raise TemplateError(message, code="template_missing")
        self._model, self._settings, self._dialect = model, settings, model.dialect
        self._sampling = sampling(settings, model.inventory.metadata, FALLBACK)
        self._session = open_session(settings, model, settings[CTX])
        self._turns: list[dict[str, str]] = []
        self._reply: Reply | None = None
        self._stopped = False
        self.system, self.effort = settings[SYSTEM], settings[EFFORT]

    @property
    def context(self) -> int:
        return self._session.ctx

    @property
    def used(self) -> int:
        """Positions of the context that the conversation takes."""
        return len(self._session)

    @property
    def turns(self) -> list[dict[str, str]]:
        """The messages so far, without the system message."""
        return list(self._turns)

    def ask(self, text: str) -> Iterator[Piece]:
        """The answer, piece by piece. A turn that was stopped or failed before its answer's first text is taken back; a
        part of an answer stays in the conversation. Raises ContextLengthError, TemplateError, ChatError,
        EngineError."""
        self._stopped, self._reply = False, None
        self._turns.append({"role": "user", "content": text})
        try:
            system = [] if self.system is None else [{"role": "system", "content": self.system}]
            prompt = self._session.chat_prompt([*system, *self._turns], effort=self.effort)
            generation = self._session.generate(
                prompt,
                sampling=self._sampling,
                max_tokens=self._settings[TOKENS],
                stop=self._settings[STOP],
            )
            self._reply = Reply(generation, self._dialect.parser(prompt))
            for piece in self._reply:
                yield piece
                if self._stopped:
                    generation.close()
        finally:
            reply = self._reply
            if reply is not None and reply.content:
                thought = {"reasoning_content": reply.reasoning} if reply.reasoning else {}
                self._turns.append({"role": "assistant", "content": reply.content, **thought})
            else:
                self._turns.pop()

    def stop(self) -> None:
        """Ends the answer that is coming. May be called from a signal handler."""
        self._stopped = True
        if self._reply is not None:
            self._reply.generation.cancel()

    def figures(self) -> str:
        """Speeds of the last answer."""
        return "" if self._reply is None else speeds(self._reply.generation)

    def set_effort(self, effort: str) -> None:
        """Raises ChatError where the model does not think, and keeps what was."""
        request = ChatRequest([{"role": "user", "content": ""}], effort=effort)
        self._dialect.prompt(request, self.context)
        self.effort = effort

    def set_system(self, text: str) -> None:
        self.system = text
        self.clear()

    def clear(self) -> None:
        """Forgets the conversation; the system message stays."""
        self._turns.clear()

    def set_context(self, size: int) -> None:
        """Another size of context; the conversation goes on and is computed anew. Raises EngineError or
        MemoryPlanError, and keeps the old size then."""
        session = open_session(self._settings, self._model, size)
        self._session.close()
        self._session = session


def speeds(generation: Generation) -> str:
    """The first token comes with the prefill, so the decoding time is that of the others."""
    generated = len(generation.tokens)
    return figures(
        generation.prompt_tokens - generation.cached_tokens,
        generation.prefill_s,
        generated,
        generation.decode_s * generated / (generated - 1) if generated > 1 else 0.0,
        generation.cached_tokens,
    )


def one_shot(settings: Settings, path: Path, prompt: str) -> int:
    """-p: prints the answer as it comes, and on stderr what is thought before it. Ctrl-C ends it, and the command with
    130."""
    grammar = asked_for(settings)
    with open_model(settings, path) as model, open_session(settings, model, settings[CTX]) as session:
        parser: Parser
        if settings[RAW] or model.dialect is None:
            # What stands in a raw prompt is meant: special tokens are read as such.
            ids = model.tokenizer.with_bos(model.tokenizer.encode(prompt, special=True))
            generation, parser = _generate(settings, model, session, ids, grammar), PlainParser()
        else:
            with effort_as(f"--effort {settings[EFFORT]}"):
                asked = session.chat_prompt(messages(settings[SYSTEM], prompt), effort=settings[EFFORT])
            if grammar is not None:
                grammar = model.dialect.grammar(asked, ToolRules(()), grammar, may_think=settings[EFFORT] != "none")
            generation, parser = _generate(settings, model, session, asked, grammar), model.dialect.parser(asked)
        printer = Printer(sys.stdout, None if settings[QUIET] else sys.stderr)
        try:
            for piece in Reply(generation, parser):
                printer.put(piece)
        finally:
            generation.close()
            printer.end()
            if not settings[QUIET] and generation.tokens:
                sys.stderr.write(dim(speeds(generation), sys.stderr) + "\n")
    return Exit.OK


def _generate(
    settings: Settings, model: Model, session: Session, prompt: list[int] | Prompt, grammar: Grammar | None
) -> Generation:
    return session.generate(
        prompt,
        sampling=sampling(settings, model.inventory.metadata, FALLBACK),
        max_tokens=settings[TOKENS],
        stop=settings[STOP],
        grammar=grammar,
    )


def converse(settings: Settings, path: Path) -> int:
    """The chat."""
    from ds4.cli.history import default_path
    from ds4.cli.reader import PlainReader, Reader, TerminalReader
    from ds4.cli.repl import Repl, is_terminal

    began = time.monotonic()
    with open_model(settings, path) as model:
        chat = Chat(model, settings)
        if (effort := settings[EFFORT]) is not None:  # heard now, not after the first message
            with effort_as(f"--effort {effort}"):
                chat.set_effort(effort)
        reader: Reader
        if is_terminal():
            reader = TerminalReader(default_path())
        else:
            reader = PlainReader(sys.stdin, sys.stderr if sys.stdin.isatty() else None)
        if not settings[QUIET] and (reader.interactive or settings[INTERACTIVE]):
            about = f"{_title(model)}, context {chat.context}, {model.threads} thread{'s' * (model.threads != 1)}"
            took = f"loaded in {time.monotonic() - began:.1f} s"
            sys.stderr.write(dim(f"{about}, {took}. /help for help.", sys.stderr) + "\n")
        Repl(chat, reader, quiet=settings[QUIET], out=sys.stdout, notes=sys.stderr).run()
    return Exit.OK


def _title(model: Model) -> str:
    identity = model.identity
    name = identity.name or os.path.basename(identity.path)
    return f"{name} {identity.file_type}" if identity.file_type else name
