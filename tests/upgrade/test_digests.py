"""The digests that signed records of earlier levels name."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from svc.model.audit.rows.catalog import resource_entry
from svc.model.audit.state import (
    certificate_entry,
    group_entry,
    key_entry,
    node_entry,
    person_entry,
    policy_entry,
    token_entry,
)
from svc.model.cluster.key_revision import KeyRevision, KeyState
from svc.model.cluster.node import KeptToken, Leaf, Node, TokenRecord, TokenRole
from svc.model.cluster.person import IssuedCertificate, Person
from svc.model.cluster.resource import Resource
from svc.model.policy.version import PolicyVersion
from tests.support.proof import proves

DIGESTS = {
    "node:n1": "8863a319b6804f9424b55bf3d600fedeb7880981b30e3da23a879551e5892eed",
    "person:p1": "734ccf402e934a0d4ce6685ea7685a40d9a263887ce20c0dddc36f25c268d20d",
    "group:dev": "914f38f61a8e6cbfbc9c1c53088712b2463aaf8dd05b2d8de0cffc53992c5249",
    "resource:r1": "1febcf718449525a8c1a5ecccfbc01cf0f0a5a201ea1711b93db85a7fbb9e4d0",
    "resource:r2": "f2fbe17542ab918c770c85366ab6e34961f23237ed25bb6678323c97552cd251",
    "token:t1": "c6ded0c705fa17c33b86699c7932004ba84be4ef2a036c463acc22fb161fc1e4",
    "certificate:" + "00" * 32: "408cf029e5ea08b1d45b2c3d7b78c83fc149c24f0c1bc25da7f2f968f2153f6c",
    "policy:2": "1edd8008fd50876619cc4dcbc8f240685613ff85ae826802667ebbc50e6c254a",
    "key:node:1": "cd4e3e1e3b4e2dbff83e98294713b569b96ce198b3434c925c0135ae2f6a45d3",
}


class DigestTests(SynchronousTestCase):
    """What signed records of 0.10 name: whoever changes it takes every such row out of force."""

    @proves("U-PHA-21")
    def test_of_before(self) -> None:
        """The digests of rows as the levels 74 to 79 have them are what they were."""
        key = bytes(range(32))
        leaf = Leaf("01", key, 1000.5)
        found = [
            node_entry(
                Node(
                    id="n1",
                    name="c1",
                    role="connector",
                    key_sha256=key,
                    audit_key=key,
                    leaf=leaf,
                    enrolled_at=1.0,
                    names=("a.example",),
                )
            ),
            person_entry(Person("p1", "ada", groups=("dev",), salt=key[:16])),
            group_entry("dev"),
            resource_entry(
                Resource(id="r1", kind="tcp", labels={"zone": "b"}, assigned_to="n1", revision=3)
            ),
            resource_entry(Resource("r2", "tcp", revision=4)),
            token_entry(
                KeptToken(
                    TokenRecord(
                        id="t1",
                        secret_sha256=key,
                        role=TokenRole.PROXY,
                        expires_at=9.0,
                        bound_to="edge1",
                    )
                )
            ),
            certificate_entry(
                IssuedCertificate(
                    sha256=bytes(32), serial="02", person_id="p1", issued_at=1.0, expires=9.0
                )
            ),
            policy_entry(
                PolicyVersion(
                    version=2,
                    text="forbid(principal, action, resource);",
                    sha256=key,
                    author="x",
                    created_at=1.0,
                )
            ),
            key_entry(
                KeyRevision(
                    kind="node", revision=1, certificate="PEM", state=KeyState.ACTIVE, since=1.0
                )
            ),
        ]
        self.assertEqual({one.subject: (one.digest or b"").hex() for one in found}, DIGESTS)
