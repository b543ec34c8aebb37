"""The review as a person has it: in a browser, by keys."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.browser import Browser, Page

from goldens.review import app, main
from goldens.tests.checkout import CASE, leave_some, make
from parity import goldens, pending

OPEN = "document.querySelector('dialog[open]')?.id"
FIELD = "document.activeElement.name"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("browser")) as browser:
        yield browser


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = make(tmp_path)
    leave_some(root)
    return root


@pytest.fixture
def url(root: Path) -> Iterator[str]:
    server = app.listen(root, 0)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.fixture
def page(browser: Browser, url: str) -> Page:
    page = browser.page(1360, 880)
    page.go(url)
    return page


def keep(page: Page, name: str) -> None:
    """A picture of what is seen, for people, among the outputs of the test."""
    folder = os.environ.get("TEST_UNDECLARED_OUTPUTS_DIR")
    if folder:
        page.screenshot(Path(folder, f"{name}.png"))


def on(page: Page, title: str) -> None:
    """Waits for the page of a result."""
    page.wait(f"document.querySelector('.detail h1')?.textContent === {title!r}")


def test_a_person_decides_on_everything_by_keys_alone(page: Page, root: Path) -> None:
    assert page.text("h1") == "3 results wait for you"
    keep(page, "overview")
    page.press("j")
    page.press("k")
    page.press("Enter")
    on(page, "first.npy")
    keep(page, "array")
    page.press("j")
    on(page, "test_help")
    keep(page, "text")
    page.press("j")
    on(page, CASE)
    keep(page, "tape")
    page.press("k")
    on(page, "test_help")

    page.press("a")
    page.wait(f"{OPEN} === 'accept' && {FIELD} === 'reason'")
    keep(page, "accept")
    page.type("words are what the option takes")
    page.press("Tab")
    page.wait(f"{FIELD} === 'name'")
    page.type("Ada")
    page.press("Enter")
    on(page, CASE)
    assert "Accepted: test_help" in page.text(".flash")
    assert "1 of 3 decided" in page.text(".progress")
    assert "--stop WORDS" in (root / "goldens/snapshots/cli/test_help.ambr").read_text()

    page.press("r")
    page.wait(f"{OPEN} === 'reject' && {FIELD} === 'reason'")
    page.press("Enter")
    on(page, "first.npy")

    page.press("a")
    page.wait(f"{OPEN} === 'accept'")
    assert page.eval("document.querySelector('#accept [name=name]').value") == "Ada"
    page.type("the weights were converted anew")
    page.press("Enter")
    page.wait("document.querySelector('.empty h1')?.textContent === 'All decided'")
    keep(page, "done")
    assert pending.collect(root).pendings == []
    changes = (root / "goldens/CHANGES.md").read_text()
    assert "words are what the option takes" in changes and "the weights were converted anew" in changes
    assert page.complaints() == []


def test_the_browser_asks_nobody_but_the_page(page: Page, url: str) -> None:
    page.press("Enter")
    on(page, "first.npy")
    outside = [address for address in page.requests() if not address.startswith((url, "data:", "about:"))]
    assert outside == []
    assert page.complaints() == []


def test_a_reason_is_required_before_anything_is_sent(page: Page, root: Path) -> None:
    page.press("Enter")
    on(page, "first.npy")
    page.press("a")
    page.wait(f"{OPEN} === 'accept'")
    page.press("Enter")
    assert page.eval("document.querySelector('#accept [name=reason]').matches(':invalid')")
    assert page.eval(OPEN) == "accept"
    page.press("Escape")
    page.wait(f"{OPEN} === undefined")
    assert len(pending.collect(root).pendings) == 3


def test_what_the_server_refuses_is_shown_with_what_was_typed(page: Page, root: Path) -> None:
    page.press("Enter")
    on(page, "first.npy")
    page.press("a")
    page.wait(f"{OPEN} === 'accept'")
    page.type("a reason that took a while")
    page.press("Tab")
    page.type("Ada")
    page.wait("document.querySelector('#accept [name=name]').value === 'Ada'")
    with open(root / "goldens/manifest.toml", "a", encoding="utf-8") as file:
        file.write('\n[[golden]]\nfolder = "broken"\n')
    page.press("Enter")
    page.wait("document.querySelector('h1')?.textContent === 'This cannot be shown'")
    assert "an entry without" in page.text(".lead")


def test_the_keys_are_told_and_escape_closes_them(page: Page) -> None:
    page.press("?")
    page.wait(f"{OPEN} === 'help'")
    keep(page, "keys")
    assert "accept: the golden changes" in page.text("#help")
    page.press("j")
    page.press("Escape")
    page.wait(f"{OPEN} === undefined")
    assert page.text("h1") == "3 results wait for you"


def test_what_is_equal_unfolds_and_differences_are_jumped_to(browser: Browser, root: Path, url: str) -> None:
    old = "".join(f"line {i}\n" for i in range(60))
    new = old.replace("line 10\n", "line ten\n").replace("line 50\n", "line fifty\n")
    pending.write(
        component="x", golden="x/long.txt", case=None, kind="text", expected=None, found=new,
        why="new case", command="x", into=root / ".dev/pending",
    )  # fmt: skip
    (one,) = [one for one, _ in goldens.open_pendings(root)[0] if one.component == "x"]
    goldens.accept(one, "Ada", "the first of its kind", root)
    pending.write(
        component="x", golden="x/long.txt", case=None, kind="text", expected=new, found=old,
        why="mismatch at the gate", command="x", into=root / ".dev/pending",
    )  # fmt: skip
    (one,) = [one for one, _ in goldens.open_pendings(root)[0] if one.component == "x"]
    page = browser.page()
    page.go(f"{url}p/{one.id}")
    rows = "[...document.querySelectorAll('.diff tr')].filter(r => r.offsetParent && r.querySelector('.no')).length"
    assert page.eval(rows) == 14
    page.press("e")
    assert page.eval(rows) == 60
    page.press("e")
    assert page.eval(rows) == 14
    page.click("[data-do=unfold]")
    assert page.eval(rows) == 14 + 7
    page.press("n")
    assert "line ten" in page.text("tr.here")
    page.press("n")
    assert "line fifty" in page.text("tr.here")
    page.press("p")
    assert "line ten" in page.text("tr.here")


def test_the_theme_follows_the_system_and_can_be_chosen(page: Page) -> None:
    paper = "getComputedStyle(document.body).backgroundColor"
    light = page.eval(paper)
    page.scheme("dark")
    dark = page.eval(paper)
    assert light != dark
    keep(page, "overview-dark")
    page.press("t")
    assert page.eval(paper) == light
    page.press("t")
    page.scheme("light")
    assert page.eval(paper) == dark
    page.press("t")


def test_chips_narrow_the_list_and_the_way_through_it(page: Page, url: str) -> None:
    page.click('.chips a[data-component="stops"]')
    page.wait("document.querySelectorAll('#waiting > li').length === 1")
    page.press("Enter")
    on(page, CASE)
    assert "1 of 1" in page.text(".where")


@pytest.mark.parametrize("width", [1360, 900, 420])
def test_nothing_runs_out_of_the_window_at_any_width(page: Page, url: str, width: int) -> None:
    page.size(width, 800)
    for path in ["", *page.eval("[...document.querySelectorAll('#waiting a')].map(a => a.pathname.slice(1))")]:
        page.go(url + path)
        assert page.eval("document.documentElement.scrollWidth") <= width
        keep(page, f"width-{width}-{path.removeprefix('p/')[:4] or 'overview'}")


def test_text_is_readable_in_both_themes(page: Page) -> None:
    """Contrast of at least 4.5 to 1 (WCAG AA) for body text, notes and both sides of a difference."""
    script = """(() => {
      const canvas = new OffscreenCanvas(1, 1).getContext('2d', {willReadFrequently: true});
      const rgb = (colour) => {
        canvas.fillStyle = colour;
        canvas.fillRect(0, 0, 1, 1);
        return canvas.getImageData(0, 0, 1, 1).data;
      };
      const linear = (v) => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
      const light = ([r, g, b]) => .2126 * linear(r / 255) + .7152 * linear(g / 255) + .0722 * linear(b / 255);
      const behind = (e) => {
        for (; e; e = e.parentElement) {
          const colour = getComputedStyle(e).backgroundColor;
          if (!/, 0\\)$|transparent/.test(colour)) return colour;
        }
        return 'white';
      };
      return ['h1', '.lead', '.facts span', '.note', '.command code', 'td.text', 'tr.change td.left',
              'tr.change td.right', 'mark', '.provenance dt', '.act .strong', '.crumb', '.how', '.how small',
              '.what small', '.folded button'].flatMap(selector => {
        const e = document.querySelector(selector);
        if (!e) return [];
        const [a, b] = [light(rgb(getComputedStyle(e).color)), light(rgb(behind(e)))].sort((x, y) => y - x);
        const ratio = (a + .05) / (b + .05);
        return ratio < 4.5 ? [`${selector}: ${ratio.toFixed(2)}`] : [];
      });
    })()"""
    for scheme in ("light", "dark"):
        page.scheme(scheme)
        assert page.eval(script) == [], scheme
    page.press("Enter")
    on(page, "first.npy")
    page.press("j")
    on(page, "test_help")
    for scheme in ("light", "dark"):
        page.scheme(scheme)
        assert page.eval(script) == [], scheme


def test_static_pages_work_as_files(
    browser: Browser, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BUILD_WORKSPACE_DIRECTORY", str(root))
    assert main.main(["--static", str(tmp_path / "site")]) == 0
    page = browser.page()
    page.go((tmp_path / "site" / "index.html").as_uri())
    assert page.text("h1") == "3 results wait for you"
    page.click('.chips a[data-component="stops"]')
    page.wait("[...document.querySelectorAll('#waiting > li')].filter(e => e.offsetParent).length === 1")
    page.press("Enter")
    on(page, CASE)
    page.press("a")
    assert page.eval(OPEN) is None
    page.press("k")
    on(page, "test_help")
    page.press("?")
    page.wait(f"{OPEN} === 'help'")
    assert page.complaints() == []
