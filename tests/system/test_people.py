"""A person is disabled and enabled while they work."""

from __future__ import annotations

import re
import socket
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from svc.testing.gateway.gateway import Gateway, make_gateway
from svc.testing.gateway.person import GatewayPerson
from svc.testing.gateway.processes import run, until
from svc.testing.gateway.settings import GatewayTarget
from tests.system.carrying import carrying
from tests.system.piped import ITSELF, ProxySsh
from tests.system.world import around

RUN_BY = "make fault"

DISABLED = "disabled_person"
_JUDGE = Path(__file__).parents[2] / "contrib" / "verify_audit.py"


class DisabledPersonTests(SynchronousTestCase):
    """One gateway of real processes, and one person with a resident."""

    gateway: Gateway
    ada: GatewayPerson

    def setUp(self) -> None:
        port = around().ports["echo"]
        self.gateway = make_gateway([GatewayTarget("echo", f"127.0.0.1:{port}")])
        self.addCleanup(self.gateway.end)
        self.ada = self.gateway.add_person("ada", "ops")

    def opened(self) -> socket.socket | None:
        """A session through the resident that carries bytes; None while there is none."""
        return carrying(self.ada.endpoint("echo"), 10)

    def test_life(self) -> None:
        """Sessions end with the reason, nothing begins, and enabling undoes it."""
        gateway, ada = self.gateway, self.ada
        token = gateway.operator("persons", "add", "ada").stdout.strip()
        ada.up("echo")
        peer = until("a session", self.opened)
        self.addCleanup(peer.close)
        piped = ProxySsh(ada, environ=ITSELF)
        piped.open()
        told = gateway.operator("persons", "disable", "ada", "--reason", "left", "--json").json
        self.assertEqual((told["name"], told["changed"], told["open_sessions"]), ("ada", True, 2))
        said = piped.said()
        try:
            while peer.recv(4096):
                pass
        except ConnectionResetError:
            pass
        piped.close()
        self.assertRegex(
            said, rf"echo: session ended: .*disabled by an operator; reason {DISABLED}"
        )
        (ended,) = until("the cut", lambda: ada.status().get("ended"))
        self.assertEqual(ended["reason"], DISABLED)
        self.assertIn("disabled by an operator", ended["text"])

        self.refused_everywhere(token)
        self.assertEqual(gateway.operator("persons", "list", "--json").json[0]["state"], "disabled")
        again = gateway.operator("persons", "add", "ada", check=False)
        self.assertIn("persons enable ada", again.stderr)

        changed = gateway.operator("persons", "enable", "ada", "--json").json
        self.assertEqual((changed["changed"], changed["open_sessions"]), (True, 0))
        until("the status of an enabled person", lambda: not ada.status()["no_new_sessions"])
        until("a session again", self.opened).close()
        self.assertEqual(ada.svc("status", "--json").json["no_new_sessions"], [])
        other = GatewayPerson("ada2", gateway.directory / "home-ada2", gateway.files.cluster)
        other.join(gateway.public, gateway.pin, token)

        self.recorded(ended["decision_id"])
        self.ended_by_operator()
        self.revoked_credentials()
        gateway.verify()

    def ended_by_operator(self) -> None:
        """An operator ends one session: its person is told, and opens another one."""
        gateway = self.gateway
        peer = until("a session to end", self.opened)
        self.addCleanup(peer.close)
        (listed,) = [
            one
            for one in gateway.operator("sessions", "list", "--json").json
            if one["state"] == "open"
        ][-1:]
        self.assertEqual((listed["name"], listed["resource"]), ("ada", "echo"))
        uid = listed["session_uid"]
        told = gateway.operator("sessions", "end", uid[:12], "--reason", "tidy", "--json").json
        self.assertEqual(told, {"session_uids": [uid]})
        try:
            while peer.recv(4096):
                pass
        except ConnectionResetError:
            pass
        last = until("the end", lambda: self.ada.status()["ended"][1:])[-1]
        self.assertEqual(last["reason"], "ended_by_operator")

        def ended() -> bool:
            left = gateway.operator("sessions", "list", "--json").json
            return uid not in [one["session_uid"] for one in left]

        until("the end in the store", ended)
        again = gateway.operator("sessions", "end", uid, check=False)
        self.assertIn("unknown_session", again.stderr)
        until("another session", self.opened).close()

        def both() -> dict[str, str | None]:
            records = gateway.decision(listed["decision_id"])
            ends = [one for one in records if "session.end" in one["event"]]
            found = {one["event"]: one.get("reason") for one in ends}
            return found if len(found) > 1 else {}

        by_operator = dict.fromkeys(("session.end_asked", "session.end"), "ended_by_operator")
        self.assertEqual(until("the records of the end", both), by_operator)

    def revoked_credentials(self) -> None:
        """After a lost laptop: the session ends, the old certificate opens none, a new one does."""
        gateway, ada = self.gateway, self.ada
        until("none is left of before", lambda: not gateway.status()["open_sessions"])
        piped = ProxySsh(ada, environ=ITSELF)
        piped.open()
        told = gateway.operator("persons", "revoke", "ada", "--json").json
        self.assertEqual((len(told["serials"]), told["open_sessions"]), (2, 1))
        self.assertIn("reason revoked_certificate", piped.said())
        piped.close()
        refused = ada.svc("proxy-ssh", "--kind", "tcp", "echo")
        self.assertIn("reason revoked_certificate", refused.stderr)

        def told_so() -> bool:
            words = [one["reason"] for one in ada.status()["no_new_sessions"]]
            return words == ["revoked_certificate"]

        until("the list is refused, too", told_so)
        ada.join(
            gateway.public, gateway.pin, gateway.operator("persons", "add", "ada").stdout.strip()
        )
        piped = ProxySsh(ada, environ=ITSELF)
        piped.open()
        piped.close()

    def refused_everywhere(self, token: str) -> None:
        """An opening with and without the resident, a join, and what the person sees."""
        gateway, ada = self.gateway, self.ada

        def refused() -> bool:
            words = [one["reason"] for one in ada.status()["no_new_sessions"]]
            return words == [DISABLED]

        until("the refusal in the status", refused)
        shown = ada.svc("status", "--refresh")
        self.assertEqual(shown.status, 1)
        self.assertRegex(shown.stdout, r"no new sessions +the person was disabled by an operator")
        problems = {one["resource"]: one["problem"] for one in ada.listed()}
        self.assertIn("disabled by an operator", problems["echo"])
        piped = ada.svc("proxy-ssh", "--kind", "tcp", "echo")
        self.assertEqual(piped.status, 1)
        self.assertIn(f"reason {DISABLED}", piped.stderr)
        home = GatewayPerson("eve", gateway.directory / "home-eve", gateway.files.cluster)
        home.home.mkdir(mode=0o700)
        words = ("join", "--proxy", gateway.public, "--ca-pin", gateway.pin)
        joining = home.svc(*words, stdin=token.encode())
        self.assertNotEqual(joining.status, 0)
        self.assertIn("disabled by an operator", joining.stderr)

    def recorded(self, decision_id: str) -> None:
        """The ends of both sessions and the two changes are in the log."""
        records = self.gateway.decision(decision_id)
        ends = [one for one in records if one["event"] == "session.end"]
        self.assertEqual([one["reason"] for one in ends], [DISABLED])
        for event, reason in (
            ("person.disable", None),
            ("person.enable", None),
            ("enroll.refused", DISABLED),
        ):
            (shown,) = self.gateway.operator("audit", "show", "--event", event, "--json").json
            self.assertEqual((shown["event"], shown.get("reason")), (event, reason))


class ForgottenPersonTests(SynchronousTestCase):
    """A gateway whose log has a person's sessions, and what is left of them."""

    def test_forgotten(self) -> None:
        """Neither the name nor an address is left in the store, and the log verifies."""
        port = around().ports["echo"]
        gateway = make_gateway([GatewayTarget("echo", f"127.0.0.1:{port}")], layout="all")
        self.addCleanup(gateway.end)
        name = "wilhelmina"
        person = gateway.add_person(name, "ops")
        piped = ProxySsh(person, environ=ITSELF)
        piped.open()
        piped.close()
        gateway.operator("persons", "remove", name)
        (row,) = gateway.operator("persons", "list", "--all", "--json").json
        forget = ("users", "forget-name")
        told = gateway.operator(*forget, name, "--records", "--json").json
        self.assertEqual((told["id"], told["changed"]), (row["id"], True))
        self.assertGreater(told["erased"], 2)
        self.assertNotEqual(gateway.operator(*forget, name, check=False).status, 0)
        again = gateway.operator(*forget, row["id"], "--records", "--json").json
        self.assertEqual(again, {"id": row["id"], "changed": False, "erased": 0})
        (left,) = gateway.operator("persons", "list", "--all", "--json").json
        self.assertIsNone(left["name"])
        anchor = re.search(r"anchor ([0-9a-f]{64})", gateway.verify())
        assert anchor is not None
        exported = gateway.directory / "log.jsonl"
        shown = gateway.operator("audit", "export", "--personal").stdout
        exported.write_text(shown, "utf-8")
        self.assertNotIn(name, shown)
        ran = run(
            [sys.executable, str(_JUDGE), "--fingerprint", anchor[1], str(exported)],
            gateway.directory,
        )
        self.assertEqual(ran.status, 0, ran.stderr)
        with closing(sqlite3.connect(gateway.files.store, timeout=10)) as store:
            text = "\n".join(store.iterdump())
        self.assertNotIn(name, text)
        gateway.operator("persons", "add", name)
