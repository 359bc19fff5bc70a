"""Issuing CAs that are made again: entered by one, loaded by all, and never by SQL."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from attrs import evolve
from cryptography.hazmat.primitives.serialization import Encoding
from twisted.trial.unittest import SynchronousTestCase

from svc.audit.state.in_force import StateLedger
from svc.authority.enroll.issuers import IssuerRotation
from svc.authority.enroll.revisions import OUTSIDE, OutsideKeyRevisions, in_force
from svc.authority.state.cache import ClusterStateCache
from svc.authority.state.tables import rows_now
from svc.errors import ConfigError
from svc.model.distribution import RotationPause
from svc.pki.audit_signatures import origin_verifier
from svc.pki.enroll import CertificateIssuer
from svc.pki.issue import IssuingAuthority
from svc.pki.keyring import (
    create_cluster,
    load_issuer,
    load_keys,
    newer_purpose,
    renew_issuer,
    renew_purpose,
)
from svc.pki.profile import DAY
from svc.runtime.threads import inline
from tests.authority.house import House, value_of
from tests.pki.support import CLUSTER
from tests.support.nothing import nothing
from tests.support.proof import proves


class Place:
    """One Authority's ``keys/`` and what it signs by."""

    def __init__(self, house: House, keys: Path, ledger: StateLedger) -> None:
        self.house, self.keys = house, keys
        self.issuer = CertificateIssuer(load_keys(keys, house.now, house.entropy))
        self.root = self.issuer.keys.root
        self.state_cache = ClusterStateCache(house.store, ledger, house.now, advanced=nothing)
        self.stale: dict[str, bool] = {}
        self.issuers = IssuerRotation(
            issuer=self.issuer,
            state_cache=self.state_cache,
            store=house.store,
            recorder=evolve(house.recorder, ledger=ledger),
            now=house.now,
            load=self.load,
            in_thread=inline,
            is_stale=self.stale.__setitem__,
        )

        self.outside = OutsideKeyRevisions(
            keys=self.issuer.keys,
            state_cache=self.state_cache,
            store=house.store,
            recorder=evolve(house.recorder, ledger=ledger),
            now=house.now,
            is_stale=self.stale.__setitem__,
        )

    def follow_outside(self, leads: bool) -> None:
        """One pass over the keys that targets trust; newer ones are loaded first."""
        for word in OUTSIDE:
            used = self.issuer.keys.purposes[word]
            with contextlib.suppress(ConfigError):
                newer = newer_purpose(
                    self.keys, used, self.root, self.house.now, self.house.entropy
                )
                if newer is not None:
                    self.issuer.keys.take(newer)
        value_of(self.state_cache.reload())
        value_of(self.outside.follow(leads=leads))

    def load(self, kind: str) -> IssuingAuthority:
        """From the disk."""
        return load_issuer(self.keys, kind, self.root, self.house.now, self.house.entropy)

    def reload(self, leads: bool) -> None:
        """One pass."""
        value_of(self.state_cache.reload())
        value_of(self.issuers.follow(leads=leads))

    def renew(self, kind: str) -> str:
        """What the operator's command does; the certificate."""
        made = renew_issuer(self.keys, kind, self.house.now, self.house.entropy, 90 * DAY)
        return made.public_bytes(Encoding.PEM).decode()

    def signs_by(self, kind: str) -> str:
        """The certificate of the CA that is used."""
        used = self.issuer.keys.issuers[kind].certificate
        return used.public_bytes(Encoding.PEM).decode()


class IssuerTests(SynchronousTestCase):
    """One Authority that leads, and one that stands by."""

    def setUp(self) -> None:
        self.house = House()
        keys = Path(self.mktemp())
        create_cluster(keys, CLUSTER, self.house.now, self.house.entropy)
        copy = Path(self.mktemp())
        copy.mkdir(0o700)
        self.copy(keys, copy)
        self.leader = Place(self.house, keys, self.house.ledger)
        verify = origin_verifier(self.house.world.keys.root_der, CLUSTER)
        self.other = Place(self.house, copy, StateLedger(verify))
        self.places = (self.leader, self.other)
        self.pass_of_both()

    def copy(self, source: Path, target: Path) -> None:
        """The directory's files."""
        for path in source.iterdir():
            (target / path.name).touch(0o600)
            (target / path.name).write_bytes(path.read_bytes())

    def pass_of_both(self) -> None:
        """The leader's first."""
        self.leader.reload(leads=True)
        self.other.reload(leads=False)

    def in_force(self, kind: str) -> Any:
        return in_force(self.other.state_cache.state.keys, kind)

    def test_founding(self) -> None:
        """The first CAs are on record, once, as revision 1."""
        self.pass_of_both()
        records = self.house.records("ca.activate")
        self.assertEqual(
            [one["details"]["key_purpose"] for one in records], ["transport", "spiffe"]
        )
        for kind in ("transport", "spiffe"):
            self.assertEqual(self.in_force(kind).revision, 1)
            self.assertEqual(self.in_force(kind).certificate, self.leader.signs_by(kind))
        self.assertEqual(self.other.stale, {"transport": False, "spiffe": False})

    @proves("G-POL-04")
    def test_a_key_that_cannot_be_loaded(self) -> None:
        """Who lacks the newer key is stale in that kind alone, signs by the old one, and heals."""
        old = self.leader.signs_by("spiffe")
        new = self.leader.renew("spiffe")
        self.pass_of_both()
        self.assertEqual(self.leader.signs_by("spiffe"), new)
        self.assertEqual(self.leader.stale, {"transport": False, "spiffe": False})
        self.assertEqual(
            (self.in_force("spiffe").revision, self.in_force("spiffe").certificate), (2, new)
        )
        self.assertEqual(self.other.signs_by("spiffe"), old)
        self.assertEqual(self.other.stale, {"transport": False, "spiffe": True})
        self.copy(self.leader.keys, self.other.keys)
        (self.other.keys / "spiffe.key").chmod(0o644)
        self.pass_of_both()
        self.assertEqual(self.other.stale, {"transport": False, "spiffe": True})
        (self.other.keys / "spiffe.key").chmod(0o600)
        self.pass_of_both()
        self.assertEqual(self.other.stale, {"transport": False, "spiffe": False})
        self.assertEqual(self.other.signs_by("spiffe"), new)

    @proves("G-MET-45", "G-ROLE-07")
    def test_keys_that_targets_trust(self) -> None:
        """Those of tokens and of SSH certificates have revisions, and are stale likewise."""

        def both() -> list[dict[str, bool]]:
            self.leader.follow_outside(leads=True)
            self.other.follow_outside(leads=False)
            return [{word: one.stale[word] for word in OUTSIDE} for one in self.places]

        fresh = {"jwt": False, "onward-ssh": False}
        self.assertEqual(both(), [fresh, fresh])
        self.assertEqual(both(), [fresh, fresh])
        self.house.clock.advance(DAY)
        renew_purpose(self.leader.keys, "jwt", self.house.now, self.house.entropy)
        self.assertEqual(both(), [fresh, {**fresh, "jwt": True}])
        self.assertEqual(self.in_force("jwt").revision, 2)
        self.copy(self.leader.keys, self.other.keys)
        (self.other.keys / "jwt.key").chmod(0o644)
        self.assertEqual(both(), [fresh, {**fresh, "jwt": True}])
        (self.other.keys / "jwt.key").chmod(0o600)
        self.assertEqual(both(), [fresh, fresh])

    @proves("U-PHA-03", "U-NOTE-14")
    def test_paused(self) -> None:
        """While rotation is paused no newer CA comes into force; the one before stays in use."""
        old = self.leader.signs_by("spiffe")
        pause = RotationPause(is_paused=True, since=1.0, by="local:0")
        self.house.run(lambda tx: tx.keyrings.pause(pause))
        new = self.leader.renew("spiffe")
        self.pass_of_both()
        self.assertEqual(self.in_force("spiffe").certificate, old)
        self.assertEqual(self.leader.signs_by("spiffe"), old)
        self.house.run(lambda tx: tx.keyrings.pause(evolve(pause, is_paused=False)))
        self.pass_of_both()
        self.assertEqual(self.leader.signs_by("spiffe"), new)

    @proves("X-50")
    def test_age_is_not_staleness(self) -> None:
        """A CA that was loaded is not stale however old it is, also once it has ended."""
        for days in (89, 4000):
            self.house.clock.advance(days * DAY)
            self.pass_of_both()
            for place in (self.leader, self.other):
                self.assertEqual(place.stale, {"transport": False, "spiffe": False}, days)

    def test_an_earlier_one_is_never_put_back(self) -> None:
        """Who leads with keys of before is stale; the newer revision stays in force."""
        new = self.leader.renew("transport")
        self.pass_of_both()
        self.other.reload(leads=True)
        self.assertEqual(self.other.stale["transport"], True)
        self.pass_of_both()
        self.assertEqual(self.in_force("transport").certificate, new)
        self.assertEqual(len(self.house.records("ca.activate")), 3)

    def test_who_stands_by_enters_nothing(self) -> None:
        """A newer key at one that does not lead waits."""
        new = self.other.renew("spiffe")
        self.pass_of_both()
        self.assertEqual(self.in_force("spiffe").revision, 1)
        self.other.reload(leads=True)
        self.assertEqual(self.in_force("spiffe").certificate, new)
        self.leader.reload(leads=False)
        self.assertEqual(self.leader.stale["spiffe"], True)

    def test_half_a_pair(self) -> None:
        """Cut between key and certificate, the CA in force goes on; the pair can be mended."""
        old, key = self.leader.signs_by("spiffe"), self.leader.keys / "spiffe.key"
        kept = key.read_bytes()
        self.leader.renew("transport")
        key.write_bytes((self.leader.keys / "transport.key").read_bytes())
        self.pass_of_both()
        self.assertEqual(
            (self.leader.signs_by("spiffe"), self.leader.stale["spiffe"]), (old, False)
        )
        self.assertRaises(ConfigError, self.leader.load, "spiffe")
        key.write_bytes(kept)
        self.leader.load("spiffe")

    def test_another_cluster(self) -> None:
        """Keys of another cluster of this name, copied over those here, are not entered."""
        old, foreign = self.leader.signs_by("spiffe"), Path(self.mktemp())
        create_cluster(foreign, CLUSTER, self.house.now, self.house.entropy)
        self.copy(foreign, self.leader.keys)
        self.pass_of_both()
        refused = self.assertRaises(ConfigError, self.leader.load, "spiffe")
        self.assertIn("is not the root that this process runs with", refused.text)
        self.assertEqual(self.leader.signs_by("spiffe"), old)
        self.assertEqual(self.in_force("spiffe").revision, 1)

    @proves("G-POL-04")
    def test_by_sql(self) -> None:
        """A revision that nobody signed for is not in force, is named, and is not signed over."""
        before = self.house.run(lambda tx: rows_now(tx, 0.0))
        foreign = self.other.renew("spiffe").replace("'", "")
        for statements, named in (
            (
                (
                    "UPDATE key_revisions SET state = 'retired' WHERE kind = 'spiffe'",
                    f"INSERT INTO key_revisions VALUES ('spiffe', 2, '{foreign}', 'active', 1.0)",
                ),
                ["key:spiffe:1", "key:spiffe:2"],
            ),
            (("DELETE FROM key_revisions WHERE kind = 'transport'",), ["key:transport:1"]),
            (("DELETE FROM key_revisions WHERE kind = 'spiffe'",), ["key:spiffe:1"]),
        ):
            self.house.by_sql(*statements)
            reading = value_of(self.leader.state_cache.reload())
            found = sorted(
                one.subject for one in reading.unsigned if one.subject.startswith("key:")
            )
            self.assertTrue(set(named) <= set(found), found)
            self.pass_of_both()
            for kind in ("transport", "spiffe"):
                self.assertEqual(self.in_force(kind).revision, 1)
            self.assertEqual(self.leader.stale, {"transport": False, "spiffe": False})
        self.leader.renew("spiffe")
        self.pass_of_both()
        self.assertEqual(self.in_force("spiffe").revision, 1, "nothing is signed over it")
        self.assertIn("key:spiffe:1", before)
