"""The one place where `llguidance` compiles: its limits, a deep stack to recurse in, its complaints as our errors."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeVar

from ds4.errors import ConstraintError

if TYPE_CHECKING:  # what a command's start should not wait for: most answers have no grammar
    import llguidance

T = TypeVar("T")

_STACK: Final = 256 << 20
"""Bytes of stack, of address space rather: the compiler recurses along rules and references, and an overflow would end
the process. 3,000 references in a chain overflow 8 MiB; the bounds of `schema` and `grammar` are far below what this
holds."""
_STACK_LOCK = threading.Lock()


def on_deep_stack(work: Callable[[], T]) -> T:
    """The result of `work`, done on a thread of its own."""
    done: Future[T] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:  # a panic of the library's is no Exception
            done.set_exception(error)

    with _STACK_LOCK:  # the size is the whole process's
        before = threading.stack_size(_STACK)
        try:
            threading.Thread(target=run, name="ds4-grammar", daemon=True).start()
        finally:
            threading.stack_size(before)
    try:
        return done.result()
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise ConstraintError(_GAVE_UP, code="grammar") from None


@lru_cache
def _limits() -> llguidance.LLParserLimits:
    import llguidance

    return llguidance.LLParserLimits(
        max_items_in_row=8_000,  # an object of 500 optional properties has 2,000
        initial_lexer_fuel=1_000_000,  # some 20 ms
        step_lexer_fuel=100_000,  # some 7 ms
        step_max_items=50_000,  # some 3 ms
        max_lexer_states=50_000,  # 100 MB at the very most
        max_grammar_size=200_000,
        verbose_errors=False,
    )


def compiled(tokens: llguidance.LLTokenizer, lark: str) -> tuple[llguidance.LLMatcher, float]:
    """A matcher at the beginning, and the seconds that a processor worked on it. ConstraintError (grammar)."""
    import llguidance

    def work() -> tuple[llguidance.LLMatcher, float]:
        matcher = llguidance.LLMatcher(tokens, lark, log_level=0, limits=_limits())
        return matcher, time.thread_time()  # the thread does nothing else

    matcher, seconds = on_deep_stack(work)
    if matcher.is_error():
        raise ConstraintError(reason(matcher.get_error()), code="grammar")
    return matcher, seconds


@lru_cache(maxsize=128)
def complaint(lark: str) -> str:
    """What is wrong with a grammar, whatever the vocabulary; "" for nothing. A few milliseconds."""
    import llguidance

    check, limits = llguidance.LLMatcher.validate_grammar_with_warnings, _limits()
    wrong, messages = on_deep_stack(lambda: check(lark, limits=limits))
    return reason(messages[0]) if wrong else ""


_GAVE_UP: Final = "the compiler gave up on this grammar"
_PICTURE = re.compile(r"\n +\d+ \|.*", re.DOTALL)
_PLACES = re.compile(r"^(?:(?:at )?\d+\(\d+\): )+")


def reason(error: str) -> str:
    """The compiler's words without its picture of the grammar, which the client did not write as it stands there."""
    if error.startswith("panic"):  # of a bound that it asserts; its words are about its own source
        return _GAVE_UP
    plain = _PICTURE.sub("", error.replace("<non-verbose/>", "").strip())
    plain = _PLACES.sub("", plain).removeprefix("failed to compile JSON schema: ")
    return " ".join(plain.split())[:300]
