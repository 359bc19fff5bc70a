"""The browser page in a stock browser: headless Chromium, with JavaScript off."""

from __future__ import annotations

import re
import shutil
import tempfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from tests.support.chromium import Chromium
from tests.system.test_page import PAGE, PageCase

RUN_BY = "make fault"


class _Elsewhere(BaseHTTPRequestHandler):
    """A site that frames the page, and has a form that is sent to it."""

    server: _Site

    def do_GET(self) -> None:
        """The one page."""
        text = self.server.page.encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


class _Site(ThreadingHTTPServer):
    """It, in a thread.

    Attributes:
        page: Its HTML.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Elsewhere)
        self.page = ""
        Thread(target=self.serve_forever, daemon=True).start()


# Frames of other sites stay in the tab's own process, where the test reads them.
FRAMES_ARE_READ = (
    "--disable-site-isolation-trials",
    "--disable-features=IsolateOrigins,site-per-process",
)


class BrowserTests(PageCase):
    """Headless Chromium, with JavaScript off."""

    def setUp(self) -> None:
        super().setUp()
        self.home = Path(tempfile.mkdtemp(prefix="chromium-"))
        self.addCleanup(shutil.rmtree, self.home, ignore_errors=True)
        browser = Chromium(self.home, FRAMES_ARE_READ)
        self.addCleanup(browser.close)
        self.browser = browser.scriptless()
        opened = self.paged.ada.svc("open", "--print", PAGE).checked()
        self.root = opened.stdout.strip().rstrip("/")

    def read(self, url: str) -> str:
        """The HTML of a page."""
        self.browser.open(url)
        return self.browser.html

    def asked(self) -> list[Any]:
        """The ends that were asked for."""
        words = ("audit", "show", "--event", "session.end_asked", "--last", "99", "--json")
        found: list[Any] = self.paged.gateway.operator(*words).json
        return found

    def test_browser(self) -> None:
        """The rows are there, a session ends by its button, and no other site gets at either."""
        said = self.read(f"{self.root}/")
        self.assertIn("You are <strong>ada</strong>", said)
        self.assertIn("svc open svc-page", said)
        (cookie,) = self.browser.cookies
        self.assertEqual(cookie["name"], "__Host-svc-page")
        flags = [cookie[name] for name in ("httpOnly", "secure", "sameSite", "path")]
        self.assertEqual(flags, [True, True, "Strict", "/"])
        with self.opened("echo") as client:
            self.browser.click('nav a[href="/sessions"]')
            said = self.browser.html
            session = re.search(r'name="session" value="([0-9a-f]{32})"', said)
            assert session is not None, said
            before = self.asked()
            self.from_elsewhere(session[1])
            self.assertEqual(self.asked(), before)
            self.browser.open(f"{self.root}/sessions")
            self.browser.click("form button")
            self.assertIn("Live sessions", self.browser.html)
            self.assert_ends(client)
        self.assertIn(session[1], [one["session_uid"] for one in self.asked()])

    def from_elsewhere(self, session: str) -> None:
        """Another site frames the page, and sends a form to it."""
        site = _Site()
        self.addCleanup(site.server_close)
        self.addCleanup(site.shutdown)
        site.page = (
            f'<iframe src="{self.root}/sessions"></iframe>'
            f'<form method="post" action="{self.root}/sessions/end">'
            f'<input name="session" value="{session}"><button>Win</button></form>'
        )
        framed = self.read(f"http://127.0.0.1:{site.server_address[1]}/")
        self.assertNotIn("Live sessions", framed)
        (frame,) = self.browser.frames
        self.assertEqual(frame["unreachableUrl"], f"{self.root}/sessions")
        self.browser.click("form button")
        self.assertIn("cross_site", self.browser.html)
