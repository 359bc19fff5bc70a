"""A web application through the gateway in a person's browser: headless Chromium, unchanged."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from svc.testing.gateway.processes import until
from svc.testing.gateway.settings import POLICY, PROXY
from tests.support.chromium import Chromium, Page
from tests.support.proof import proves
from tests.support.tools import stock_tool
from tests.system.board import DASHBOARD, NO_SOCKETS, Site, web
from tests.system.targets import digest_of

RUN_BY = "make fault"

LONG = os.environ.get("SVC_LONG") == "1"
DOWNLOAD = (1024 if LONG else 100) * 1024 * 1024

FORGED = """
(async () => {
  const url = %r;
  const form = document.createElement("form");
  form.method = "post", form.action = url + "login", form.target = "frame";
  const frame = document.createElement("iframe");
  frame.name = "frame";
  document.body.append(frame, form);
  const framed = new Promise(done => { frame.onload = done; });
  form.submit();
  await framed;
  const image = new Image();
  const seen = new Promise(done => { image.onload = () => done("seen");
                                     image.onerror = () => done("error"); });
  image.src = url + "picture";
  const socket = new WebSocket(url.replace("http", "ws") + "ws");
  const talked = new Promise(done => { socket.onopen = () => done("open");
                                       socket.onclose = () => done("closed"); });
  const read = await fetch(url + "home", {credentials: "include"})
    .then(answer => answer.text(), () => "refused");
  await fetch(url + "login", {method: "POST", mode: "no-cors", credentials: "include",
                              body: "user=eve"}).catch(() => 0);
  return [read, await seen, await talked];
})()
"""


class BrowserTests(SynchronousTestCase):
    """What a person with a browser sees."""

    def setUp(self) -> None:
        stock_tool("chromium")
        self.web = web()
        self.web.site.heard.clear()
        self.url = self.web.person.svc("open", "--print", "board").checked().stdout.strip()
        home = Path(os.path.abspath(self.mktemp()))
        self.browser = Chromium(home)
        self.addCleanup(shutil.rmtree, home, ignore_errors=True)
        self.addCleanup(self.browser.close)

    def logged_in(self) -> Page:
        """A tab with the application's page for who has logged in."""
        page = self.browser.page()
        page.open(f"{self.url}login")
        page.fill("input[name=user]", "ada@example")
        page.click("button")
        page.wait_for("document.title == 'Home' && document.readyState == 'complete'")
        return page

    @proves("G-SES-05")
    def test_an_application(self) -> None:
        """Form, cookie, redirect, WebSocket, events and a large file work as without a gateway."""
        self.patch(self.web.site, "file_size", DOWNLOAD)
        page = self.logged_in()
        self.assertEqual(page.url, f"{self.url}home")
        self.assertEqual(page.text.splitlines()[0], "ada@example")
        self.assertEqual(page.evaluate("echoed"), "hi")
        self.assertEqual(page.evaluate("events"), ["event 0", "event 1", "event 2"])
        self.assertEqual(page.evaluate("document.cookie"), "", "it is HttpOnly")
        file = self.browser.downloaded(lambda: page.click("#file"), 60 if not LONG else 300)
        with file.open("rb") as opened:
            digest = hashlib.file_digest(opened, "sha256").hexdigest()
        self.assertEqual((file.stat().st_size, digest), (DOWNLOAD, digest_of(DOWNLOAD)))
        heard = [one for one in self.web.site.heard if "favicon" not in one]
        self.assertEqual(
            heard[:3] + sorted(heard[3:]),
            [
                *("GET /login", "POST /login", "GET /home"),
                *(f"GET /bytes/{DOWNLOAD}", "GET /events", "GET /ws"),
            ],
        )
        page.open(f"{self.url}admin/keys")
        self.assertIn((403, f"{self.url}admin/keys"), page.answers)
        decision = re.findall(r"svc why ([0-9a-f]{32})", page.text)
        why = self.web.person.svc("why", decision[0]).checked().stdout
        self.assertIn("no-admin", why)
        self.assertNotIn("GET /admin/keys", self.web.site.heard)

    def test_policy_change(self) -> None:
        """A WebSocket that the policy no longer allows is closed with 1008 and the reason."""
        page = self.logged_in()
        self.assertEqual(page.evaluate("echoed"), "hi")
        self.web.gateway.set_policy(POLICY + DASHBOARD + NO_SOCKETS)
        self.addCleanup(self.web.gateway.set_policy, POLICY + DASHBOARD)
        self.assertEqual(
            page.evaluate("ended"), [1008, "the policy no longer allows it (policy_changed)"]
        )

    def test_the_list(self) -> None:
        """The list of applications opens one by a click, and each has its own cookies."""
        self.logged_in()
        page = self.browser.page()
        page.open(self.web.person.svc("open", "--print").checked().stdout.strip())
        page.click("a")
        page.wait_for(f"location.href == {self.url!r} && document.readyState == 'complete'")
        self.assertIn("user=ada@example", page.text)

    def test_another_origin(self) -> None:
        """A page of another origin reads nothing, and nothing that it sends reaches the target."""
        self.logged_in()
        own = {"GET /events", "GET /ws"}
        until("the page's own requests", lambda: own <= set(self.web.site.heard))
        other = Site()
        self.addCleanup(other.server_close)
        self.addCleanup(other.shutdown)
        page = self.browser.page()
        page.open(f"http://evil.localhost:{other.server_address[1]}/login")
        self.web.site.heard.clear()
        counted = self.denied()
        self.assertEqual(page.evaluate(FORGED % self.url), ["refused", "error", "closed"])
        # A browser asks for the icon of the page before whenever it likes.
        self.assertEqual([one for one in self.web.site.heard if "favicon" not in one], [])
        self.assertEqual(self.denied(), counted, "the local endpoint refused, not the Proxy")

    def denied(self) -> float:
        """What the Proxy has denied."""
        return self.web.gateway.metric(PROXY, "svc_request_authorize_total", decision="deny")
