"""What a Connector reports of a session that is over: whose it must be, and what is recorded."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svc.authority.sessions.uses import SessionUseRecords
from svc.errors import Malformed
from svc.messages.use import SessionUse, read_use, use_request
from svc.model.cluster.onward import OnwardAuth
from svc.model.cluster.resource import Resource
from svc.policy.words import OPERATORS_POLICY
from svc.proto.gate.v1 import identity_pb2 as pb
from tests.authority.house import House, refusal_of, value_of
from tests.authority.sessions.test_issue import AS_ROOT
from tests.kinds.served import KINDS

POLICY = (
    OPERATORS_POLICY + '@id("uses") permit (principal, action in [Action::"view", Action::"use"],'
    " resource);"
)


class UseTests(SynchronousTestCase):
    """Of a session that was granted shell, commands and files."""

    def setUp(self) -> None:
        house = self.house = House(policy=POLICY)
        node = house.connector.id
        host = Resource(
            id="gated1", kind="ssh", assigned_to=node, onward_auth=OnwardAuth.STORED_KEY
        )
        house.run(lambda tx: tx.catalog.add(host, 5.0))
        house.refresh()
        house.serve("gated1")
        ask = house.ask(house.ada, "gated1", **AS_ROOT)
        answer: Any = value_of(house.issuance().authorize(ask, house.row(house.proxy)))
        assert answer.grant is not None
        self.grant = answer.grant
        self.records = self.made()

    def made(self) -> SessionUseRecords:
        """As one Authority of the cluster has it."""
        house = self.house
        return SessionUseRecords(
            cluster=house.world.verifier.cluster,
            state_cache=house.state_cache,
            kinds=KINDS,
            verifier=house.world.verifier,
            store=house.store,
            recorder=house.recorder,
            asks=house.rates.identities,
        )

    def told(self) -> list[Any]:
        return [one["details"]["used"] for one in self.house.records("session.use")]

    def report(self, used: dict[str, int], connector: str = "") -> Any:
        use = SessionUse(self.grant, used)
        return self.records.record(use, connector or self.house.connector.id)

    def test_recorded_once(self) -> None:
        """It is on record, once, however often it comes."""
        for _ in range(2):
            value_of(self.report({"shell": 1, "denied forward_local": 3}))
        self.assertEqual(self.told(), [["denied forward_local 3", "shell 1"]])

    def test_recorded_once_by_all(self) -> None:
        """A Connector that was not answered brings it to another Authority, or after a restart."""
        value_of(self.report({"shell": 1}))
        self.records = self.made()
        value_of(self.report({"shell": 1}))
        self.assertEqual(self.told(), [["shell 1"]])

    def test_nothing_used(self) -> None:
        """A session that did nothing is on record as that."""
        value_of(self.report({}))
        self.assertEqual(self.told(), [[]])

    def test_another_connector(self) -> None:
        """A Connector speaks of its own sessions alone."""
        refusal = refusal_of(self.report({"shell": 1}, self.house.proxy.id))
        self.assertEqual(refusal.reason, "unknown_session")
        self.assertEqual(self.told(), [])

    def test_names(self) -> None:
        """What is no right, and what this session was not granted, is refused."""
        for name in ("forward_local", "anything", "denied anything", "denied denied shell"):
            self.assertEqual(refusal_of(self.report({name: 1})).reason, "malformed", name)
        self.assertEqual(self.told(), [])

    def test_message(self) -> None:
        """A report reads as it was written; names out of order, or that count nothing, do not."""
        use = SessionUse(self.grant, {"exec": 2, "shell": 1})
        self.assertEqual(read_use(use_request(use)), use)
        for names in (("shell", "exec"), ("exec", "exec"), ("",), ("x" * 65,)):
            message = use_request(SessionUse(self.grant, {}))
            message.used.extend(pb.UsedRight(name=name, count=1) for name in names)
            self.assertRaises(Malformed, read_use, message)
        message = use_request(SessionUse(self.grant, {}))
        message.used.add(name="exec", count=0)
        self.assertRaises(Malformed, read_use, message)
