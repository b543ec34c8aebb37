"""The jinja2 sandbox that chat templates run in: what Hugging Face's renderer offers, within bounds of time and size.

A template comes with a model file, so it is as foreign as the file. jinja2's immutable sandbox keeps it away from
Python; this module keeps it from running for ever or filling memory, in any thread and without signals:

- every loop and macro body starts with a tick, put there when the template is compiled, that raises once the deadline
has
  passed and counts the text that the body holds;
- every printed value is counted before it is joined to the rest, also inside `{% set %}` blocks and macros;
- operations that make something big out of something small (`*`, `**`, `+`, `%`, `~`, replace, join, indent, format,
range)
  are bounded before they run, and filters and str methods that templates do not need are absent;
- lists are small however often they hold one another, so a container is weighed as it would unfold before anything
  walks it: printing, formatting, comparing, hashing.

What one tick can cost is thus bounded by the sizes, and the number of ticks by the clock.
"""

from __future__ import annotations

import functools
import itertools
import json
import re
import threading
import time
from collections.abc import Callable, Iterable, Sized
from typing import Any, cast

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from ds4.errors import TemplateError

_FILTERS = (
    "abs attr capitalize count d default dictsort e escape first float groupby indent int items join last length list "
    "lower map max min reject rejectattr replace reverse safe select selectattr sort string sum title tojson trim "
    "truncate unique upper"
).split()
_SHALLOW = ("attr", "count", "d", "default", "first", "items", "last", "length", "safe")  # do not look into items
_COMPARING = "eq equalto == ne != lt lessthan < le <= gt greaterthan > ge >= in".split()
_LAZY = ("map", "select", "reject", "selectattr", "rejectattr")  # generators: each item ticks
_WHOLE = ("dictsort", "groupby", "list", "max", "min", "reverse", "sort", "sum", "unique")  # take all items at once
_STR_METHODS = frozenset(
    "capitalize casefold count endswith find format index isalnum isalpha isascii isdecimal isdigit isidentifier "
    "islower isnumeric isprintable isspace istitle isupper join lower lstrip partition removeprefix removesuffix "
    "replace rfind rindex rpartition rsplit rstrip split splitlines startswith strip swapcase title upper".split()
)
# In a format: a width of five digits, or one taken from the values.
_WIDE = re.compile(r"\d{5,}|\*|:[^{}]*\{")
_MOST_BITS = 4096  # of an integer
_MOST_ITEMS = 100_000  # of a list that a template builds
_MOST_REASON = 2000  # characters of a refusal's message
_MADE = 32  # all strings made on the way, as a multiple of the output's bound


_END = object()
_VIEWS: tuple[type, ...] = (type({}.keys()), type({}.values()), type({}.items()))
_HOLDERS: tuple[type, ...] = (list, tuple, dict, set, frozenset, *_VIEWS, Namespace)
_WEIGHED = "weighed"  # a filter, since jinja2 calls those directly


class _Generation(Extension):
    """The tag `{% generation %}...{% endgeneration %}`, with which publishers mark what training learns from: its
    body, here.
    """

    tags = {"generation"}

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class Budget:
    """What one render may still use. seconds: wall clock; characters: of output and of any string on the way."""

    __slots__ = ("characters", "deadline", "left", "made", "seconds")

    def __init__(self, seconds: float, characters: int) -> None:
        self.seconds, self.characters = seconds, characters
        self.deadline = time.monotonic() + seconds
        self.left = characters
        self.made = _MADE * characters

    def again(self) -> Budget:
        """As much text once more, by the same deadline."""
        other = Budget(self.seconds, self.characters)
        other.deadline = self.deadline
        return other

    def check_time(self) -> None:
        if time.monotonic() > self.deadline:
            raise TemplateError("the chat template runs too long", code="template_time")

    def spend(self, characters: int) -> None:
        """Counts output."""
        self.check_time()
        self.left -= characters
        if self.left < 0:
            raise self.too_big()

    def make(self, characters: int) -> None:
        """Counts a string before it is made."""
        self.check_time()
        self.made -= characters
        if characters > self.characters or self.made < 0:
            raise self.too_big()

    def most(self, size: int, most: int) -> None:
        if size > most:
            raise self.too_big()

    def too_big(self) -> TemplateError:
        return TemplateError(f"the chat template makes more than {self.characters} characters", code="template_size")


class Sandbox(ImmutableSandboxedEnvironment):
    """The environment. One serves all threads; what a render uses is kept per thread (`running`)."""

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self, clock: Callable[[], time.struct_time]) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            optimized=False,  # nothing of the template runs while it is compiled
            cache_size=0,
            finalize=self._printed,
            extensions=[_Generation, "jinja2.ext.loopcontrols"],
        )
        self._clock = clock
        self._local = threading.local()
        filters = {name: self.filters[name] for name in _FILTERS if name in self.filters}
        filters.update({name: self._lazily(filters[name]) for name in _LAZY})
        deep = filters.keys() - {*_LAZY, *_SHALLOW}
        filters.update({name: self._weighing(filters[name]) for name in deep})
        filters.update({name: self._wholly(filters[name]) for name in _WHOLE})
        tests: dict[str, Any] = dict(self.tests)
        self.tests = {**tests, **{name: self._weighing(tests[name]) for name in _COMPARING}}
        filters[_WEIGHED] = self.weighed
        filters.update(tojson=self._tojson, replace=self._replace, join=self._join, indent=self._indent)
        self.filters = filters
        self.globals = {name: self.globals[name] for name in ("range", "dict", "namespace", "cycler", "joiner")}
        self.globals.update(raise_exception=self._refuse, strftime_now=self._strftime_now)

    # ---- compiling

    def build(self, tree: nodes.Template) -> jinja2.Template:
        """Compiles a parsed template, with ticks in its loops and macros. The tree is changed."""
        for node in tree.find_all((nodes.For, nodes.Macro, nodes.CallBlock)):
            static = sum(len(data.data) for data in node.find_all(nodes.TemplateData))
            tick = nodes.Call(nodes.EnvironmentAttribute("tick"), [nodes.Const(static)], [], None, None)
            assert isinstance(node, nodes.For | nodes.Macro | nodes.CallBlock)
            node.body.insert(0, nodes.ExprStmt(tick))
        for parent in list(tree.find_all(nodes.Node)):
            for name, child in list(parent.iter_fields()):
                if isinstance(child, nodes.Concat):
                    setattr(parent, name, self._bounded_concat(child))
                elif isinstance(child, list):
                    child[:] = [self._bounded_concat(c) if isinstance(c, nodes.Concat) else c for c in child]
        for compare in list(tree.find_all(nodes.Compare)):
            compare.expr = self._weighed(compare.expr)
            for operand in compare.ops:
                operand.expr = self._weighed(operand.expr)
        for pair in list(tree.find_all(nodes.Pair)):
            pair.key = self._weighed(pair.key)
        tree.set_environment(self)
        code = self.compile(tree)
        return jinja2.Template.from_code(self, code, self.make_globals(None), None)

    @staticmethod
    def _bounded_concat(node: nodes.Concat) -> nodes.Call:
        return nodes.Call(nodes.EnvironmentAttribute("concat_bounded"), node.nodes, [], None, None)

    @staticmethod
    def _weighed(node: nodes.Expr) -> nodes.Expr:
        if isinstance(node, nodes.Const | nodes.TemplateData):
            return node
        return nodes.Filter(node, _WEIGHED, [], [], None, None)

    # ---- running

    def run(self, template: jinja2.Template, variables: dict[str, Any], budget: Budget, encode: Any = None) -> str:
        """Renders within the budget. encode: what `tojson` does with (value, options); None: json.dumps."""
        self._local.budget, self._local.encode = budget, encode or dumps
        try:
            return template.render(variables)
        except TemplateError:
            raise
        except RecursionError:
            raise TemplateError("the chat template nests too deeply", code="template_size") from None
        except MemoryError:
            raise budget.too_big() from None
        except Exception as error:  # whatever a foreign template can provoke
            raise TemplateError(f"the chat template failed: {error}", code="template_failed") from error
        finally:
            self._local.budget = self._local.encode = None

    @property
    def running(self) -> Budget:
        budget: Budget = self._local.budget
        return budget

    def tick(self, static: int) -> None:
        self.running.spend(static)

    def weight(self, value: Any) -> int:
        """Characters and items of a value with all that it holds, as often as it holds it."""
        if isinstance(value, str):
            return len(value)
        walks, weight = [iter(_held(value))], 0
        while walks:
            item = next(walks[-1], _END)
            if item is _END:
                walks.pop()
                continue
            weight += 2 + (len(item) if isinstance(item, str) else 0)
            if weight > self.running.characters:
                raise self.running.too_big()
            if isinstance(item, _HOLDERS):
                self.running.check_time()
                walks.append(iter(_held(item)))
        return weight

    def weighed(self, value: Any) -> Any:
        """The value, which may be walked."""
        if isinstance(value, _HOLDERS):
            self.weight(value)
        return value

    def getitem(self, obj: Any, argument: Any) -> Any:
        return super().getitem(obj, self.weighed(argument))

    def _weighing(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def weighing(*args: Any, **kwargs: Any) -> Any:
            for argument in (*args, *kwargs.values()):
                self.weighed(argument)
            return function(*args, **kwargs)

        return weighing

    def _printed(self, value: Any) -> Any:
        if not isinstance(value, str):
            value = str(self.weighed(value))
        self.running.spend(len(value))
        return value

    def concat_bounded(self, *values: Any) -> str:
        texts = [str(self.weighed(value)) for value in values]
        self.running.make(sum(map(len, texts)))
        return "".join(texts)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        budget = self.running
        if operator == "+":
            if isinstance(left, str) and isinstance(right, str):
                budget.make(len(left) + len(right))
            elif isinstance(left, list | tuple) and isinstance(right, list | tuple):
                budget.most(len(left) + len(right), _MOST_ITEMS)
        elif operator == "*":
            for sequence, times in ((left, right), (right, left)):
                if isinstance(sequence, str) and isinstance(times, int):
                    budget.make(len(sequence) * max(0, times))
                elif isinstance(sequence, list | tuple) and isinstance(times, int):
                    budget.most(len(sequence) * times, _MOST_ITEMS)
            if isinstance(left, int) and isinstance(right, int):
                budget.most(left.bit_length() + right.bit_length(), _MOST_BITS)
        elif operator == "**":
            if isinstance(left, int) and isinstance(right, int):
                budget.most(left.bit_length() * abs(right), _MOST_BITS)
        elif isinstance(left, str):
            self._formats(left, right if isinstance(right, tuple) else (right,))
        return super().call_binop(context, operator, left, right)

    def _formats(self, pattern: str, values: Iterable[Any]) -> None:
        if _WIDE.search(pattern):
            raise self.running.too_big()
        longest = max(map(self.weight, values), default=0)
        fields = pattern.count("%") + pattern.count("{")
        self.running.make(len(pattern) + fields * (longest + 10_000))

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        formatter = super().wrap_str_format(value)
        if formatter is None:
            return None

        def bounded(*args: Any, **kwargs: Any) -> str:
            self._formats(value.__self__, [*args, *kwargs.values()])
            return formatter(*args, **kwargs)

        return bounded

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        if isinstance(obj, str):
            return attr in _STR_METHODS
        if isinstance(obj, bytes | int | float | Budget | jinja2.Environment):
            return False
        return super().is_safe_attribute(obj, attr, value)

    def call(self, context: Context, obj: Any, *args: Any, **kwargs: Any) -> Any:
        owner = getattr(obj, "__self__", None)
        if isinstance(owner, list | tuple | dict):  # index, count, get: they compare or hash
            for value in (owner, *args) if isinstance(owner, list | tuple) else args:
                self.weighed(value)
        if isinstance(owner, str):
            name = getattr(obj, "__name__", "")
            if name == "replace":  # kwargs: only the loop's variables, which jinja2 passes to every call
                return self._replace(owner, *args)
            if name == "join" and len(args) == 1:
                return self._join(args[0], owner)
        return super().call(context, obj, *args, **kwargs)

    # ---- filters and functions

    def _lazily(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def lazy(*args: Any, **kwargs: Any) -> Any:
            for item in function(*args, **kwargs):
                self.running.make(len(item) if isinstance(item, str) else 0)
                yield item

        return lazy

    def _wholly(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def whole(*args: Any, **kwargs: Any) -> Any:
            for argument in args:
                if isinstance(argument, Sized):
                    self.running.most(len(argument), _MOST_ITEMS)
            return function(*args, **kwargs)

        return whole

    def _tojson(
        self,
        value: Any,
        ensure_ascii: bool = False,
        indent: int | str | None = None,
        separators: tuple[str, str] | None = None,
        sort_keys: bool = False,
    ) -> str:
        self.running.most(indent if isinstance(indent, int) else len(indent or ""), 64)
        options = {"ensure_ascii": ensure_ascii, "indent": indent, "separators": separators, "sort_keys": sort_keys}
        text: str = self._local.encode(self.weighed(value), options)
        self.running.make(len(text))
        return text

    def _replace(self, text: Any, old: str, new: str, count: int | None = None) -> str:
        subject, old, new = (str(self.weighed(value)) for value in (text, old, new))
        times = subject.count(old) if old else len(subject) + 1
        if count is not None and count >= 0:
            times = min(times, count)
        self.running.make(len(subject) + times * len(new))
        return subject.replace(old, new, -1 if count is None else count)

    def _join(self, values: Iterable[Any], separator: str = "", attribute: str | None = None) -> str:
        texts = []
        for value in values:
            text = str(self.weighed(value if attribute is None else self.getitem(value, attribute)))
            self.running.make(len(text) + len(separator))
            texts.append(text)
        return str(separator).join(texts)

    def _indent(self, text: str, width: int | str = 4, first: bool = False, blank: bool = False) -> str:
        pad = width if isinstance(width, str) else " " * max(0, min(width, 1000))
        self.running.make(len(text) + (text.count("\n") + 1) * len(pad))
        lines = text.split("\n")
        padded = [pad + line if line or blank else line for line in lines[1:]]
        return "\n".join([(pad + lines[0]) if first else lines[0], *padded])

    def _strftime_now(self, pattern: str) -> str:
        self.running.most(len(pattern), 1000)
        return time.strftime(pattern, self._clock())

    def _refuse(self, message: object) -> None:
        raise TemplateError(str(self.weighed(message))[:_MOST_REASON], code="template_refused")


def _held(value: Any) -> Iterable[Any]:
    """What a container holds."""
    if isinstance(value, dict):
        return itertools.chain.from_iterable(value.items())
    if isinstance(value, Namespace):
        return _held(value._Namespace__attrs)
    return cast(Iterable[Any], value) if isinstance(value, _HOLDERS) else ()


def dumps(value: Any, options: dict[str, Any]) -> str:
    """JSON as Hugging Face's templates have it: Python's own spacing and key order, no HTML escapes."""
    return json.dumps(value, **options)
