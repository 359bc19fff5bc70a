"""Requests for pages: cookies, forms, origins, headers, and texts that are only text."""

from __future__ import annotations

from typing import Any

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from svc.authority.page.browser import COOKIE, IDLE_SECS, LONGEST_SECS, MOST_OF_PERSON
from svc.authority.page.html import MOST_TEXT, table, text
from svc.authority.page.pages import MAX_FORM
from tests.authority.house import ADA, POLICY
from tests.authority.page.stage import FOR_ALL, MANAGER, ORIGIN, Guest, PageHouse

END = "/sessions/end"


class PagesTests(SynchronousTestCase):
    """Ada's browser, and eve's."""

    def setUp(self) -> None:
        self.stage = PageHouse()
        self.house = self.stage.house
        self.ada, self.eve = Guest(self.stage, self.house.ada), Guest(self.stage, self.house.eve)
        self.uid = self.stage.opened(self.house.ada, "db1")

    def asked(self) -> list[Any]:
        """The ends that were asked for, by the log."""
        return self.house.records("session.end_asked")

    def test_headers(self) -> None:
        """Nothing is loaded but the style, nothing frames the page, nothing keeps it."""
        answer = self.ada.ask("GET", "/")
        headers = dict(answer.headers)
        policy = headers["Content-Security-Policy"].split("; ")
        for word in (
            "default-src 'none'",
            "style-src 'self'",
            "frame-ancestors 'none'",
            "form-action 'self'",
        ):
            self.assertIn(word, policy)
        self.assertEqual(headers["Cache-Control"], "no-store")
        self.assertNotIn(b"<script", answer.body)
        self.assertNotIn(b"style=", answer.body)
        refused = self.ada.ask("GET", "/", tokens=[])
        self.assertEqual(dict(refused.headers)["Content-Security-Policy"], "; ".join(policy))

    def test_cookie(self) -> None:
        """It is of one host, no script's, and never sent by another site; it is given once."""
        given = dict(self.ada.ask("GET", "/").headers)["Set-Cookie"]
        self.assertRegex(given, rf"^{COOKIE}=[A-Za-z0-9_-]{{43}}; ")
        self.assertEqual(given.split("; ")[1:], ["Path=/", "Secure", "HttpOnly", "SameSite=Strict"])
        self.assertNotIn("Set-Cookie", dict(self.ada.ask("GET", "/sessions").headers))

    def test_cookie_ends(self) -> None:
        """It ends after a short time without a request, in any case after some hours."""
        form = self.ada.form(self.uid)
        self.house.clock.advance(IDLE_SECS - 1)
        self.ada.read("/")
        self.house.clock.advance(IDLE_SECS - 1)
        self.assertNotIn("Set-Cookie", dict(self.ada.ask("GET", "/").headers))
        self.house.clock.advance(IDLE_SECS)
        self.assertEqual(self.ada.send(END, form).status, 403)
        self.assertIn("Set-Cookie", dict(self.ada.ask("GET", "/").headers))
        for _ in range(int(LONGEST_SECS / (IDLE_SECS - 1))):
            self.house.clock.advance(IDLE_SECS - 1)
            self.assertNotIn("Set-Cookie", dict(self.ada.ask("GET", "/").headers))
        self.house.clock.advance(IDLE_SECS - 1)
        self.assertIn("Set-Cookie", dict(self.ada.ask("GET", "/").headers))

    def test_new_at_sign_in(self) -> None:
        """A sign-in makes a new one, and forms of before it are void."""
        form, before = self.ada.form(self.uid), self.ada.cookie
        again = Guest(self.stage, self.house.person(ADA))
        again.cookie = before
        self.assertEqual(again.send(END, form).status, 403)
        again.read("/")
        self.assertNotEqual(again.cookie, before)
        self.assertEqual(self.asked(), [])

    def test_few_cookies(self) -> None:
        """A person has a few browsers; one more replaces the one idle longest."""
        self.ada.read("/")
        first = self.ada.cookie
        for _ in range(MOST_OF_PERSON):
            self.house.clock.advance(1)
            self.ada.ask("GET", "/", cookies=[])
        self.eve.read("/")
        answer = self.ada.ask("GET", "/", cookies=[first])
        self.assertIn("Set-Cookie", dict(answer.headers))
        self.assertNotIn("Set-Cookie", dict(self.eve.ask("GET", "/").headers))

    def test_end(self) -> None:
        """The form ends the session, with the person as its author; Proxies are told at once."""
        answer = self.ada.send(END, self.ada.form(self.uid))
        self.assertEqual((answer.status, dict(answer.headers)["Location"]), (303, "/sessions"))
        (record,) = self.asked()
        self.assertEqual(record["actor"], {"kind": "person", "id": ADA})
        self.assertEqual(record["session_uid"], self.uid)
        self.assertEqual(self.stage.ends.asked, {self.uid: "ended_by_person"})
        self.assertEqual(self.stage.published, 1)
        self.assertIn("is being ended", self.ada.read("/sessions"))

    def test_forms(self) -> None:
        """A form counts only from this page, in this browser, for this session, whole."""
        form = self.ada.form(self.uid)
        self.eve.read("/sessions")
        others = self.eve.cookie
        pairs = "&".join(f"{name}={value}" for name, value in form.items())
        cases: list[tuple[int, dict[str, Any]]] = [
            (403, {"origins": []}),
            (403, {"origins": [b"null"]}),
            (403, {"origins": [b"http://evil.example"]}),
            (403, {"origins": [b"http://svc-page.localhost:1"]}),
            (403, {"origins": [b"http://grafana-abcdefghijklmnop.localhost:12345"]}),
            (403, {"origins": [ORIGIN + b".evil.example"]}),
            (403, {"origins": [b"https" + ORIGIN[4:]]}),
            (403, {"origins": [ORIGIN, ORIGIN]}),
            (403, {"sites": [b"cross-site"]}),
            (403, {"sites": [b"same-site"]}),
            (403, {"sites": [b"none"]}),
            (400, {"types": [b"text/plain"]}),
            (400, {"types": [b"multipart/form-data; boundary=x"]}),
            (400, {"types": []}),
            (403, {"cookies": []}),
            (403, {"cookies": [others]}),
            (403, {"cookies": [self.ada.cookie.replace(b"__Host-", b"")]}),
            (403, {"body": pairs.replace(form["token"], "0" * 64).encode()}),
            (403, {"body": f"session={self.uid}".encode()}),
            (403, {"body": f"session={self.ada.uid}&token={form['token']}".encode()}),
            (400, {"body": f"{pairs}&session={self.uid}".encode()}),
            (400, {"body": b"&".join(b"a%d=1" % one for one in range(20))}),
            (400, {"body": b"%ff=1&token=2"}),
            (403, {"body": b""}),
        ]
        for status, more in cases:
            self.assertEqual(self.ada.send(END, form, **more).status, status, more)
        for method in ("GET", "HEAD", "PUT", "DELETE", "post"):
            target = f"{END}?{pairs}"
            self.assertEqual(self.ada.ask(method, target).status, 405, method)
        for path in ("/", "/sessions", "/denials"):
            self.assertEqual(self.ada.send(path, form).status, 405, path)
        self.assertEqual(self.asked(), [])
        self.assertEqual(self.ada.send(END, form).status, 303)
        self.assertLess(len(pairs), MAX_FORM)

    def test_of_others(self) -> None:
        """Eve sees no session of ada's, and a form for one that she made up ends nothing."""
        self.assertNotIn(self.uid, self.eve.read("/sessions"))
        self.assertEqual(self.eve.ask("GET", "/sessions?of=all").status, 403)
        browser = next(
            one
            for one in self.stage.browsers._known.values()
            if one.person_id == self.eve.holder.id
        )
        token = browser.form_token("end-session", self.uid)
        answer = self.eve.send(END, {"session": self.uid, "token": token})
        unknown = browser.form_token("end-session", "0" * 32)
        other = self.eve.send(END, {"session": "0" * 32, "token": unknown})
        self.assertEqual((answer.status, answer.body), (other.status, other.body))
        self.assertEqual(answer.status, 404)
        self.assertEqual(self.asked(), [])
        (refused,) = self.house.records("operator.refused")
        self.assertEqual(refused["cedar_action"], "manageSessions")
        self.assertEqual(refused["actor"]["id"], self.eve.holder.id)

    def test_of_everybody(self) -> None:
        """Who may manage sessions sees and ends everybody's; the person is told so."""
        stage = PageHouse(POLICY + FOR_ALL + MANAGER)
        ada, eve = Guest(stage, stage.house.ada), Guest(stage, stage.house.eve)
        self.assertIn("Everybody's", ada.read("/sessions"))
        form = ada.form(eve.uid, "/sessions?of=all")
        answer = ada.send(END, form)
        self.assertEqual(dict(answer.headers)["Location"], "/sessions?of=all")
        self.assertEqual(stage.ends.asked, {eve.uid: "ended_by_operator"})
        self.assertNotIn("Everybody's", Guest(stage, stage.house.eve).read("/sessions"))

    def test_second_factor(self) -> None:
        """A policy that wants a recent second factor is not satisfied by a sign-in without one."""
        wanted = "when { context has mfa_age_seconds && context.mfa_age_seconds < 600 };"
        stage = PageHouse(POLICY + FOR_ALL + MANAGER.replace("Cluster);", f"Cluster) {wanted}"))
        ada = Guest(stage, stage.house.ada)
        self.assertEqual(ada.ask("GET", "/sessions?of=all").status, 403)
        now = stage.house.now()
        for factor_at, is_allowed in ((None, False), (now - 900, False), (now - 5, True)):
            allows = stage.operators.allows(ADA, "manageSessions", factor_at)
            self.assertEqual(allows, is_allowed, factor_at)
        self.assertIn("no second factor of yours (no mfa_age_seconds)", ada.read("/"))

    def test_second_factor_of_a_provider(self) -> None:
        """What the certificate says counts, and grows old; the page tells it as policies do."""
        wanted = "when { context has mfa_age_seconds && context.mfa_age_seconds < 600 };"
        stage = PageHouse(POLICY + FOR_ALL + MANAGER.replace("Cluster);", f"Cluster) {wanted}"))
        presented = int(stage.house.now()) - 300
        ada = Guest(stage, stage.house.person(ADA, factor_at=presented))
        said = ada.read("/sessions?of=all")
        self.assertIn("a second factor 300 s ago (mfa_age_seconds is 300)", said)
        stage.house.clock.advance(301)
        said = ada.read("/")
        self.assertIn("a second factor 10 min ago (mfa_age_seconds is 601)", said)
        self.assertEqual(ada.ask("GET", "/sessions?of=all").status, 403)

    def test_second_factor_by_sql(self) -> None:
        """No SQL makes a second factor younger, or gives one to who presented none (rule R8)."""
        wanted = "when { context has mfa_age_seconds && context.mfa_age_seconds < 600 };"
        policy = POLICY + FOR_ALL + MANAGER.replace("Cluster);", f"Cluster) {wanted}")
        for age, before, after in (
            (3000, '"mfa_age_seconds":3000', '"mfa_age_seconds":0'),
            (None, '"context":{', '"context":{"mfa_age_seconds":0,'),
        ):
            stage = PageHouse(policy)
            presented = None if age is None else int(stage.house.now()) - age
            ada = Guest(stage, stage.house.person(ADA, factor_at=presented))
            self.assertEqual(ada.ask("GET", "/sessions?of=all").status, 403)
            stage.house.by_sql(
                f"UPDATE audit_log SET canonical = replace(canonical, '{before}', '{after}')"
                " WHERE canonical LIKE '%session.start%'"
            )
            self.assertEqual(ada.ask("GET", "/sessions?of=all").status, 401)
            self.assertEqual(ada.ask("GET", "/").status, 401)

    def test_paths(self) -> None:
        """A path is one of ours, byte for byte."""
        for target in ("//", "/x", "/sessions/", "/Sessions", "/%73essions", "/sessions;x", "/*"):
            self.assertEqual(self.ada.ask("GET", target).status, 404, target)
        self.assertEqual(self.ada.ask("GET", "/style.css", tokens=[]).status, 401)
        style = self.ada.ask("GET", "/style.css")
        self.assertEqual((style.status, dict(style.headers)["Content-Type"][:8]), (200, "text/css"))
        for target in ("/?after=%00%", "/denials?before=x", "/denials?before=1.1.1", "/?a=1&a=2"):
            status = self.ada.ask("GET", target).status
            self.assertIn(status, (200, 400), target)

    def test_hostile_texts(self) -> None:
        """Names, labels and reasons are text: no tag, no attribute, no turned line, no end."""
        for hostile in (
            "<script>alert(1)</script>",
            '"><img src=x onerror=y>',
            "'; DROP TABLE x --",
            "\u202eevil",
            "a\x00b\x1b[31m\r\nSet-Cookie: x",
            "\ud800",
            "&lt;b&gt;",
        ):
            shown = text(hostile)
            self.assertNotRegex(shown, "[\x00-\x1f\x7f-\x9f\u202a-\u202e\ud800-\udfff]")
            state = self.house.state_cache.state
            people = {**state.people, ADA: evolve(state.people[ADA], name=hostile)}
            self.house.state_cache.state = evolve(state, people=people)
            answer = self.ada.ask("GET", "/")
            body = answer.body.decode()
            self.assertEqual(answer.status, 200)
            for word in ("<script", "<img", "\u202e", "\x1b", "<b>"):
                self.assertNotIn(word, body)
        self.assertEqual(len(text("x" * 1000)), MOST_TEXT + 1)
        self.assertIsNotNone(table(["a"], [], "none"))
