"""Headless Chromium for tests of pages, driven over its debugging pipe: nothing but the standard library, and no port.

    with Browser(tmp_path) as browser:
        page = browser.page(1200, 800)
        page.go(url)
        page.press("a")
        page.wait("document.querySelector('dialog[open]') !== null")

Messages are JSON ended by a zero byte, on file descriptor 3 to the browser and 4 from it
(https://chromedevtools.github.io/devtools-protocol/).
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import signal
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
PATIENCE = 60.0  # seconds; a busy machine takes long to start a browser
_SWITCHES = (
    "--headless=new",
    "--no-sandbox",  # tests may run as root, and open none but pages of their own
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-breakpad",
    "--no-first-run",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--remote-debugging-pipe",
)
_NAMED = {"Enter": (13, "\r"), "Escape": (27, ""), "Tab": (9, ""), "ArrowDown": (40, ""), "ArrowUp": (38, "")}


class BrowserError(Exception):
    """The browser refused a command, threw in a page, or kept silent."""


def program() -> str:
    """Chromium's path. Without one a test fails where CI is set, and is skipped elsewhere."""
    named = os.environ.get("DS4_CHROMIUM")
    found = named or next(filter(None, map(shutil.which, PROGRAMS)), None)
    if found is None:
        told = "no Chromium (Debian: apt-get install chromium; DS4_CHROMIUM names another)"
        if os.environ.get("CI") == "true":
            pytest.fail(told)
        pytest.skip(told)
    return found


class Browser:
    """One browser with a profile of its own in a folder."""

    def __init__(self, folder: Path) -> None:
        path = program()
        down, up = os.pipe(), os.pipe()
        # Above 10, so that neither end is 3 or 4 when they are put there.
        read, write = (fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10) for fd in (down[0], up[1]))
        argv = [path, *_SWITCHES, f"--user-data-dir={folder / 'chromium'}", "about:blank"]
        quiet = os.open(folder / "chromium.log", os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o644)
        actions = [
            (os.POSIX_SPAWN_DUP2, read, 3),
            (os.POSIX_SPAWN_DUP2, write, 4),
            (os.POSIX_SPAWN_DUP2, quiet, 1),
            (os.POSIX_SPAWN_DUP2, quiet, 2),
        ]
        env = {**os.environ, "HOME": str(folder), "XDG_CONFIG_HOME": str(folder), "XDG_CACHE_HOME": str(folder)}
        self._pid = os.posix_spawn(path, argv, env, file_actions=actions, setpgroup=0)
        for fd in (read, write, quiet, down[0], up[1]):
            os.close(fd)
        self._out, self._in = down[1], up[0]
        self._buffer = b""
        self._next = 0
        self.events: list[dict[str, Any]] = []

    def page(self, width: int = 1280, height: int = 800, *, dark: bool = False) -> Page:
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        return Page(self, session, width, height, dark)

    def call(self, method: str, session: str | None = None, /, **params: Any) -> dict[str, Any]:
        """The result of a command; events that come meanwhile are kept."""
        self._next += 1
        message: dict[str, Any] = {"id": self._next, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._out, data) :]
        deadline = time.monotonic() + PATIENCE
        while True:
            answer = self._receive(deadline, method)
            if answer.get("id") != message["id"]:
                self.events.append(answer)
            elif "error" in answer:
                raise BrowserError(f"{method}: {answer['error']}")
            else:
                return dict(answer["result"])

    def _receive(self, deadline: float, what: str) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._in], [], [], left)[0]:
                raise BrowserError(f"{what}: no answer within {PATIENCE:.0f} s")
            piece = os.read(self._in, 1 << 16)
            if not piece:
                raise BrowserError(f"{what}: the browser has ended")
            self._buffer += piece
        line, _, self._buffer = self._buffer.partition(b"\0")
        return dict(json.loads(line))

    def close(self) -> None:
        try:
            self.call("Browser.close")
        except (BrowserError, OSError):
            pass
        os.close(self._out)
        os.close(self._in)
        deadline = time.monotonic() + 5
        while os.waitpid(self._pid, os.WNOHANG) == (0, 0):
            if time.monotonic() > deadline:
                os.killpg(self._pid, signal.SIGKILL)
                os.waitpid(self._pid, 0)
                break
            time.sleep(0.02)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class Page:
    """One tab."""

    def __init__(self, browser: Browser, session: str, width: int, height: int, dark: bool) -> None:
        self._browser = browser
        self._session = session
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")
        self.size(width, height)
        self.scheme("dark" if dark else "light")

    def size(self, width: int, height: int) -> None:
        self._call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def scheme(self, scheme: str) -> None:
        """light or dark, as the system would have it; nothing moves, so that what is seen is what stays."""
        wanted = {"prefers-color-scheme": scheme, "prefers-reduced-motion": "reduce"}
        features = [{"name": name, "value": value} for name, value in wanted.items()]
        self._call("Emulation.setEmulatedMedia", features=features)

    def go(self, url: str) -> None:
        self._call("Page.navigate", url=url)
        wanted = json.dumps(url.partition("#")[0])
        self.wait(f"location.href.split('#')[0] === {wanted}")

    def eval(self, script: str) -> Any:
        """What an expression (or a promise) comes to."""
        done = self._call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in done:
            raise BrowserError(f"{script}: {done['exceptionDetails']}")
        return done["result"].get("value")

    def wait(self, condition: str) -> None:
        """Returns once a page is loaded on which an expression is true; also over a navigation."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                if self.eval(f"document.readyState === 'complete' && ({condition})"):
                    return
            except BrowserError:
                pass  # the page is being replaced
            if time.monotonic() > deadline:
                raise BrowserError(f"never true: {condition}")
            time.sleep(0.02)

    def text(self, selector: str) -> str:
        """The visible text of the first element."""
        return str(self.eval(f"document.querySelector({json.dumps(selector)}).innerText"))

    def press(self, key: str) -> None:
        """One key: a character, or a name such as Enter."""
        code, text = _NAMED[key] if key in _NAMED else (ord(key.upper()), key)
        common = {"key": key, "windowsVirtualKeyCode": code}
        self._call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", text=text, **common)
        self._call("Input.dispatchKeyEvent", type="keyUp", **common)

    def type(self, text: str) -> None:
        """Text into the field that has the focus."""
        self._call("Input.insertText", text=text)

    def click(self, selector: str) -> None:
        """A click of the mouse on the middle of an element."""
        x, y = self.eval(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)}); "
            "e.scrollIntoView({block: 'center'}); "
            "const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self._call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def screenshot(self, path: Path, *, whole: bool = False) -> Path:
        """A PNG of what is seen, or of the whole page."""
        data = self._call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        path.write_bytes(base64.b64decode(data))
        return path

    def complaints(self) -> list[str]:
        """What the page's console, its exceptions and its content policy have said so far."""
        self.eval("0")
        said = []
        for event in self._browser.events:
            if event.get("sessionId") != self._session:
                continue
            params = event["params"]
            if event["method"] == "Log.entryAdded":
                said.append(params["entry"]["text"])
            elif event["method"] == "Runtime.exceptionThrown":
                said.append(params["exceptionDetails"]["text"])
            elif event["method"] == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
                said.append(str(params["args"]))
        return said

    def requests(self) -> list[str]:
        """Every address that the page has asked for."""
        self.eval("0")
        return [
            event["params"]["request"]["url"]
            for event in self._browser.events
            if event.get("sessionId") == self._session and event["method"] == "Network.requestWillBeSent"
        ]

    def _call(self, method: str, **params: Any) -> dict[str, Any]:
        return self._browser.call(method, self._session, **params)
