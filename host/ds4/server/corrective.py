"""One corrective turn for a buffered answer whose tool call nobody can carry out: the model is told what is wrong and
answers again. Its second answer is the request's, whatever it is; usage counts both.

Only where nothing has been told yet: a stream has shown the first answer by then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ds4.errors import Ds4Error
from ds4.server.errors import ApiError
from ds4.server.events import CallDelta, CallsVoid, Delta, Event, Finished, HungUp
from ds4.server.job import Job
from ds4.server.request import GenerationRequest
from ds4.server.service import Served

_TOLD = (
    "Your tool call was not carried out: {why}. Nothing was run. If you still want to call a tool, write the whole "
    "call again, exactly in the form that the instructions at the beginning give, with one of these tools: {names}. "
    "Otherwise answer in plain text."
)


class Buffered:
    """The events of an answer that is not streamed. job: the one that makes it now; began: is told of the second one.

    Where tools may be called they are kept back to the answer's end, since they may be in vain.
    """

    def __init__(self, served: Served, job: Job, began: Callable[[Job], None]) -> None:
        self._served, self.job, self._began = served, job, began
        request = job.request
        self._may = request.choices == 1 and request.chat is not None and request.chat.may_call
        self._first: Finished | None = None
        self._kept: list[Event] = []

    async def take(self) -> list[Event]:
        """The next events, in order; after the last one of the answer, none may be asked for."""
        while True:
            events = await self.job.channel.take()
            if not self._may:
                return [self._counted(event) for event in events]
            self._kept += events
            last = self._kept[-1]
            if isinstance(last, Delta | CallDelta | CallsVoid):
                continue
            if isinstance(last, Finished) and self._first is None and (second := await self._second(last)) is not None:
                self._first, self.job, self._kept = last, second, []
                continue
            kept, self._kept = self._kept, []
            return [self._counted(event) for event in kept]

    def done(self) -> None:
        """Nobody takes any more events."""
        self._served.engine.done(self.job)

    async def _second(self, end: Finished) -> Job | None:
        """The job of the corrective turn. None: there is nothing to correct, or no room for it."""
        request, engine = self.job.request, self._served.engine
        if end.broken is None:
            return None
        try:
            again = await self._again(request, end)
            if any(isinstance(event, HungUp) for event in self.job.channel.pending):
                return None
            if request.trace is not None:
                request.trace.anew()
            job = engine.submit(again)
        except (ApiError, Ds4Error):
            return None  # too long by now, or no place in the queue: the first answer stands as it is
        if request.trace is not None:
            request.trace.queued(job)
        engine.done(self.job)
        job.abort = self.job.abort
        self._began(job)
        return job

    async def _again(self, request: GenerationRequest, end: Finished) -> GenerationRequest:
        chat, answer = request.chat, request.answer
        assert chat is not None and answer is not None and end.broken is not None
        said = [event for event in self._kept if isinstance(event, Delta)]
        content = "".join([event.text for event in said if not event.reasoning]) + end.broken.markup
        reasoning = "".join([event.text for event in said if event.reasoning])
        told = _TOLD.format(why=end.broken.why, names=", ".join(sorted(chat.names)))
        turn = {"role": "assistant", "content": content, **({"reasoning_content": reasoning} if reasoning else {})}
        chat = replace(chat, messages=[*chat.messages, turn, {"role": "user", "content": told}])
        prompt, ids = await self._served.prompts.chat(chat)
        if len(ids) >= self._served.context:
            raise ApiError(400, "The corrective turn does not fit the context.", code="context_length_exceeded")
        return replace(request, prompts=[ids], answer=replace(answer, prompt=prompt), chat=chat)

    def _counted(self, event: Event) -> Event:
        """An answer's end, with the tokens of the turn before it."""
        first = self._first
        if first is None or not isinstance(event, Finished):
            return event
        return replace(
            event,
            prompt_tokens=first.prompt_tokens + event.prompt_tokens,
            cached_tokens=first.cached_tokens + event.cached_tokens,
            completion_tokens=first.completion_tokens + event.completion_tokens,
            reasoning_tokens=first.reasoning_tokens + event.reasoning_tokens,
            arrived=first.arrived,
            first_token=first.first_token,
        )
