"""How a session ended is told to its person: as it ends, by the resident, and by `svc why`."""

from __future__ import annotations

import os
import re
import signal
import socket
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

from attrs import define, field
from twisted.trial.unittest import SynchronousTestCase

from svc.testing.gateway.gateway import Gateway, make_gateway
from svc.testing.gateway.person import GatewayPerson
from svc.testing.gateway.processes import until
from svc.testing.gateway.settings import CONNECTOR, POLICY, PROXY, GatewayTarget
from tests.system.carrying import carrying
from tests.system.piped import ITSELF, ProxySsh
from tests.system.world import around

RUN_BY = "make fault"

TIMES = 10 if os.environ.get("SVC_LONG") == "1" else 1
TIMEOUT_SECS = 40.0
LEAF_SECS = 12
NOBODY = """\
@id("operators-administer")
permit (principal is Operator, action in Action::"administer", resource is Cluster);

@id("look-only")
permit (principal in Group::"ops", action in Action::"view", resource);
"""
_DECISION = re.compile(r"svc why ([0-9a-f]{32})")


@define
class Cut:
    """What the person was told of one session."""

    reason: str
    decision_id: str


@define(eq=False)
class Piped:
    """One session through `svc proxy-ssh`, whose pipes the test holds as a tool would."""

    person: GatewayPerson
    environ: Mapping[str, str] = field(factory=dict)
    command: ProxySsh = field(init=False)

    def open(self) -> None:
        self.command = ProxySsh(self.person, environ=self.environ)
        self.command.open()

    def cut(self) -> Cut:
        """Wait until the output ends; what stands on stderr by then."""
        said = self.command.said()
        found = re.search(
            r"echo: session ended: .*; reason (\w+); to see why: svc why ([0-9a-f]{32})", said
        )
        assert found is not None, f"on stderr when the output ended: {said!r}"
        return Cut(found[1], found[2])

    def close(self) -> None:
        self.command.close()


@define(eq=False)
class ThroughResident:
    """One session through an endpoint of `svc up`."""

    person: GatewayPerson
    peer: Any = field(init=False)
    before: frozenset[str] = field(default=frozenset(), init=False)

    def open(self) -> None:
        if self.person.resident is None:
            self.person.up("echo")
        # By their ids: the status lists the newest ones only.
        self.before = frozenset(one["decision_id"] for one in self._ended())
        self.peer = until("a session through the resident", self._opened, TIMEOUT_SECS)

    def _opened(self) -> socket.socket | None:
        """A session that carries bytes; None while the resident is not back at its Proxy."""
        return carrying(self.person.endpoint("echo"), TIMEOUT_SECS)

    def _ended(self) -> list[dict[str, Any]]:
        return list(self.person.status().get("ended", ()))

    def _new(self) -> list[dict[str, Any]]:
        return [one for one in self._ended() if one["decision_id"] not in self.before]

    def cut(self) -> Cut:
        """Wait until the connection ends; what log, status and `--explain` say."""
        try:
            while self.peer.recv(4096):
                pass
        except ConnectionResetError:
            pass
        told = until("the cut in the status", self._new)[-1]
        (event,) = [
            event
            for event in self.person.resident.events("session ended")  # type: ignore[union-attr]
            if event["decision_id"] == told["decision_id"]
        ]
        assert (event["resource"], event["reason"]) == ("echo", told["reason"]), event
        explained = self.person.svc("status", "--explain").stdout  # 1 with an ended certificate
        line = f"({told['reason']}); to see why: svc why"
        assert line in explained, explained
        return Cut(told["reason"], told["decision_id"])

    def close(self) -> None:
        self.peer.close()


WAYS: dict[str, Callable[[GatewayPerson], Any]] = {
    "proxy-ssh": partial(Piped, environ=ITSELF),
    "up": ThroughResident,
    "proxy-ssh by up": Piped,
}


def _echo() -> GatewayTarget:
    return GatewayTarget("echo", f"127.0.0.1:{around().ports['echo']}")


@cache
def _shared() -> Gateway:
    made = make_gateway([_echo()])
    made.add_person("ada", "ops")
    return made


@cache
def _brief() -> Gateway:
    """One whose people have certificates that end soon."""
    return make_gateway([_echo()], numbers={"identity.person_leaf_secs": LEAF_SECS})


class EndingTests(SynchronousTestCase):
    """Each cause of an end, seen through both ways to open a session."""

    gateway: Gateway
    person: GatewayPerson

    def shared(self) -> GatewayPerson:
        """The person of the gateway that these tests share; who takes a part of it puts it back."""
        self.gateway = _shared()
        self.person = self.gateway.people[0]
        return self.person

    def make(self) -> GatewayPerson:
        """A gateway of its own and a person in it."""
        self.gateway = make_gateway([_echo()])
        self.addCleanup(self.gateway.end)
        self.person = self.gateway.add_person("ada", "ops")
        return self.person

    def brief(self, name: str) -> GatewayPerson:
        """A person of their own whose certificate ends soon."""
        self.gateway = _brief()
        self.person = self.gateway.add_person(name, "ops")
        return self.person

    def ends(
        self,
        person: GatewayPerson,
        reason: str,
        end: Callable[[], object],
        mend: Callable[[], object] = lambda: None,
    ) -> None:
        """Cut a session of each way by *end*, as often as is wanted, and compare what is told."""
        told: list[tuple[str, str, str]] = []
        for _ in range(TIMES):
            cuts = self.cuts(person, end)
            mend()
            told += [(way, cut.reason, self.why(cut.decision_id)) for way, cut in cuts.items()]
        expected = [(way, reason, reason) for way in WAYS] * TIMES
        self.assertEqual(told, expected)

    def cuts(self, person: GatewayPerson, end: Callable[[], object]) -> dict[str, Cut]:
        """Open a session of each way, end both by one *end*; what was told of each."""
        sessions = {way: made(person) for way, made in WAYS.items()}
        opened: list[Any] = []
        try:
            for session in sessions.values():
                session.open()
                opened.append(session)
            end()
            return {way: session.cut() for way, session in sessions.items()}
        finally:
            for session in opened:
                session.close()

    def why(self, decision_id: str) -> str:
        """The reason by which the session ended, as `svc why` tells it to its person."""

        def look() -> str | None:
            said = self.person.svc("why", decision_id)
            found = re.search(r"^because +.*\((\w+)\)$", said.stdout, re.MULTILINE)
            if found is None:
                return None
            assert re.search(r"^session ended +20\d\d-", said.stdout, re.MULTILINE), said.stdout
            return found[1]

        return until("the end in svc why", look, TIMEOUT_SECS)

    def test_policy(self) -> None:
        """A session that policy cuts says so: on stderr before its pipes are closed, and in why."""
        person = self.shared()
        self.ends(
            person,
            "policy_changed",
            lambda: self.gateway.set_policy(NOBODY),
            lambda: self.gateway.set_policy(POLICY),
        )

    def test_revoked_connector(self) -> None:
        """The end of a Connector that was revoked, and replaced by another each time."""
        person = self.make()
        names = iter([CONNECTOR, *(f"connector{n}" for n in range(2 * TIMES))])
        serving = [next(names)]

        def replace() -> None:
            self.gateway.child(serving[0]).kill()
            old, serving[0] = serving[0], next(names)
            self.gateway.files.add_connector(serving[0], (_echo(),))
            self.gateway.put_token(serving[0], CONNECTOR)
            self.gateway.start(self.gateway.make_child(serving[0], CONNECTOR).name)
            joined = self.gateway.files.state(serving[0]) / "identity" / "current"
            until("the other one joined", joined.exists)
            self.gateway.operator("resources", "move", "--from", old, "--to", serving[0])
            self.gateway.await_tunnels(1)

        self.ends(
            person,
            "tunnel_evicted",
            lambda: self.gateway.operator("nodes", "revoke", serving[0]),
            replace,
        )

    def test_unassigned(self) -> None:
        """A Connector's only resource is taken from it: that is what the person is told."""
        person = self.shared()
        self.ends(
            person,
            "assignment_changed",
            lambda: self.gateway.operator("resources", "unassign", "echo"),
            self.assign,
        )

    def assign(self) -> None:
        """Let the Connector serve it again."""
        self.gateway.operator("resources", "assign", "echo", "--node", CONNECTOR)
        self.gateway.await_tunnels(1)

    def test_certificate(self) -> None:
        """The end of the certificate that a session was opened with, of a person who is gone."""
        person = self.brief("ada")
        self.ends(person, "certificate_ended", lambda: None, lambda: self.begin_again(person))

    def test_grant(self) -> None:
        """A session ends with its grant, though its person has a newer certificate meanwhile."""
        person = self.brief("bob")
        self.ends(
            person,
            "certificate_ended",
            lambda: self.rejoin(person),
            lambda: self.begin_again(person),
        )

    def test_drained_proxy(self) -> None:
        """A Proxy that is stopped says so to what is still open after its time to finish."""
        person = self.shared()
        self.ends(person, "draining", lambda: self.stop(PROXY), lambda: self.again(PROXY))

    def test_drained_connector(self) -> None:
        """A Connector that is stopped says so to what is still open after its time to finish."""
        person = self.shared()
        self.ends(
            person,
            "connector_stopping",
            lambda: self.stop(CONNECTOR),
            lambda: self.again(CONNECTOR),
        )

    def test_dead_connector(self) -> None:
        """A Connector that is killed."""
        person = self.shared()
        self.ends(
            person,
            "tunnel_transport_error",
            lambda: self.gateway.child(CONNECTOR).kill(),
            lambda: self.again(CONNECTOR),
        )

    def test_dead_proxy(self) -> None:
        """A Proxy that is killed: the person sees it at once, Authority when it comes back."""
        person = self.shared()
        self.ends(
            person,
            "proxy_gone",
            lambda: self.gateway.child(PROXY).kill(),
            lambda: self.again(PROXY),
        )

    def test_revoked_proxy(self) -> None:
        """A Proxy that was revoked ends what it carries, which Authority writes down at once."""
        for _ in range(TIMES):
            person = self.make()
            cuts = self.cuts(person, lambda: self.gateway.operator("nodes", "revoke", PROXY))
            for way, cut in cuts.items():
                self.assertEqual((way, cut.reason), (way, "proxy_revoked"))
                (end,) = until("its end on record", partial(self.abandoned, cut.decision_id))
                self.assertEqual(end["reason"], "proxy_revoked")
            self.gateway.end()

    def abandoned(self, decision_id: str) -> list[dict[str, Any]]:
        """The records of the end of a session that its Proxy cannot report."""
        records = self.gateway.decision(decision_id)
        return [one for one in records if one["event"] == "session.abandoned"]

    def stop(self, role: str) -> None:
        self.gateway.child(role).signal(signal.SIGTERM)

    def again(self, role: str) -> None:
        child = self.gateway.child(role)
        if child.is_alive:
            child.wait(TIMEOUT_SECS)
        self.gateway.start(role)
        self.gateway.await_tunnels(1)

    def begin_again(self, person: GatewayPerson) -> None:
        """Another certificate, in use at once: a resident looks for one only now and then."""
        self.rejoin(person)
        if person.resident is not None:
            person.resident.kill()
            person.up("echo")

    def rejoin(self, person: GatewayPerson) -> None:
        """Another certificate for the person, and the resident takes it."""
        token = self.gateway.operator("persons", "add", person.name).stdout.strip()
        person.join(self.gateway.public, self.gateway.pin, token)

    def test_in_the_direct_lane(self) -> None:
        """A session that moved says why it ended as well, and its records name the lane."""
        self.shared()
        self.person = person = self.gateway.add_person("lea", "ops")
        with (person.directory / "client.toml").open("a", encoding="utf-8") as config:
            config.write("\n[client]\ndirect_lane_after = 0\n")
        connector, proxy = self.gateway.child(CONNECTOR), self.gateway.child(PROXY)
        for end, reason, record, gone in (
            (lambda: self.gateway.set_policy(NOBODY), "policy_changed", "session.end", None),
            (lambda: self.stop(CONNECTOR), "connector_stopping", "session.end", CONNECTOR),
            (connector.kill, "tunnel_transport_error", "session.end", CONNECTOR),
            (proxy.kill, "proxy_gone", "session.abandoned", PROXY),
        ):
            joined = self.joined()
            session = Piped(person, ITSELF)
            session.open()
            until("its lane", partial(self.joined_since, joined))
            try:
                if record == "session.abandoned":
                    self.await_reports()
                end()
                cut = session.cut()
            finally:
                session.close()
            self.assertEqual(cut.reason, reason)
            if gone is not None:
                self.again(gone)
            self.gateway.set_policy(POLICY)
            self.why(cut.decision_id)
            lanes = [
                one["details"]["lane"]
                for one in self.gateway.decision(cut.decision_id)
                if one["event"] == record
            ]
            self.assertEqual(lanes, ["direct"])

    def await_reports(self) -> None:
        """Wait until Authority has the Proxy's reports: a later session's end is on record."""
        before, later = self.ended(), Piped(self.person, ITSELF)
        later.open()
        later.close()
        until("the end of a later session", lambda: self.ended() > before)

    def ended(self) -> int:
        """How many sessions are on record as ended."""
        words = ("audit", "show", "--event", "session.end", "--last", "1000", "--json")
        return len(self.gateway.operator(*words).json)

    def joined(self) -> float:
        """How many lanes were joined."""
        return self.gateway.metric(PROXY, "svc_direct_lanes_total", outcome="joined")

    def joined_since(self, before: float) -> bool:
        """Whether a lane was joined since there were so many."""
        return self.joined() > before
