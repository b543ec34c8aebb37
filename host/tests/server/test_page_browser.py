"""The page as a person has it: in a browser, over a scripted engine."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from ds4.core.chat_dsv4 import Dsv4Chat
from support.browser import Browser, Page
from support.live_server import EOS, LiveServer

D = "｜DSML｜"
TURN = "<｜Assistant｜>".encode()
END, THINKS = "</think>", b"<think>"
OPENINGS = (END.encode(), THINKS)
TOOLS = json.dumps(
    [
        {
            "type": "function",
            "function": {
                "name": "weather",
                "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
            },
        }
    ]
)
CALL = (
    f'Let me look.\n\n<{D}tool_calls>\n<{D}invoke name="weather">\n'
    f'<{D}parameter name="city" string="true">Oslo</{D}parameter>\n</{D}invoke>\n</{D}tool_calls>'
)
MARKUP = """## Three ways

A **bold** word, an *easy* one, `code`, and [a link](https://example.org/a).

1. First
   - inside
2. Second

> Quoted.

| name | size |
|------|-----:|
| a    | 12   |

```python
def f(x):
    return "<b>" + x
```

<img src=x onerror="document.title='owned'"><script>document.title = 'owned'</script>
[bad](javascript:alert(1))
"""


class Script:
    """The engine's rule: answers behind the last turn's opening with the text, and then the end."""

    def __init__(self) -> None:
        self.text = ""

    def __call__(self, tokens: Sequence[int]) -> int:
        held = bytes(tokens)
        start = held.rindex(TURN) + len(TURN)
        opening = next(opening for opening in OPENINGS if held.startswith(opening, start))
        at = len(held) - start - len(opening)
        thoughtless = opening == THINKS and END not in self.text
        data = (END * thoughtless + self.text).encode()
        return data[at] if at < len(data) else EOS


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("browser")) as browser:
        yield browser


@pytest.fixture(scope="module")
def script() -> Script:
    return Script()


@pytest.fixture(scope="module")
def server(script: Script) -> Iterator[LiveServer]:
    with LiveServer(banks=4, context=8192, rows=128, rule=script, dialect=Dsv4Chat()) as live:
        yield live


def open_page(browser: Browser, server: LiveServer, width: int = 1280, height: int = 860, dark: bool = False) -> Page:
    page = browser.page(width, height, dark=dark)
    page.go(f"http://127.0.0.1:{server.port}/")
    page.wait("document.querySelectorAll('#banks li').length === 4")
    return page


@pytest.fixture
def page(browser: Browser, server: LiveServer) -> Page:
    return open_page(browser, server)


def keep(page: Page, name: str) -> None:
    """A picture of what is seen, for people, among the outputs of the test."""
    folder = os.environ.get("TEST_UNDECLARED_OUTPUTS_DIR")
    if folder:
        page.screenshot(Path(folder, f"{name}.png"))


def say(page: Page, text: str) -> None:
    page.click("#text")
    page.type(text)
    page.press("Enter")


def answered(page: Page, turns: int = 1) -> None:
    page.wait(
        f"document.querySelectorAll('.turn.assistant').length === {turns} && !document.querySelector('[aria-busy]')"
        " && document.getElementById('stop').hidden"
    )


def fill(page: Page, selector: str, value: str) -> None:
    """A field's value as if typed there, the page's own way of hearing of it included."""
    page.eval(
        f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.value = {json.dumps(value)}; "
        "e.dispatchEvent(new Event('change')); })()"
    )


def test_a_message_is_answered_and_the_figures_are_shown(page: Page, script: Script) -> None:
    keep(page, "empty")
    script.text = "Hello there."
    say(page, "hi")
    answered(page)
    assert page.text(".turn.user .text") == "hi"
    assert page.text(".turn.assistant > .text") == "Hello there."
    foot = page.text(".foot")
    assert "to the first token" in foot and "tok/s" in foot and " in" in foot and " out" in foot
    assert page.eval("document.activeElement.id") == "text"
    assert page.text("#said") == "Hello there."
    assert page.complaints() == []


def test_a_conversation_is_sent_whole_and_begins_anew_on_request(
    page: Page, script: Script, server: LiveServer
) -> None:
    script.text = "One."
    say(page, "first")
    answered(page)
    script.text = "Two."
    say(page, "second")
    answered(page, 2)
    held = [bytes(bank.tokens) for bank in server.engine.scheduler.banks]
    assert any(b"first" in tokens and b"One." in tokens and b"second" in tokens for tokens in held)
    page.click("#new")
    page.wait("document.querySelectorAll('.turn').length === 0")
    say(page, "third")
    answered(page)
    held = [bytes(bank.tokens) for bank in server.engine.scheduler.banks]
    assert any(b"third" in tokens and b"first" not in tokens for tokens in held)


def test_markup_is_shown_and_what_would_run_is_text(page: Page, script: Script) -> None:
    script.text = MARKUP
    say(page, "show me")
    answered(page)
    keep(page, "markup")
    body = ".turn.assistant > .text"
    for selector, text in {
        "h4": "Three ways", "strong": "bold", "em": "easy", "p code": "code", "a": "a link", "ol ul li": "inside",
        "blockquote": "Quoted.", "td": "a", "figure.code figcaption span": "python",
    }.items():  # fmt: skip
        assert page.text(f"{body} {selector}") == text
    assert 'return "<b>" + x' in page.text(f"{body} pre")
    assert page.eval(f"document.querySelectorAll('{body} :is(img, script, b)').length") == 0
    assert page.eval(f"[...document.querySelectorAll('{body} a')].map((a) => a.protocol)") == ["https:"]
    assert "onerror" in page.text(body) and page.eval("document.title") == "DwarfStar"
    assert page.complaints() == []


def test_reasoning_is_folded_away(page: Page, script: Script) -> None:
    fill(page, "#thinking", "on")
    script.text = "Let me *think* about it.</think>Done."
    say(page, "why?")
    answered(page)
    keep(page, "thinking")
    assert page.text(".turn.assistant > .text") == "Done."
    assert page.text(".thinking summary") == "Thought"
    assert page.eval("document.querySelector('.thinking').open") is False
    page.click(".thinking summary")
    assert page.text(".thinking .text") == "Let me think about it."


def test_a_tool_call_is_shown_and_its_result_goes_back(page: Page, script: Script, server: LiveServer) -> None:
    fill(page, "#tools", TOOLS)
    script.text = CALL
    say(page, "weather?")
    page.wait("document.querySelector('.results textarea') !== null")
    keep(page, "tool-call")
    assert page.text(".call figcaption b") == "weather"
    assert json.loads(page.text(".call code")) == {"city": "Oslo"}
    say(page, "no, wait")  # a call wants its result first
    assert page.eval("document.querySelectorAll('.turn.user').length") == 1
    page.eval("document.querySelector('#text').value = ''")
    page.click(".results textarea")
    page.type("12 degrees")
    script.text = "It is 12 degrees."
    page.click(".results button")
    answered(page, 2)
    keep(page, "tool-result")
    assert page.text(".turn.tool .text") == "12 degrees"
    assert page.text("#log > :last-child > .text") == "It is 12 degrees."
    assert any(b"12 degrees</tool_result>" in bytes(bank.tokens) for bank in server.engine.scheduler.banks)


def test_tools_that_are_no_json_are_refused_on_the_page(page: Page, script: Script) -> None:
    fill(page, "#tools", "[{")
    say(page, "hi")
    assert "no JSON" in page.text("#tools-error")
    assert page.eval("document.querySelectorAll('.turn.assistant').length") == 0


def test_a_long_prompt_shows_how_far_it_is_read_and_stop_ends_it(
    page: Page, script: Script, server: LiveServer
) -> None:
    script.text = "Never."
    server.gate.close()
    try:
        server.gate.let(2)
        say(page, "word " * 600)
        page.wait("document.querySelector('.wait progress')?.value > 0")
        page.wait("document.querySelector('#banks [data-state=busy]') !== null")
        keep(page, "progress")
        assert "reading the prompt" in page.text(".wait")
        part = page.eval("(() => { const p = document.querySelector('.wait progress'); return p.value / p.max; })()")
        assert 0 < part < 0.5
        page.press("Escape")
        answered(page)
        assert "stopped" in page.text(".foot")
    finally:
        server.gate.release()
    server.wait_for(lambda: server.idle)
    script.text = "Now."
    page.click(".again")
    answered(page)
    assert page.text(".turn.assistant > .text") == "Now."


def test_stopping_keeps_what_was_said(page: Page, script: Script, server: LiveServer) -> None:
    script.text = "abcdefghij" * 50
    server.gate.close()
    try:
        server.gate.let(30)
        say(page, "go")
        page.wait("document.querySelector('.turn.assistant > .text')?.innerText.length > 3")
        page.click("#stop")
        answered(page)
    finally:
        server.gate.release()
    server.wait_for(lambda: server.idle)
    assert page.text(".turn.assistant > .text").startswith("abcd")
    assert server.metric("ds4_cancelled_requests_total") >= 1


def test_a_refusal_is_shown_in_the_servers_words_and_can_be_tried_again(page: Page, script: Script) -> None:
    fill(page, "#max_tokens", "5")
    script.text = "Fine."
    say(page, "x" * 9000)
    page.wait("document.querySelector('.note.danger') !== null")
    keep(page, "refusal")
    assert "8192" in page.text(".turn.assistant .note.danger")
    assert page.eval("document.querySelector('.again') !== null")


def test_sampling_settings_are_sent_and_impossible_ones_are_not(page: Page, script: Script) -> None:
    fill(page, "#thinking", "off")
    fill(page, "#max_tokens", "3")
    fill(page, "#system", "Be brief.")
    script.text = "abcdefgh"
    say(page, "hi")
    answered(page)
    assert page.text(".turn.assistant > .text") == "abc"
    assert "no tokens left" in page.text(".foot")
    fill(page, "#temperature", "9")
    say(page, "again")
    assert page.eval("document.querySelectorAll('.turn.assistant').length") == 1


def test_the_key_stays_in_the_tab_and_is_sent(page: Page, browser: Browser) -> None:
    fill(page, "#key", "secret")
    assert page.eval("sessionStorage.getItem('ds4.key')") == "secret"
    assert page.eval("localStorage.length") == 0 and page.eval("document.cookie") == ""
    sent = page.eval(
        "(async () => { const real = fetch; let seen; window.fetch = (path, options) => { seen ??= options.headers"
        ".authorization; return real(path, options); }; await new Promise((go) => setTimeout(go, 1500)); "
        "return seen; })()"
    )
    assert sent == "Bearer secret"
    fill(page, "#key", "")
    assert page.eval("sessionStorage.getItem('ds4.key')") is None


def test_every_field_has_a_name_and_every_button_too(page: Page) -> None:
    nameless = page.eval(
        "[...document.querySelectorAll('input, textarea, select')].filter((e) => !e.labels.length).map((e) => e.id)"
    )
    assert nameless == []
    assert page.eval("[...document.querySelectorAll('button')].filter((e) => !e.textContent.trim()).length") == 0


def test_a_phone_has_the_whole_chat_and_the_panel_on_demand(
    browser: Browser, server: LiveServer, script: Script
) -> None:
    page = open_page(browser, server, 375, 720)
    script.text = MARKUP
    say(page, "show me")
    answered(page)
    keep(page, "phone")
    assert page.eval("document.documentElement.scrollWidth") == 375
    assert page.eval("getComputedStyle(document.querySelector('aside')).display") == "none"
    page.click("#panel-button")
    assert page.eval("getComputedStyle(document.querySelector('aside')).display") == "block"
    keep(page, "phone-panel")
    page.press("Escape")
    assert page.eval("getComputedStyle(document.querySelector('aside')).display") == "none"


def test_dark_is_as_the_system_has_it(browser: Browser, server: LiveServer, script: Script) -> None:
    page = open_page(browser, server, dark=True)
    script.text = MARKUP
    say(page, "show me")
    answered(page)
    keep(page, "dark")
    red, green, blue = page.eval("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
    assert max(red, green, blue) < 60


def test_the_page_asks_its_own_server_only(page: Page, server: LiveServer) -> None:
    own = f"http://127.0.0.1:{server.port}/"
    assert all(address.startswith((own, "data:")) for address in page.requests())
