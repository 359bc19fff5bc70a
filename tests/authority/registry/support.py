"""A house whose Connectors register."""

from __future__ import annotations

from typing import Any

from attrs import evolve
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from svc.authority.registry.health import ReportedHealth
from svc.messages.control import (
    RegistrationVerdict,
    TunnelSeen,
    decode_connector_down,
    encode_connector_up,
)
from svc.messages.tunnel import Nonce, encode_registration
from svc.model.cluster.registration import DeclaredResource, Registration
from svc.model.cluster.resource import Assigned
from svc.model.signing import Purpose, Signed, sign
from svc.runtime.services import BackgroundTasks
from tests.authority.house import Call, Holder, House, value_of
from tests.pki.support import CLUSTER


def reported_health(house: House) -> ReportedHealth:
    """What takes the reports of nodes, at this Authority."""
    return ReportedHealth(
        cluster=CLUSTER,
        state_cache=house.state_cache,
        verifier=house.world.verifier,
        store=house.store,
        now=house.now,
        is_serving=lambda: True,
    )


class IntakeTestCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.house = House()
        self.tasks = BackgroundTasks()
        self.intake = self.house.intake(self.tasks)

    def begin(
        self, holder: Holder | None = None, proxy: Holder | None = None
    ) -> tuple[Call, Deferred[None], bytes]:
        """A stream that has its challenge."""
        call, by = Call(), self.house.row(proxy or self.house.proxy)
        call.give(encode_connector_up(TunnelSeen("t1", (holder or self.house.connector).id)))
        serving = Deferred.fromCoroutine(self.intake.serve(call, by))
        self.addCleanup(self.let_go, serving)
        nonce = decode_connector_down(call.sent[-1])
        assert isinstance(nonce, Nonce)
        return call, serving, nonce.nonce

    @property
    def db1(self) -> Assigned:
        """The resource that everybody registers here, as it is assigned now."""
        return self.house.state_cache.state.catalog["db1"].assigned

    def let_go(self, serving: Deferred[None]) -> None:
        """End a stream that the test left open."""
        serving.addErrback(lambda _: None)
        serving.cancel()

    def signed(self, nonce: bytes, holder: Holder | None = None, **fields: Any) -> bytes:
        by = holder or self.house.connector
        registration = Registration(
            cluster=CLUSTER,
            node_id=by.id,
            proxy_id=self.house.proxy.id,
            nonce=nonce,
            resources=(DeclaredResource("db1", "tcp"),),
            instance_id="instance",
            generation=1,
            version="0.11.0",
        )
        data = encode_registration(evolve(registration, **fields))
        signature = sign(by.key, Purpose.REGISTRATION, data)
        return encode_connector_up(Signed(data, signature, by.chain))

    def verdict(self, holder: Holder | None = None, **fields: Any) -> RegistrationVerdict:
        """What a whole registration comes to."""
        self.call, self.serving, nonce = self.begin(holder)
        fields = {"nonce": nonce, **fields}
        self.call.give(self.signed(fields.pop("nonce"), holder, **fields))
        said = decode_connector_down(self.call.sent[1])
        assert isinstance(said, RegistrationVerdict)
        return said

    def declared(self, *pairs: tuple[str, str]) -> tuple[DeclaredResource, ...]:
        return tuple(DeclaredResource(id, kind) for id, kind in pairs)

    def ended(self) -> list[dict[str, Any]]:
        """The records of ended tunnels."""
        return self.house.records("tunnel.ended")

    def next_leader(self) -> int:
        """How many ends the next leader records that this one left."""
        before = len(self.ended())
        value_of(self.house.intake(BackgroundTasks()).ends.record_left())
        return len(self.ended()) - before
