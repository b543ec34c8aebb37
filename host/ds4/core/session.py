"""One conversation with a model: a bank of KV state, the ledger of what it holds, and answers generated on it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ds4.core import chat, components
from ds4.core.engine import EngineThread
from ds4.core.generation import Event, FinishReason, Generation, Progress
from ds4.core.ledger import SessionLedger
from ds4.core.sampling import Sampling
from ds4.core.tapes.ledger import OracleSessionLedger
from ds4.core.tokenizer import Tokenizer
from ds4.errors import Cancelled, Ds4Error, SamplingError, TemplateError, TokenizerError
from ds4.sys.descriptors import MAX_TOP
from ds4.sys.native import NativeSession, NativeSnapshot, Row

if TYPE_CHECKING:
    from ds4.core.constraint.grammar import Grammar

__all__ = ["Event", "FinishReason", "Generation", "Progress", "Prompt", "Session"]

Prompt = str | chat.Prompt | Sequence[int] | Sequence[Mapping[str, Any]]


class Session:
    """Made by Model.session. May be used from any thread. There is one conversation, so calls take turns: one that
    finds another thread's answer under way ends it, as it would its own; `cancel` waits for nobody.

    A prompt that continues what the session holds is evaluated only from where it differs, so a conversation may be
    passed whole with every turn.
    """

    def __init__(
        self, engine: EngineThread, native: NativeSession, tokenizer: Tokenizer, dialect: chat.Dialect | None
    ) -> None:
        self.engine, self.native, self.tokenizer, self.dialect = engine, native, tokenizer, dialect
        self.ledger = components.pick("ledger", python=SessionLedger, oracle=OracleSessionLedger)(native.desc.n_ctx)
        self._active: Generation | None = None
        self.lock = threading.RLock()  # held by whoever moves the bank or the ledger

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """This thread's turn. What another one is computing is cancelled: it would have been ended anyway."""
        if not self.lock.acquire(blocking=False):
            self.cancel()
            self.lock.acquire()
        try:
            yield
        finally:
            self.lock.release()

    @property
    def ctx(self) -> int:
        """Positions that the session has room for."""
        return self.ledger.ctx

    @property
    def tokens(self) -> list[int]:
        """The tokens that the session holds."""
        return self.ledger.tokens

    def __len__(self) -> int:
        return len(self.ledger)

    def encode(
        self, prompt: Prompt, *, tools: Sequence[Mapping[str, Any]] | None = None, **variables: Any
    ) -> list[int]:
        """Token ids of a prompt: plain text (special tokens in it are text; BOS is added by the model's habit), ids,
        or messages such as {"role": "user", "content": "..."} through the model's chat dialect, or its prompt.

        tools: of the chat. variables: switches of `chat.ChatRequest` (thinking, effort), and a template's own. Raises
        TokenizerError, TemplateError, ChatError or EncoderError.
        """
        if isinstance(prompt, chat.Prompt):
            return self.tokenizer.with_bos(self.tokenizer.encode_segments(prompt.segments))
        if isinstance(prompt, str):
            return self.tokenizer.with_bos(self.tokenizer.encode(prompt))
        if prompt is None or isinstance(prompt, bytes | bytearray | memoryview | Mapping):  # some are lists of ints too
            expected = "text, token ids or a list of messages"
            raise TokenizerError("not a prompt", subject="prompt", expected=expected, found=type(prompt).__name__)
        items = list(prompt)
        if items and all(isinstance(item, Mapping) for item in items):
            messages: list[Mapping[str, Any]] = [item for item in items if isinstance(item, Mapping)]
            return self.encode(self.chat_prompt(messages, tools=tools, **variables))
        ids: list[int] = []
        for item in items:
            if isinstance(item, bool) or not isinstance(item, int) or not 0 <= item < self.tokenizer.n_vocab:
                expected = f"ids in 0..{self.tokenizer.n_vocab - 1}, or messages"
                raise TokenizerError("not a prompt", subject="prompt", expected=expected, found=repr(item)[:80])
            ids.append(item)
        return ids

    def chat_prompt(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        **variables: Any,
    ) -> chat.Prompt:
        """The prompt of a chat, for `generate`, and for the parser of its answer: `dialect.parser(prompt)`."""
        if self.dialect is None:
            raise TemplateError("the model file carries no chat template or markup", code="template_missing")
        switches = {name: variables.pop(name) for name in ("thinking", "effort") if name in variables}
        request = chat.ChatRequest(messages, tuple(tools or ()), variables=variables, **switches)
        return self.dialect.prompt(request, self.ctx)

    def generate(
        self,
        prompt: Prompt,
        *,
        sampling: Sampling | None = None,
        max_tokens: int | None = None,
        stop: str | Sequence[str] = (),
        ignore_eos: bool = False,
        logprobs: int | None = None,
        special: bool = False,
        progress: Progress | None = None,
        grammar: Grammar | None = None,
        tools: Sequence[Mapping[str, Any]] | None = None,
        **variables: Any,
    ) -> Generation:
        """An answer to the prompt, as an iterator of events; `.run()` gives its text at once.

        sampling: None is greedy. max_tokens: None is what the context has room for. stop: strings that end the answer
        and are not shown. ignore_eos: goes on past end tokens. logprobs: how many of the likeliest tokens to report
        with each (0..64; 0: only the drawn one's). special: whether control tokens show in the text; in answers to
        chats those that mark reasoning and tool calls always do. progress: called on the caller's thread while a long
        prompt is evaluated. grammar: what the answer is held to, all of its text; it ends where that does.

        Raises at once ContextLengthError (with both numbers), ConstraintError, TokenizerError, TemplateError,
        SamplingError; while iterating, EngineError. A second generation ends the first.
        """
        stops = _stop_strings(stop)
        _bounded("max_tokens", max_tokens, 1, None)
        _bounded("logprobs", logprobs, 0, MAX_TOP)
        if sampling is not None and not isinstance(sampling, Sampling):
            raise SamplingError("not Sampling", subject="sampling", expected="Sampling(...)", found=repr(sampling)[:80])
        sampling = Sampling() if sampling is None else sampling
        sampling.check_vocabulary(self.tokenizer.n_vocab)
        ids = self.encode(prompt, tools=tools, **variables)
        visible = self.dialect.visible if self.dialect is not None and _is_chat(prompt) else frozenset()
        # Reasoning and calls are text to a grammar wherever the dialect's parser reads them.
        matcher = None
        if grammar is not None:
            from ds4.core.constraint.matcher import Vocabulary  # its library is large, and most sessions do without

            matcher = Vocabulary(self.tokenizer, visible).matcher(grammar)
        with self.turn():
            self.settle()
            generation = Generation(
                self,
                ids,
                sampling,
                max_tokens=max_tokens,
                stop=stops,
                stop_ids=frozenset() if ignore_eos and matcher is None else self.tokenizer.stop_ids,
                logprobs=logprobs,
                progress=progress,
                special=special,
                visible=visible,
                matcher=matcher,
            )
            self._active = generation
        return generation

    def sync(self, prompt: Prompt, progress: Progress | None = None) -> int:
        """Makes the session hold exactly the prompt's tokens, without drawing any; returns how many it held already.

        Raises Cancelled if `cancel` was called meanwhile; what had been evaluated by then stays.
        """
        ids = self.encode(prompt)
        with self.turn():
            self.settle()
            return self._sync(ids, progress)

    def _sync(self, ids: list[int], progress: Progress | None) -> int:
        if self.ledger.valid and ids == self.ledger.tokens:
            return len(ids)
        plan = self.ledger.plan(ids)
        start = plan.start + 1 if self.ledger.tokens[: plan.start + 1] == ids else plan.start
        start = self.engine.call(self._cut, start)
        width = self.native.desc.max_rows
        for at in range(start, len(ids), width):
            chunk = ids[at : at + width]
            self.engine.call(self._evaluate, chunk, at)
            if progress is not None:
                progress(at + len(chunk), len(ids))
        return start

    def reachable(self, length: int) -> int:
        """`length`, or 0 where the bank cannot go back to it exactly and has to be built anew. On the engine thread."""
        return length if length >= min(self.native.rewind_floor(0), self.native.length(0)) else 0

    def _cut(self, length: int) -> int:
        """Goes back to `length` positions, or to none; returns how many are left."""
        length = self.reachable(length)
        self.native.truncate(0, length)
        return self.ledger.rewind(length)

    def _evaluate(self, chunk: list[int], at: int) -> None:
        rows = [Row(0, at + offset, token) for offset, token in enumerate(chunk)]
        try:
            self.native.wait(self.native.submit(rows))
        except Cancelled:
            raise
        except BaseException:
            self._reconcile()
            raise
        for token in chunk:
            self.ledger.append(token)

    def _reconcile(self) -> None:
        """After a failure: what the engine no longer holds, the ledger forgets."""
        with contextlib.suppress(Ds4Error):
            self._cut(min(self.native.length(0), len(self.ledger)))

    def rewind(self, length: int) -> int:
        """Forgets positions length and on (clamped to what is held); returns the new length, which is 0 where the
        model's state cannot go back so far exactly."""
        with self.turn():
            self.settle()
            return self.engine.call(self._cut, max(0, min(length, len(self.ledger))))

    def clear(self) -> None:
        """Forgets everything."""
        self.rewind(0)

    def snapshot(self) -> NativeSnapshot:
        """The session's state as bytes (`bytes(...)` or `.view()`), tokens included."""
        with self.turn():
            self.settle()
            return self.engine.call(self.native.snapshot, 0)

    def restore(self, snapshot: NativeSnapshot | bytes, tokens: Sequence[int]) -> None:
        """Puts a snapshot back. tokens: those that the session held when it was taken (`tokens`).

        Raises EngineError (engine_format) for damaged or foreign bytes, Ds4Error (snapshot_tokens) if the count of
        tokens is not the snapshot's; the session is then empty or as it was.
        """
        with self.turn():
            self.settle()
            length = self.engine.call(self.native.restore, 0, snapshot)
            if length != len(tokens):
                self.engine.call(self.native.truncate, 0, 0)
                self.ledger.rewind(0)
                found, code = len(tokens), "snapshot_tokens"
                raise Ds4Error("not the snapshot's tokens", subject="tokens", expected=length, found=found, code=code)
            self.ledger.adopt(tokens)

    def cancel(self) -> None:
        """Ends the answer or the evaluation that is running. [any thread]"""
        active = self._active
        if active is not None:
            active.cancel()
        else:
            self.native.cancel()

    def settle(self) -> None:
        """Ends an answer that is still open. Other calls do this for themselves."""
        if self._active is not None:
            self._active.close()

    def leave(self, generation: Generation) -> None:
        """A generation's word that it has ended."""
        if self._active is generation:
            self._active = None

    def close(self) -> None:
        """Frees the session's memory. May be called twice."""
        with self.turn():
            if self.native.closed or self.engine.closed:
                return
            self.settle()
            self.engine.call(self.native.close)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _is_chat(prompt: Prompt) -> bool:
    return isinstance(prompt, chat.Prompt) or (
        not isinstance(prompt, str) and any(isinstance(item, Mapping) for item in prompt)
    )


def _stop_strings(stop: str | Sequence[str]) -> list[str]:
    stops = [stop] if isinstance(stop, str) else list(stop) if isinstance(stop, Sequence) else [stop]
    for text in stops:
        if not isinstance(text, str):
            expected, found = "a string or strings", repr(text)[:80]
            raise Ds4Error("not a stop string", subject="stop", expected=expected, found=found, code="stop_type")
        if not text:
            raise Ds4Error("an empty stop string", subject="stop", code="stop_empty")
    return stops


def _bounded(name: str, value: int | None, low: int, high: int | None) -> None:
    if value is None:
        return
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole or value < low or (high is not None and value > high):
        expected = f"{low} or more" if high is None else f"{low}..{high}"
        raise Ds4Error("out of range", subject=name, expected=expected, found=value, code=name)
