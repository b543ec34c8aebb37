"""Templates that would run for ever, fill memory or climb out of the sandbox."""

from __future__ import annotations

import threading

import pytest
from ds4.core.template import ChatTemplate
from ds4.errors import TemplateError

LONG = "n.x = n.x"
DOUBLING = "{% set n = namespace(x='aaaa', l=[1]) %}{% for i in range(70) %}{% BODY %}{% endfor %}"

ENDLESS = {
    "nested loops": "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
    "nested loops over the conversation": "{% for a in messages * 9999 %}{% for b in messages * 9999 %}{% for c in "
    "messages * 9999 %}{% endfor %}{% endfor %}{% endfor %}",
    "a tree of macros": "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}"
    "{{ f(60) }}",
    "loops in a block that is never shown": "{% set x %}{% for i in range(99999) %}{% for j in range(99999) %}"
    "{% endfor %}{% endfor %}{% endset %}",
    "a filter over loops": "{% for i in range(99999) %}{{ range(99999) | map('string') | list | length }}{% endfor %}",
    "a recursive loop": "{% for i in range(90) recursive %}{{ loop(range(90)) if loop.depth < 9 }}{% endfor %}",
    "a call block": "{% macro f() %}{{ caller() }}{{ caller() }}{% endmacro %}{% for i in range(99999) %}"
    "{% call f() %}{% for j in range(99999) %}{% endfor %}{% endcall %}{% endfor %}",
}

TOO_BIG = {
    "a multiplied string": "{{ 'a' * 10 ** 9 }}",
    "a multiplied list": "{{ ([1] * 10 ** 9) | length }}",
    "a power": "{{ 10 ** (10 ** 8) }}",
    "squares of squares": "{% set n = namespace(x=99) %}{% for i in range(60) %}{% set n.x = n.x * n.x %}{% endfor %}",
    "strings doubled by +": DOUBLING.replace("BODY", "set n.x = n.x + n.x"),
    "strings doubled by ~": DOUBLING.replace("BODY", "set n.x = n.x ~ n.x"),
    "strings doubled by a block": DOUBLING.replace(
        "{% BODY %}", "{% set y %}{{ n.x }}{{ n.x }}{% endset %}{% set n.x = y %}"
    ),
    "strings doubled by join": DOUBLING.replace("BODY", "set n.x = [n.x, n.x] | join"),
    "strings doubled by str.join": DOUBLING.replace("BODY", "set n.x = ''.join([n.x, n.x])"),
    "strings doubled by replace": DOUBLING.replace("BODY", "set n.x = n.x | replace('a', 'aa')"),
    "strings doubled by str.replace": DOUBLING.replace("BODY", "set n.x = n.x.replace('a', 'aa')"),
    "strings doubled by %": DOUBLING.replace("BODY", "set n.x = '%s%s' % (n.x, n.x)"),
    "strings doubled by format": DOUBLING.replace("BODY", "set n.x = '{}{}'.format(n.x, n.x)"),
    "strings doubled by tojson": DOUBLING.replace("BODY", "set n.x = [n.x, n.x] | tojson"),
    "lists doubled": DOUBLING.replace("BODY", "set n.l = n.l + n.l"),
    "a wide %": "{{ '%999999999d' % 1 }}",
    "a wide % from its values": "{{ '%*d' % (999999999, 1) }}",
    "a wide format": "{{ '{:999999999}'.format(1) }}",
    "a wide format from its values": "{{ '{:{w}}'.format(1, w=999999999) }}",
    "a deep indent": "{{ ('\n' * 99999) | indent(1000) }}{{ ('\n' * 99999) | indent('x' * 9999) }}",
    "an indented tojson": "{{ [[[1]]] | tojson(indent=999999999) }}",
    "much text in a loop": "{% for i in range(99999) %}" + "x" * 999 + "{% endfor %}",
    "much text from a variable": "{% set x = 'y' * 9999 %}{% for i in range(99999) %}{{ x }}{% endfor %}",
    "many big copies": "{{ (['x' * 999999] * 99999) | map('upper') | list | length }}",
    **{
        f"a list that unfolds, by {name}": "{% set n = namespace(l=(0,), m=(0,)) %}{% for i in range(12) %}"
        "{% set n.l = (n.l,) * 999 %}{% set n.m = (n.m,) * 999 %}{% endfor %}" + use
        for name, use in {
            "printing": "{{ n.l }}",
            "printing what holds it": "{{ n }}",
            "~": "{{ '' ~ n.l }}",
            "%": "{{ '%s' % (n.l,) }}",
            "format": "{{ '{}'.format(n.l) }}",
            "join": "{{ n.l | join }}",
            "replace": "{{ n.l | replace('a', 'b') }}",
            "string": "{{ n.l | string | length }}",
            "upper": "{{ n.l | upper | length }}",
            "tojson": "{{ n.l | tojson }}",
            "==": "{{ n.l == n.m }}",
            "<": "{{ n.l < n.m }}",
            "in": "{{ n.l in [n.m] }}",
            "is eq": "{{ n.l is eq(n.m) }}",
            "select": "{{ [n.l] | select('eq', n.m) | list | length }}",
            "unique": "{{ [n.l, n.m] | unique | list | length }}",
            "sort": "{{ [n.l, n.m] | sort | length }}",
            "a key": "{{ {n.l: 1} | length }}",
            "a subscript": "{{ {}[n.l] }}",
            "get": "{{ {}.get(n.l) }}",
            "index": "{{ [n.l].index(n.m) }}",
            "dict values": "{{ {'a': n.l}.values() }}",
            "a refusal": "{{ raise_exception(n.l) }}",
        }.items()
    },
    "endless recursion": "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
}

ESCAPES = {
    "the class of a string": "{{ ''.__class__.__mro__ }}",
    "globals of a function": "{{ raise_exception.__globals__ }}",
    "globals through a helper": "{{ cycler.__init__.__globals__ }}",
    "the environment": "{{ self.__class__ }}",
    "attributes by filter": "{{ '' | attr('__class__') }}",
    "attributes by format": "{{ '{0.__class__.__mro__}'.format('') }}",
    "the loop's frame": "{% for i in [1] %}{{ loop.__init__.__globals__ }}{% endfor %}",
}

FAILING = {
    "changing the conversation": "{{ messages.append(1) }}",
    "changing a message": "{{ messages[0].update({'role': 'system'}) }}",
    "a range past the sandbox's": "{% for i in range(10 ** 9) %}{% endfor %}",
    "padding": "{{ 'a'.ljust(999999999) }}",
    "encoding": "{{ 'a'.encode() }}",
    "bytes": "{{ (1).to_bytes(999999999, 'big') }}",
}

MESSAGES = [{"role": "user", "content": "hello"}]


def render(source: str) -> str:
    return ChatTemplate(source, seconds=0.3, characters=1 << 20).render_text(MESSAGES)


@pytest.mark.parametrize("name", ENDLESS)
def test_what_would_run_for_ever_is_stopped_by_the_clock(name: str) -> None:
    with pytest.raises(TemplateError) as caught:
        render(ENDLESS[name])
    assert caught.value.code in ("template_time", "template_size")


def test_the_clock_stops_a_template_in_any_thread() -> None:
    caught: list[BaseException] = []

    def run() -> None:
        try:
            render(ENDLESS["nested loops"])
        except TemplateError as error:
            caught.append(error)

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert [error.code for error in caught if isinstance(error, TemplateError)] == ["template_time"] * 2


@pytest.mark.parametrize("name", TOO_BIG)
def test_what_would_fill_memory_is_stopped_before_it_does(name: str) -> None:
    with pytest.raises(TemplateError) as caught:
        render(TOO_BIG[name])
    assert caught.value.code in ("template_size", "template_time")


@pytest.mark.parametrize("name", ESCAPES)
def test_what_reaches_for_python_gets_nothing(name: str) -> None:
    try:
        shown = render(ESCAPES[name])
    except TemplateError as error:
        assert error.code in ("template_failed", "template_syntax")
    else:
        assert shown == ""


@pytest.mark.parametrize("name", FAILING)
def test_what_the_sandbox_forbids_is_a_typed_error(name: str) -> None:
    with pytest.raises(TemplateError) as caught:
        render(FAILING[name])
    assert caught.value.code == "template_failed"


def test_a_long_honest_conversation_is_no_runaway() -> None:
    source = "{% for m in messages %}{{ '<' + m.role + '>' + m.content + '\n' }}{% endfor %}"
    messages = [{"role": "user", "content": "word " * 2000}] * 400
    assert len(ChatTemplate(source).render_text(messages)) > 4_000_000


def test_a_refusal_s_reason_is_cut_to_what_a_person_reads() -> None:
    with pytest.raises(TemplateError) as caught:
        render("{{ raise_exception('x' * 99999) }}")
    assert caught.value.code == "template_refused"
    assert len(str(caught.value)) < 3000
