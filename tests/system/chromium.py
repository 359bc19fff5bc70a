"""Headless Chromium under a test's control: it loads pages, is read and clicked on.

Spoken to over two pipes in the DevTools protocol, with messages that end in NUL.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import subprocess
from collections import deque
from pathlib import Path
from time import monotonic
from typing import Any

from attrs import define, field

from svc.testing.gateway.processes import PATIENCE, TooLate
from tests.support.tools import stock_tool

_OPTIONS = (
    "--headless",
    "--no-sandbox",  # tests run as root in containers
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-dev-shm-usage",
    # Frames of other sites stay in the tab's own process, where a test reads them.
    "--disable-site-isolation-trials",
    "--disable-features=IsolateOrigins,site-per-process",
    "--no-first-run",
    "--no-proxy-server",
    "--remote-debugging-pipe",
)
_START_SECS = 60.0


def _high(descriptor: int) -> int:
    """The same descriptor above those that the shell moves."""
    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 10)
    os.close(descriptor)
    return moved


@define(eq=False)
class Chromium:
    """A browser with one tab, which runs no script unless it is told to.

    Attributes:
        home: Holds its profile.
    """

    home: Path
    _process: subprocess.Popen[bytes] = field(init=False)
    _to: int = field(init=False)
    _of: int = field(init=False)
    _came: bytearray = field(factory=bytearray, init=False)
    _events: deque[dict[str, Any]] = field(factory=deque, init=False)
    _asked: int = field(default=0, init=False)
    _tab: str = field(default="", init=False)

    def __attrs_post_init__(self) -> None:
        path = stock_tool("chromium")
        theirs, self._to = map(_high, os.pipe())
        self._of, written = map(_high, os.pipe())
        words = [path, *_OPTIONS, f"--user-data-dir={self.home}", "about:blank"]
        # It wants the two as descriptors 3 and 4; a POSIX shell names only those up to 9.
        wired = ["bash", "-c", f'exec "$@" 3<&{theirs} 4>&{written}', "bash", *words]
        environ = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(self.home)}
        self._process = subprocess.Popen(
            wired,
            pass_fds=(theirs, written),
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs)
        os.close(written)
        made = self._ask("Target.createTarget", _START_SECS, url="about:blank")
        attached = self._ask("Target.attachToTarget", targetId=made["targetId"], flatten=True)
        self._tab = attached["sessionId"]
        self._ask("Page.enable")
        self._ask("Network.enable")
        self._ask("Emulation.setScriptExecutionDisabled", value=True)

    def end(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()
        os.close(self._to)
        os.close(self._of)

    def open(self, url: str) -> str:
        """Go to a page; its text as Chromium has it."""
        self._events.clear()
        self._ask("Page.navigate", url=url)
        return self._loaded()

    def click(self, selector: str) -> str:
        """Click on what a selector finds, and read the page that it leads to."""
        self._events.clear()
        node = self._node(selector)
        self._ask("DOM.scrollIntoViewIfNeeded", nodeId=node)
        quad = self._ask("DOM.getContentQuads", nodeId=node)["quads"][0]
        place = {"x": sum(quad[0::2]) / 4, "y": sum(quad[1::2]) / 4}
        for kind in ("mousePressed", "mouseReleased"):
            self._ask("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **place)
        return self._loaded()

    def text(self) -> str:
        """The HTML of the page, and of every frame in it that this tab may read."""
        root = self._ask("DOM.getDocument", depth=-1, pierce=True)["root"]
        found, left = [self._html(root["nodeId"])], [root]
        while left:
            one = left.pop()
            left += one.get("children", [])
            if "contentDocument" in one:
                found.append(self._html(one["contentDocument"]["nodeId"]))
        return "\n".join(found)

    def frames(self) -> list[dict[str, Any]]:
        """The frames in the page."""
        tree = self._ask("Page.getFrameTree")["frameTree"]
        return [one["frame"] for one in tree.get("childFrames", [])]

    def cookies(self) -> list[dict[str, Any]]:
        """What the page's own site has put here."""
        found: list[dict[str, Any]] = self._ask("Network.getCookies")["cookies"]
        return found

    def _html(self, node: int) -> str:
        return str(self._ask("DOM.getOuterHTML", nodeId=node)["outerHTML"])

    def _node(self, selector: str) -> int:
        root = self._ask("DOM.getDocument")["root"]["nodeId"]
        found: int = self._ask("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        assert found, f"nothing is {selector} in {self.text()}"
        return found

    def _loaded(self) -> str:
        end = monotonic() + PATIENCE
        while not any(one["method"] == "Page.loadEventFired" for one in self._events):
            self._events.append(self._message(end, "a page"))
        return self.text()

    def _ask(self, method: str, seconds: float = PATIENCE, **parameters: Any) -> dict[str, Any]:
        self._asked += 1
        asked: dict[str, Any] = {"id": self._asked, "method": method, "params": parameters}
        if self._tab:
            asked["sessionId"] = self._tab
        os.write(self._to, json.dumps(asked).encode() + b"\0")
        end = monotonic() + seconds
        while True:
            said = self._message(end, method)
            if said.get("id") == self._asked:
                assert "error" not in said, (method, said["error"])
                answer: dict[str, Any] = said["result"]
                return answer
            if "method" in said:
                self._events.append(said)

    def _message(self, end: float, what: str) -> dict[str, Any]:
        while b"\0" not in self._came:
            ready, _, _ = select.select([self._of], [], [], max(0.0, end - monotonic()))
            more = os.read(self._of, 1 << 16) if ready else b""
            if not more:
                raise TooLate(f"chromium: {what} (status {self._process.poll()})")
            self._came += more
        line, _, rest = bytes(self._came).partition(b"\0")
        self._came = bytearray(rest)
        said: dict[str, Any] = json.loads(line)
        return said
