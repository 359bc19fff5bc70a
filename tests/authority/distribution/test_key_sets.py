"""What the leader seals is for those who have the root, and reaches them whole."""

from __future__ import annotations

from pathlib import Path

from svc.authority.distribution.admin import RootAdmin
from svc.authority.distribution.key_sets import KeySets
from svc.model.distribution import newest
from svc.pki import distribution
from svc.proto.gate.v1 import root_pb2 as pb
from svc.runtime.threads import inline
from tests.authority.distribution.test_ceremony import (
    ADMIN,
    NAMES,
    OTHER_KEYS,
    Owner,
    RootCase,
)
from tests.authority.house import value_of
from tests.pki.support import CLUSTER
from tests.support.nothing import nothing

FILES = {"spiffe.key": b"key", "spiffe.pem": b"certificate"}


class KeySetCase(RootCase):
    """Three owners of root 1; each has keys in ``keys/``."""

    def setUp(self) -> None:
        super().setUp()
        self.prepare()
        self.ack(*NAMES)
        self.do(self.ceremony.activate(ADMIN))
        for name in NAMES:
            (self.owners[name].state / "keys").mkdir(mode=0o700)
            self.put(name, FILES)
        self.sets = {name: self.key_sets(self.owners[name]) for name in NAMES}

    def key_sets(self, owner: Owner) -> KeySets:
        """As one of them wires it."""
        return KeySets(
            cluster=CLUSTER,
            me=owner.node_id,
            owner=owner.name,
            state=owner.state,
            kept=owner.kept,
            writer=self.writer,
            loaded=lambda: owner.keys,
            is_automatic=True,
            check=nothing,
            in_thread=inline,
        )

    def put(self, name: str, files: dict[str, bytes]) -> None:
        """What an operator puts into the keys of one of them."""
        for file, data in files.items():
            path = self.keys_of(name) / file
            path.write_bytes(data)
            path.chmod(0o600)

    def keys_of(self, name: str) -> Path:
        """Where the keys of one of them lie."""
        return self.owners[name].state / "keys"

    def lead(self, name: str = "a1") -> None:
        """One pass of the one that leads."""
        value_of(self.sets[name].lead())

    def renew(self, files: dict[str, bytes]) -> None:
        """Renew keys at a1, which loads, enters and distributes them."""
        self.put("a1", files)
        self.owners["a1"].keys = OTHER_KEYS
        self.lead()

    @property
    def sealed_under(self) -> int:
        """The epoch under which the newest key set is sealed; 0: it is not."""
        found = newest(self.house.state_cache.state.key_sets.values())
        assert found is not None
        return found.epoch


class DistributionTests(KeySetCase):
    """From the leader to those that stand by."""

    def test_taken(self) -> None:
        """What the leader has renewed is in the keys of another one."""
        self.lead()
        self.assertEqual(self.sealed_under, 1)
        renewed = {"spiffe.key": b"another", "spiffe.pem": b"its own"}
        self.renew(renewed)
        value_of(self.sets["a2"].follow())
        self.assertEqual(distribution.key_files(self.keys_of("a2")), renewed)

    def test_cut(self) -> None:
        """What was cut is brought to its end, also where nothing more is taken now."""
        self.lead()
        renewed = {"spiffe.key": b"another", "spiffe.pem": b"its own"}
        self.renew(renewed)
        keys = self.keys_of("a2")
        (keys / "spiffe.pem").unlink()
        (keys / "spiffe.pem").mkdir()  # no file replaces it
        value_of(self.sets["a2"].follow())
        self.assertEqual((keys / "spiffe.key").read_bytes(), b"another")
        self.do(self.rotation.pause(pb.PauseRotationRequest(reason="upgrade"), ADMIN))
        value_of(self.sets["a2"].follow())
        (keys / "spiffe.pem").rmdir()
        value_of(self.sets["a2"].follow())
        self.assertEqual(distribution.key_files(keys), renewed)

    def test_came_back(self) -> None:
        """Who stole a credential has root 1 still, though its owner has another one now."""
        self.assertEqual(self.has_root("a3"), "yes")
        self.do(self.ceremony.withdraw("a3", ADMIN))
        self.owners["a3"] = Owner(self, "a3")
        self.owners["a3"].register()
        self.assertEqual(self.has_root("a3"), "no")
        self.do(self.ceremony.readmit("a3", "", ADMIN))
        self.assertEqual(self.has_root("a3"), "no")
        self.renew({"spiffe.key": b"secret"})
        self.assertEqual(self.sealed_under, 0)
        for one in self.owners.values():
            one.keys = OTHER_KEYS
            one.register()
        self.prepare()
        self.ack(*NAMES)
        self.do(self.ceremony.activate(ADMIN))
        self.lead()
        self.assertEqual(self.sealed_under, 2)

    def has_root(self, name: str) -> str:
        """What the status says."""
        admin = RootAdmin(
            ceremony=self.ceremony,
            own=self.owners["a1"].own,
            rotation=self.rotation,
            is_automatic=True,
        )
        answer = value_of(admin.status(pb.RootStatusRequest(), ADMIN))
        return next("yes" if one.has_root else "no" for one in answer.owners if one.owner == name)
