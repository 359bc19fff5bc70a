"""A cluster, its people and nodes, and the grants between them."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from attrs import evolve

from svc.messages.session import encode_grant, encode_request
from svc.messages.tunnel import OpenNotice
from svc.model.cluster.target import Target
from svc.model.principal import Role
from svc.model.session.grant import Grant
from svc.model.session.request import SessionRequest
from svc.model.signing import Purpose, Signed
from svc.pki.identity import TransportIdentity
from tests.pki.support import World

UID = "00112233445566778899aabbccddeeff"


class Cluster:
    """One Connector, one Proxy, one person, and Authority's keys."""

    def __init__(self) -> None:
        self.world = World()
        self.connector = self.world.identity(Role.CONNECTOR)
        self.proxy = self.world.identity(Role.PROXY)
        self.person = self.world.identity(Role.USER)
        self.targets = {
            "db1": Target("db1", "tcp", "db1.internal:5432"),
            "host1": Target("host1", "ssh", "10.0.0.8:22"),
        }

    @property
    def proxy_id(self) -> str:
        """The node id at the other end of the tunnel."""
        return self.proxy.facts.principal.id

    def request(self, **changed: Any) -> SessionRequest:
        """What the person asks for, now."""
        request = SessionRequest(
            cluster=self.world.verifier.cluster,
            session_uid=UID,
            resource="db1",
            kind="tcp",
            action="tcpConnect",
            proxy_id=self.proxy_id,
            issued_at_ms=int(self.world.now() * 1000),
            certificate_sha256=self.person.facts.sha256,
        )
        return evolve(request, **changed)

    def grant(self, request: bytes, **changed: Any) -> Grant:
        """What Authority answers, now."""
        now = int(self.world.now() * 1000)
        grant = Grant(
            cluster=self.world.verifier.cluster,
            session_uid=UID,
            request_sha256=sha256(request).digest(),
            person_id=self.person.facts.principal.id,
            person_certificate_sha256=self.person.facts.sha256,
            resource="db1",
            resource_revision=7,
            kind="tcp",
            connector_id=self.connector.facts.principal.id,
            proxy_id=self.proxy_id,
            policy_version=3,
            audit_hash=bytes(32),
            issued_at_ms=now,
            open_before_ms=now + 30_000,
            end_before_ms=now + 3_600_000,
        )
        return evolve(grant, **changed)

    def sign_grant(self, grant: Grant, world: World | None = None) -> Signed:
        """Signed by the cluster's grant key, or by another cluster's."""
        return (world or self.world).keys.signer(Purpose.GRANT)(encode_grant(grant))

    def notice(
        self,
        request: dict[str, Any] | None = None,
        *,
        signer: TransportIdentity | None = None,
        **grant: Any,
    ) -> OpenNotice:
        """A good open notice, but for what is changed (and then signed all the same)."""
        requested = encode_request(self.request(**(request or {})))
        signed = (signer or self.person).sign(Purpose.SESSION_REQUEST, requested)
        return OpenNotice(
            session_uid=UID,
            grant=self.sign_grant(self.grant(requested, **grant)),
            request=requested,
            signature=signed.signature,
            person_chain=self.person.chain,
            secret=bytes(32),
        )
