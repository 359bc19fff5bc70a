"""A headless Chromium that a test drives, over the DevTools protocol on a pair of pipes.

Every call blocks, up to a deadline.  The browser resolves only names below
``localhost``, which it knows by itself, and addresses: a test never leaves the
machine.

    browser = Chromium(home)
    self.addCleanup(browser.close)
    page = browser.page()
    page.open("http://board-abc.localhost:7080/")
    page.fill("input[name=user]", "ada")
    page.click("button")
    page.wait_for("document.title == 'Welcome'")
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any, TypeVar

from attrs import define, field

from svc.testing.gateway.processes import die_with_parent
from tests.support.tools import stock_tool

TIMEOUT_SECS = 30.0

_P = TypeVar("_P", bound="Tab")

# The browser looks for its pipes at 3 and 4; a shell may copy descriptors of one digit only.
_START = """
import os, sys
os.dup2(int(sys.argv[1]), 3), os.dup2(int(sys.argv[2]), 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
_FLAGS = (
    "--headless=new",
    "--remote-debugging-pipe",
    "--no-sandbox",  # which root has not, nor most containers; it sees only a test's own pages
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-extensions",
    "--disable-sync",
    "--no-first-run",
    "--no-proxy-server",
    "--password-store=basic",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE *.localhost, EXCLUDE localhost, EXCLUDE 127.*",
)


class BrowserFailed(AssertionError):
    """The browser ended, was silent, or refused a command; or a page failed."""


@define(eq=False)
class Chromium:
    """One browser process with a profile of its own.

    Args:
        home: A directory of the test's, for its profile and what it downloads.
        flags: More words for the command line, such as
            ``--ignore-certificate-errors-spki-list=HASH``.
    """

    home: Path
    flags: tuple[str, ...] = ()
    downloads: Path = field(init=False)
    _process: subprocess.Popen[bytes] = field(init=False)
    _to: int = field(init=False)
    _of: int = field(init=False)
    _read: bytes = field(default=b"", init=False)
    _last: int = field(default=0, init=False)
    _events: deque[Mapping[str, Any]] = field(factory=lambda: deque(maxlen=4096), init=False)
    _pages: dict[str, Tab] = field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        program = stock_tool("chromium")
        self.downloads = self.home / "downloads"
        self.downloads.mkdir(parents=True, exist_ok=True)
        theirs_in, self._to = os.pipe()
        self._of, theirs_out = os.pipe()
        # Above 4, so that neither is overwritten before it is copied.
        far = [fcntl.fcntl(each, fcntl.F_DUPFD, 10) for each in (theirs_in, theirs_out)]
        words = [program, *_FLAGS, f"--user-data-dir={self.home / 'profile'}", *self.flags]
        with (self.home / "chromium.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _START, *map(str, far), *words, "about:blank"],
                env={"PATH": os.environ.get("PATH", os.defpath), "HOME": str(self.home)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=far,
                preexec_fn=die_with_parent,
                start_new_session=True,
            )
        for each in (theirs_in, theirs_out, *far):
            os.close(each)
        self.command(
            "Browser.setDownloadBehavior",
            behavior="allow",
            downloadPath=str(self.downloads),
            eventsEnabled=True,
        )

    def close(self) -> None:
        """End it and all its processes, whatever they do."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(TIMEOUT_SECS)
        for each in (self._to, self._of):
            with suppress(OSError):
                os.close(each)

    def page(self) -> Page:
        """A new tab."""
        return self._opened(Page)

    def scriptless(self) -> ScriptlessPage:
        """A new tab that runs no script of any page."""
        page = self._opened(ScriptlessPage)
        page.command("Emulation.setScriptExecutionDisabled", value=True)
        return page

    def _opened(self, kind: type[_P]) -> _P:
        target = self.command("Target.createTarget", url="about:blank")["targetId"]
        attached = self.command("Target.attachToTarget", targetId=target, flatten=True)
        page = kind(self, attached["sessionId"])
        self._pages[page.session] = page
        for domain in ("Page", "Runtime", "Network"):
            page.command(f"{domain}.enable")
        page.command("Page.setLifecycleEventsEnabled", enabled=True)
        return page

    def downloaded(self, start: Callable[[], object], seconds: float = TIMEOUT_SECS) -> Path:
        """The file that *start* makes the browser download, once it is whole."""
        start()
        begun = self.event("Browser.downloadWillBegin", seconds=seconds)
        while True:
            told = self.event("Browser.downloadProgress", seconds=seconds, guid=begun["guid"])
            if told["state"] == "completed":
                return self.downloads / str(begun["suggestedFilename"])
            if told["state"] == "canceled":
                raise BrowserFailed(f"the download of {begun['url']} was broken off")

    def command(self, method: str, *, session: str = "", **params: Any) -> dict[str, Any]:
        """Send one DevTools command; returns its result."""
        self._last += 1
        asked = {"id": self._last, "method": method, "params": params}
        if session:
            asked["sessionId"] = session
        os.write(self._to, json.dumps(asked).encode() + b"\0")
        for told in self._told(TIMEOUT_SECS, f"the answer to {method}"):
            if told.get("id") == self._last:
                if "error" in told:
                    raise BrowserFailed(f"{method}: {told['error']['message']}")
                result: dict[str, Any] = told["result"]
                return result
            self._take(told)
        raise AssertionError("unreachable")

    def event(
        self, method: str, *, session: str = "", seconds: float = TIMEOUT_SECS, **fields: Any
    ) -> dict[str, Any]:
        """The next event of this name and with these parameters; those before it are dropped."""
        while self._events:
            told = self._events.popleft()
            if _is_it(told, method, session, fields):
                return dict(told["params"])
        for told in self._told(seconds, method):
            self._take(told)
            if _is_it(self._events.pop(), method, session, fields):
                return dict(told["params"])
        raise AssertionError("unreachable")

    def forget(self) -> None:
        """Drop the events that have come."""
        self._events.clear()

    def _take(self, told: Mapping[str, Any]) -> None:
        self._events.append(told)
        page = self._pages.get(told.get("sessionId", ""))
        if page is not None and told.get("method") == "Network.responseReceived":
            answer = told["params"]["response"]
            page.answers.append((answer["status"], answer["url"]))

    def _told(self, seconds: float, what: str) -> Iterator[Mapping[str, Any]]:
        end = monotonic() + seconds
        while True:
            one, found, rest = self._read.partition(b"\0")
            if found:
                self._read = rest
                yield json.loads(one)
                continue
            if not select.select([self._of], [], [], max(0.0, end - monotonic()))[0]:
                raise BrowserFailed(f"chromium: {what} did not come in {seconds:g} s")
            piece = os.read(self._of, 1 << 20)
            if not piece:
                log = (self.home / "chromium.log").read_text("utf-8", "replace")
                raise BrowserFailed(f"chromium has ended:\n{log[-2000:]}")
            self._read += piece


def _is_it(
    told: Mapping[str, Any], method: str, session: str, fields: Mapping[str, object]
) -> bool:
    params = told.get("params", {})
    return (
        told.get("method") == method
        and told.get("sessionId", "") == session
        and all(params.get(name) == value for name, value in fields.items())
    )


@define(eq=False)
class Tab:
    """What a tab can do, with scripts and without.

    Attributes:
        answers: Status and URL of each response, in the order they came.
    """

    browser: Chromium
    session: str
    answers: list[tuple[int, str]] = field(factory=list, init=False)

    def command(self, method: str, **params: Any) -> dict[str, Any]:
        """Send one DevTools command for this tab, such as ``WebAuthn.enable``."""
        return self.browser.command(method, session=self.session, **params)

    def open(self, url: str) -> None:
        """Go there; returns when the page is loaded."""
        self.browser.forget()
        begun = self.command("Page.navigate", url=url)
        if begun.get("errorText"):
            raise BrowserFailed(f"{url}: {begun['errorText']}")
        # By its loader: the load event of the page before may be unread still.
        self.browser.event(
            "Page.lifecycleEvent", session=self.session, loaderId=begun["loaderId"], name="load"
        )

    def loaded(self) -> None:
        """Wait for the load event of a navigation that has begun."""
        self.browser.event("Page.loadEventFired", session=self.session)

    @property
    def cookies(self) -> list[dict[str, Any]]:
        """What the page's own site has put here."""
        found: list[dict[str, Any]] = self.command("Network.getCookies")["cookies"]
        return found


@define(eq=False)
class Page(Tab):
    """One tab, whose pages run their scripts."""

    def evaluate(self, script: str) -> Any:
        """The value of an expression in the page; one that is a promise is awaited."""
        told = self.command(
            "Runtime.evaluate",
            expression=script,
            awaitPromise=True,
            returnByValue=True,
            userGesture=True,
        )
        if "exceptionDetails" in told:
            said = told["exceptionDetails"]
            raise BrowserFailed(said.get("exception", {}).get("description", said["text"]))
        return told["result"].get("value")

    def wait_for(self, script: str, seconds: float = TIMEOUT_SECS) -> Any:
        """The value of an expression as soon as it is true, also on the page that comes next."""
        end, waits = monotonic() + seconds, "new Promise(done => setTimeout(done, 20))"
        while True:
            with suppress(BrowserFailed):  # The page was left while the expression was evaluated.
                value = self.evaluate(script)
                if value:
                    return value
                self.evaluate(waits)
            if monotonic() > end:
                raise BrowserFailed(f"not so within {seconds:g} s: {script}\n{self.text}")

    @property
    def url(self) -> str:
        """Where it is."""
        return str(self.evaluate("location.href"))

    @property
    def text(self) -> str:
        """What a person reads."""
        return str(self.evaluate("document.body ? document.body.innerText : ''"))

    @property
    def html(self) -> str:
        """The document as it stands now."""
        return str(self.evaluate("document.documentElement.outerHTML"))

    def fill(self, selector: str, text: str) -> None:
        """Type into a field, in place of what stands there."""
        named = json.dumps(selector)
        self.evaluate(f"document.querySelector({named}).focus()")
        self.evaluate(f"document.querySelector({named}).select()")
        self.command("Input.insertText", text=text)

    def click(self, selector: str) -> None:
        """Click on the first element of this selector; does not wait for what that begins.

        Raises:
            BrowserFailed: there is none, or it is disabled, so that nothing would come of it.
        """
        named = json.dumps(selector)
        if self.evaluate(f"document.querySelector({named}).disabled"):
            raise BrowserFailed(f"{selector} is disabled")
        self.evaluate(f"document.querySelector({named}).click()")

    def screenshot(self, path: Path) -> None:
        """Write what is seen, as PNG."""
        path.write_bytes(base64.b64decode(self.command("Page.captureScreenshot")["data"]))


@define(eq=False)
class ScriptlessPage(Tab):
    """One tab with JavaScript off: read by its DOM, and clicked with the mouse."""

    def click(self, selector: str) -> None:
        """Click on what a selector finds; returns when the page that it leads to is loaded."""
        self.browser.forget()
        node = self._node(selector)
        self.command("DOM.scrollIntoViewIfNeeded", nodeId=node)
        quad = self.command("DOM.getContentQuads", nodeId=node)["quads"][0]
        place = {"x": sum(quad[0::2]) / 4, "y": sum(quad[1::2]) / 4}
        for kind in ("mousePressed", "mouseReleased"):
            self.command(
                "Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **place
            )
        self.loaded()

    @property
    def html(self) -> str:
        """The HTML of the page, and of every frame in it that this tab may read."""
        root = self.command("DOM.getDocument", depth=-1, pierce=True)["root"]
        found, left = [self._html(root["nodeId"])], [root]
        while left:
            one = left.pop()
            left += one.get("children", [])
            if "contentDocument" in one:
                found.append(self._html(one["contentDocument"]["nodeId"]))
        return "\n".join(found)

    @property
    def frames(self) -> list[dict[str, Any]]:
        """The frames in the page."""
        tree = self.command("Page.getFrameTree")["frameTree"]
        return [one["frame"] for one in tree.get("childFrames", [])]

    def _html(self, node: int) -> str:
        return str(self.command("DOM.getOuterHTML", nodeId=node)["outerHTML"])

    def _node(self, selector: str) -> int:
        root = self.command("DOM.getDocument")["root"]["nodeId"]
        found: int = self.command("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        assert found, f"nothing is {selector} in {self.html}"
        return found
