"""An anonymous client that has opened one join lane, and tries to do much in it."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from svc.authority.enroll.bootstrap import MAX_ASKED, Enrollment
from svc.errors import SvcError
from svc.interfaces.rpc import Peer
from svc.model.cluster.token import make_token
from svc.pki.enroll import CertificateIssuer
from svc.pki.issue import make_request
from svc.pki.root import new_key
from svc.proto.gate.v1 import bootstrap_pb2 as pb
from tests.authority.house import House
from tests.rpc.memory import Pair


class JoinTests(SynchronousTestCase):
    def setUp(self) -> None:
        house = self.house = House()
        self.enrollment = Enrollment(
            issuer=CertificateIssuer(house.world.keys),
            state_cache=house.state_cache,
            store=house.store,
            recorder=house.recorder,
            now=house.now,
            clock=house.clock,
        )

    def test_one_connection_asks_a_few_times(self) -> None:
        """Guesses over one connection end after a few: the budget of a lane is not got around."""
        asked: list[str] = []
        run = self.house.store.run

        async def counted(desc: str, fn: Any) -> Any:
            asked.append(desc)
            return await run(desc, fn)

        self.patch(type(self.house.store), "run", lambda _, desc, fn: counted(desc, fn))
        pair = Pair([self.enrollment.service()], admit=self.enrollment.admit)
        csr, reasons = make_request(new_key()), []
        for _ in range(50):
            token = make_token(self.house.entropy).text
            request = pb.EnrollRequest(token=token, csr=csr, audit_public_key=bytes(32))
            calling = pair.channel.unary(
                "/gate.v1.Bootstrap/Enroll", request, pb.EnrollResponse, timeout=5
            )
            got: list[Any] = []
            Deferred.fromCoroutine(calling).addBoth(got.append)
            pair.turn()
            reasons.append(got[0].value.reason)
        self.assertEqual(reasons[:MAX_ASKED], ["token_refused"] * MAX_ASKED)
        self.assertEqual(set(reasons[MAX_ASKED:]), {"anonymous_budget"})
        self.assertEqual(asked, ["enroll"] * MAX_ASKED)

    def test_each_connection_by_itself(self) -> None:
        """Who asks over another connection is not hindered by one that asked too often."""
        greedy = Peer("192.0.2.1", 1)
        for _ in range(MAX_ASKED):
            self.enrollment.admit("m", greedy)
        with self.assertRaises(SvcError):
            self.enrollment.admit("m", greedy)
        self.enrollment.admit("m", Peer("192.0.2.1", 2))
        del greedy
        self.enrollment.admit("m", Peer("192.0.2.1", 1))
