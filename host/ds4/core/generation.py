"""One answer being generated: an iterator over events, with what has come so far kept on it."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from ds4.core import components
from ds4.core.ledger import SyncPlan
from ds4.core.output.stops import StopMatcher
from ds4.core.sampling import Sampling
from ds4.core.tapes.stops import OracleStopMatcher
from ds4.errors import Cancelled, Ds4Error
from ds4.sys.descriptors import STEPS_IN_FLIGHT, SessionFlags
from ds4.sys.native import Row, StepResult

if TYPE_CHECKING:
    from ds4.core.constraint.matcher import Matcher
    from ds4.core.session import Session

FinishReason = Literal["stop", "length", "cancelled"]
Progress = Callable[[int, int], object]  # (prompt tokens done, of how many)


# A token, its log-probability where wanted, and the likeliest ones.
_Draw = tuple[int, float | None, tuple[tuple[int, float], ...]]


class Event(NamedTuple):
    """One step of an answer.

    token: the drawn id; None for a last event that only brings held-back text. A token that ends the answer is
    reported,
        with no text of its own.
    text: what may be shown now; may be "" (half a character, or the possible start of a stop string).
    logprob, top: natural log-probabilities of the token and of the likeliest ones, where asked for.
    finish_reason: on the last event: "stop" (an end token or a stop string), "length" (max_tokens or the context is
        full), "cancelled".
    """

    token: int | None
    text: str
    logprob: float | None = None
    top: tuple[tuple[int, float], ...] = ()
    finish_reason: FinishReason | None = None


class _Flight(NamedTuple):
    """A submitted step. row: the one whose output is wanted, or -1. end: positions of the bank once it is done."""

    ticket: int
    row: int
    end: int


class Generation(Iterator[Event]):
    """Made by Session.generate. Iterate to run it; stop iterating, or close it, to leave it.

    The engine computes one step ahead of the tokens that have been delivered, so that it does not wait while the
    caller looks at a token; the step too many is rolled back at the end. In a session that drafts it guesses instead: a
    token and the guess of the one behind it make one step, and where the guess is what is drawn anyway, that step gave
    two tokens. A draw depends on seed and position alone, so the answer is the same, sampled ones included.

    tokens, text: what has been delivered. finish_reason: None while running. prompt_tokens, cached_tokens: of the
    prompt, and how many of those the session still held. guesses, right_guesses: of a session that drafts.
    prefill_s, decode_s: wall-clock seconds.
    """

    def __init__(
        self,
        session: Session,
        prompt: list[int],
        sampling: Sampling,
        *,
        max_tokens: int | None,
        stop: Sequence[str],
        stop_ids: frozenset[int],
        logprobs: int | None,
        progress: Progress | None,
        special: bool,
        visible: Collection[str],
        matcher: Matcher | None = None,
    ) -> None:
        self._session, self._native, self._ledger = session, session.native, session.ledger
        self._plan = self._ledger.plan(prompt)
        self._prompt, self._sampling, self._progress = prompt, sampling, progress
        room = max(1, self._ledger.ctx - len(prompt))
        self._limit = room if max_tokens is None else min(room, max_tokens)
        self._stop_ids, self._logprobs = stop_ids, logprobs
        self._n_top = 0 if logprobs is None else max(1, logprobs)
        self._decoder = session.tokenizer.stream(special=special, visible=visible)
        self._stops = components.pick("stops", python=StopMatcher, oracle=OracleStopMatcher)(stop)
        self._flights: deque[_Flight] = deque()
        self._submitted = self._plan.start  # positions submitted so far
        self._drafts = SessionFlags.DRAFT in self._native.desc.flags
        self._ready: deque[_Draw] = deque()  # drawn along with a right guess, not delivered yet
        self.guesses = self.right_guesses = 0
        self._matcher = matcher
        self._started = self._cancelled = False
        self.tokens: list[int] = []
        self._pieces: list[str] = []
        self.finish_reason: FinishReason | None = None
        self.prompt_tokens, self.cached_tokens = len(prompt), self._plan.start
        self.prefill_s = self.decode_s = 0.0

    @property
    def text(self) -> str:
        return "".join(self._pieces)

    @property
    def done(self) -> bool:
        return self.finish_reason is not None

    def run(self) -> str:
        """Runs to the end and returns the text."""
        for _ in self:
            pass
        return self.text

    def cancel(self) -> None:
        """Ends the answer at the next token, or at the next layer of a prefill. What has come stays. [any thread]"""
        if not self.done:
            self._cancelled = True
            self._native.cancel()

    def close(self) -> None:
        """Ends the answer now and leaves the session ready for the next; what has come stays. May be called twice."""
        if self.done:
            return
        with self._session.turn():
            if not self.done:
                self._pieces.append(self._rest())
                self._finish("cancelled")

    def __enter__(self) -> Generation:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __next__(self) -> Event:
        with self._session.lock:
            if self.done:  # perhaps by another thread's call on the session
                raise StopIteration
            return self._step()

    def _step(self) -> Event:
        began, first = time.perf_counter(), not self._started
        try:
            if first:
                self._prefill()
            drawn = None if self._cancelled else self._session.engine.call(self._advance)
            if first and self._progress is not None:
                self._progress(self.prompt_tokens, self.prompt_tokens)
        except Cancelled:
            drawn = None
        except BaseException:  # also Ctrl-C, which may have cut a wait short
            self.close()
            raise
        event = self._event(*drawn) if drawn is not None else self._cut_off()
        elapsed = time.perf_counter() - began
        if first:
            self.prefill_s = elapsed
        else:
            self.decode_s += elapsed
        return event

    # ---- on the caller's thread

    def _prefill(self) -> None:
        """Has the prompt evaluated but for its last chunk, which is left in flight."""
        engine, total = self._session.engine, self.prompt_tokens
        self._started = True
        engine.call(self._begin)
        while (done := engine.call(self._feed)) < total:
            if self._progress is not None:
                self._progress(done, total)
            if self._cancelled:
                raise Cancelled("cancelled")

    def _event(self, token: int, logprob: float | None, top: tuple[tuple[int, float], ...]) -> Event:
        self.tokens.append(token)
        reason: FinishReason | None = None
        if token in self._stop_ids:
            text, reason = self._rest(), "stop"
        else:
            text, hit = self._stops.push(self._decoder.push(token))
            if hit:
                reason = "stop"
            elif len(self.tokens) >= self._limit:
                text += self._rest()
                reason = "stop" if self._stops.matched is not None else "length"
        self._pieces.append(text)
        if reason is not None:
            self._finish(reason)
        return Event(token, text, logprob, top, reason)

    def _rest(self) -> str:
        """The text held back by half a character or the start of a stop string."""
        text, hit = self._stops.push(self._decoder.flush())
        return text if hit else text + self._stops.flush()

    def _cut_off(self) -> Event:
        text = self._rest()
        self._pieces.append(text)
        self._finish("cancelled")
        return Event(None, text, None, (), "cancelled")

    def _finish(self, reason: FinishReason) -> None:
        self.finish_reason = reason
        if (self._flights or self._drafts or self._matcher is not None) and self._started and not self._native.closed:
            self._session.engine.call(self._settle)
        self._session.leave(self)

    # ---- on the engine thread

    def _begin(self) -> None:
        """Cuts the bank back to what the plan keeps, or to nothing if its state cannot go back there exactly."""
        start = self._session.reachable(self._plan.start)
        if start < self._plan.start:
            self._plan = SyncPlan(0, True, True)
            self._submitted = self.cached_tokens = 0
        self._native.truncate(0, self._plan.start)
        self._native.set_sampler(0, self._sampling.desc(len(self._prompt)))
        self._native.set_mask(0, None if self._matcher is None else self._matcher.mask())
        self._ledger.commit(self._prompt, self._plan, upto=self._plan.start)

    def _feed(self) -> int:
        """Submits prompt chunks until two are in flight or the last one is; returns the positions done or, once the
        last one is in flight, the prompt's length."""
        total, width = len(self._prompt), self._native.desc.max_rows
        if len(self._flights) == STEPS_IN_FLIGHT:
            self._land()
        while len(self._flights) < STEPS_IN_FLIGHT and self._submitted < total:
            start, end = self._submitted, min(total, self._submitted + width)
            last = end == total
            rows = [Row(0, position, self._prompt[position]) for position in range(start, end)]
            if last:
                rows[-1] = rows[-1]._replace(output=True, top=self._n_top)
            ticket = self._native.submit(rows)
            self._flights.append(_Flight(ticket, end - start - 1 if last else -1, end))
            self._submitted = end
        if self._submitted == total:
            while len(self._flights) > 1:
                self._land()
            return total
        return len(self._ledger)

    def _land(self) -> None:
        """Waits for a chunk of the prompt that is not its last."""
        flight = self._flights.popleft()
        self._native.wait(flight.ticket)
        self._ledger.commit(self._prompt, upto=flight.end)

    def _advance(self) -> _Draw:
        """The next token. Before waiting for it, submits the step after it."""
        if self._matcher is not None:
            return self._held(self._matcher)
        if self._drafts:
            return self._guessing()
        flight = self._flights[-1]
        if len(self.tokens) + 1 < self._limit:
            row = Row(0, flight.end, -1, flight.row, True, False, self._n_top)
            self._flights.append(_Flight(self._native.submit((row,)), 0, flight.end + 1))
        self._flights.popleft()
        result = self._native.wait(flight.ticket)
        if self.tokens:
            self._ledger.append(self.tokens[-1])
        else:
            self._ledger.commit(self._prompt)
        return self._draw(result, flight.row)

    def _draw(self, result: StepResult, row: int) -> _Draw:
        token = result.tokens[row]
        if self._logprobs is None:
            return token, None, ()
        return token, result.logprob(row), tuple(result.top(row, self._logprobs))

    def _held(self, matcher: Matcher) -> _Draw:
        """The next token of an answer that is held to a grammar: which ones may come, the last one has to tell. Nothing
        is left in flight."""
        if self._flights:
            return self._first()
        at, last = len(self._ledger), self.tokens[-1]
        self._native.set_mask(0, matcher.mask(self.tokens))
        result = self._native.wait(self._native.submit([Row(0, at, last, -1, True, False, self._n_top)]))
        drawn = self._draw(result, 0)
        self._ledger.append(last)
        return drawn

    def _first(self) -> _Draw:
        """The token that the prompt's last chunk draws."""
        flight = self._flights.popleft()
        result = self._native.wait(flight.ticket)
        self._ledger.commit(self._prompt)
        return self._draw(result, flight.row)

    def _guessing(self) -> _Draw:
        """The next token in a session that drafts. Nothing is left in flight."""
        native, ledger = self._native, self._ledger
        if self._flights:
            return self._first()
        if self._ready:  # the bank holds the token delivered last: it was the guess
            ledger.append(self.tokens[-1])
            return self._ready.popleft()
        at, last = len(ledger), self.tokens[-1]
        rows = [Row(0, at, last, -1, True, False, self._n_top)]
        if len(self.tokens) + 2 <= self._limit:
            guess = native.wait(native.submit_draft([Row(0, at, last, output=True)])).tokens[0]
            rows.append(Row(0, at + 1, guess, -1, True, False, self._n_top))
        result = native.wait(native.submit(rows))
        drawn = self._draw(result, 0)
        ledger.append(last)
        if len(rows) == 2:
            self.guesses += 1
            if drawn[0] == rows[1].token:
                self.right_guesses += 1
                self._ready.append(self._draw(result, 1))
            else:
                native.truncate(0, at + 1)
        return drawn

    def _settle(self) -> None:
        """Ends what is in flight and makes bank and ledger agree on what was delivered."""
        if self._flights:
            self._native.cancel()
        while self._flights:
            flight = self._flights.popleft()
            with contextlib.suppress(Ds4Error):  # a step that failed or was cancelled left its bank as it was
                self._native.wait(flight.ticket)
        held, known = self._native.length(0), len(self._ledger)
        if held > known:
            known = self._session.reachable(known)
            self._native.truncate(0, known)
            self._ledger.rewind(known)
        elif held < known:
            self._ledger.rewind(held)
