"""Which side decides for each component: the C oracle or its Python replacement, as the promotion ledger says.

The ledger is parity/ledger.toml; the build puts a copy into this package. A call site names its component and both
sides, and gets back the one to call:

    read = components.pick("gguf", python=_read, oracle=by_oracle)

DS4_COMPONENT_<NAME>=oracle|python forces one side. A component that the ledger does not list is new and has no
evidence: production lets Python decide.

A *candidate* is decided by the oracle while a sample of its calls goes to Python as well; differences are counted and
logged, and never reach the caller. The sample is one call in SAMPLE, and Python's part of the time stays below SHARE.
"""

from __future__ import annotations

import functools
import logging
import os
import threading
import time
import tomllib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

from ds4.errors import SettingsError

T = TypeVar("T", bound=Callable[..., Any])
State = Literal["oracle", "candidate", "promoted", "retired", "unlisted"]
Side = Literal["oracle", "python"]

STATES: tuple[State, ...] = ("oracle", "candidate", "promoted", "retired")
SAMPLE = 16
SHARE = 0.25
"""Most of a candidate's run time that its shadow may take."""

_HERE = Path(__file__).parent
log = logging.getLogger("ds4.components")


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the ledger. since: date of the last change of state."""

    name: str
    state: State
    since: str


@dataclass(frozen=True, slots=True)
class Decision:
    """What `table` tells: the component's state, which side decides in this process, and why."""

    name: str
    state: State
    side: Side
    why: str


def _file() -> Path:
    packaged = _HERE / "components.toml"
    if packaged.is_file():
        return packaged
    return next(
        (p for p in (root / "parity/ledger.toml" for root in _HERE.resolve().parents[2:4]) if p.is_file()), packaged
    )


@functools.cache
def ledger() -> dict[str, Entry]:
    """The promotion ledger that this process goes by, by component. SettingsError for one that cannot be read."""
    return read(_file())


def read(path: Path) -> dict[str, Entry]:
    """The ledger in a file. SettingsError for one that cannot be read."""
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SettingsError(f"the component ledger cannot be read: {error}", subject=path.name) from None
    entries = {}
    for name, row in raw.items():
        state = row.get("state") if isinstance(row, dict) else None
        if state not in STATES:
            raise SettingsError(
                "unknown state", subject=f"{path.name}: {name}", expected=", ".join(STATES), found=state
            )
        entries[name] = Entry(name, state, str(row.get("since", "")))
    return entries


def choice(name: str) -> Decision:
    """Which side decides. SettingsError for a DS4_COMPONENT_<NAME> that names neither."""
    entry = ledger().get(name)
    state: State = "unlisted" if entry is None else entry.state
    variable = f"DS4_COMPONENT_{name.upper()}"
    forced = os.environ.get(variable)
    if forced:
        if forced not in ("oracle", "python"):
            raise SettingsError("unknown side", subject=variable, expected="oracle or python", found=forced)
        return Decision(name, state, cast(Side, forced), variable)
    if state in ("oracle", "candidate"):
        return Decision(name, state, "oracle", "the ledger: not promoted")
    if state == "unlisted":
        return Decision(name, state, "python", "not in the ledger: no evidence yet")
    since = entry.since if entry is not None else ""
    return Decision(name, state, "python", f"the ledger: {state} {since}".rstrip())


def table() -> list[Decision]:
    """Every component of the ledger or that a variable names, by name. SettingsError for a variable that names no side,
    or a ledger that cannot be read."""
    prefix = "DS4_COMPONENT_"
    named = {key[len(prefix) :].lower() for key, value in os.environ.items() if key.startswith(prefix) and value}
    return [choice(name) for name in sorted(named | ledger().keys())]


def check() -> None:
    """What a program asks before it begins, so that no request is the first to hear of it. Raises SettingsError as
    `table` does and for an oracle that there is none of, OracleError where oracles decide and are not at hand."""
    asked = [row for row in table() if row.side == "oracle"]
    if not asked:
        return
    from ds4.sys import oracles

    known = oracles.names()
    for row in asked:
        if row.name not in known:
            raise SettingsError("no such component", subject=row.why, expected=", ".join(known), found=row.name)


def pick(name: str, *, python: T, oracle: T) -> T:
    """The side to call: a function, or a class whose instances keep state. Both have the same interface."""
    chosen = choice(name)
    if chosen.side == "python":
        return python
    if chosen.state == "candidate" and not os.environ.get(f"DS4_COMPONENT_{name.upper()}"):
        return cast(T, _shadowed(name, python, oracle))
    return oracle


# ---- the candidate's shadow ----

seen: Counter[str] = Counter()
"""How many shadowed calls agreed ("<name>") and differed ("<name> differences") in this process."""
_lock = threading.Lock()


class _Budget:
    """Which calls are shadowed: one in SAMPLE, while Python's share of the time allows it. One for each function or
    class of a process: a call site may pick anew for every answer."""

    def __init__(self) -> None:
        self.calls, self.oracle_time, self.python_time = 0, 0.0, 0.0

    def take(self) -> bool:
        self.calls += 1
        return self.calls % SAMPLE == 1 and self.python_time <= SHARE * (self.oracle_time + self.python_time) + 0.01


_budgets: dict[tuple[str, str], _Budget] = {}


def _budget(name: str, python: Callable[..., Any]) -> _Budget:
    return _budgets.setdefault((name, getattr(python, "__qualname__", type(python).__qualname__)), _Budget())


def _outcome(call: Callable[[], Any]) -> tuple[Any, BaseException | None, float]:
    start = time.perf_counter()
    try:
        return call(), None, time.perf_counter() - start
    except Exception as error:
        return None, error, time.perf_counter() - start


def _compare(name: str, what: str, budget: _Budget, decided: Callable[[], Any], shadow: Callable[[], Any]) -> Any:
    value, error, took = _outcome(decided)
    other, other_error, other_took = _outcome(shadow)
    with _lock:
        budget.oracle_time += took
        budget.python_time += other_took
        same = (value == other) if error is None and other_error is None else _same_error(error, other_error)
        seen[name if same else f"{name} differences"] += 1
    if not same:
        log.warning(
            "component %s: %s: oracle %s, python %s", name, what, _shown(value, error), _shown(other, other_error)
        )
    if error is not None:
        raise error
    return value


def _same_error(a: BaseException | None, b: BaseException | None) -> bool:
    return type(a) is type(b) and getattr(a, "code", None) == getattr(b, "code", None)


def _shown(value: Any, error: BaseException | None) -> str:
    text = repr(value) if error is None else f"raises {error!r}"
    return text if len(text) <= 200 else text[:200] + "…"


def _shadowed(name: str, python: Callable[..., Any], oracle: Callable[..., Any]) -> Callable[..., Any]:
    budget = _budget(name, python)
    if isinstance(python, type):
        return functools.partial(_pair, name, budget, python, oracle)

    @functools.wraps(oracle)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not budget.take():
            value, error, took = _outcome(lambda: oracle(*args, **kwargs))
            budget.oracle_time += took
            if error is not None:
                raise error
            return value
        return _compare(name, "call", budget, lambda: oracle(*args, **kwargs), lambda: python(*args, **kwargs))

    return call


def _pair(
    name: str, budget: _Budget, python: Callable[..., Any], oracle: Callable[..., Any], *args: Any, **kw: Any
) -> Any:
    """An instance of the oracle's class; of a sampled one, a shadow of the other class follows its every call."""
    decided = oracle(*args, **kw)
    if not budget.take():
        return decided
    shadow, error, _ = _outcome(lambda: python(*args, **kw))
    if error is not None:
        log.warning("component %s: only python refuses: %s", name, _shown(None, error))
        return decided
    return _Pair(name, budget, decided, shadow)


class _Pair:
    """Forwards to the object that decides; calls go to its shadow too, and what both return is compared."""

    def __init__(self, name: str, budget: _Budget, decided: Any, shadow: Any) -> None:
        self._ds4 = (name, budget, decided, shadow)

    def __getattr__(self, attribute: str) -> Any:
        name, budget, decided, shadow = self._ds4
        value = getattr(decided, attribute)
        if not callable(value):
            return value
        other = getattr(shadow, attribute)

        def call(*args: Any, **kwargs: Any) -> Any:
            return _compare(name, attribute, budget, lambda: value(*args, **kwargs), lambda: other(*args, **kwargs))

        return call

    def __len__(self) -> int:
        return len(self._ds4[2])
