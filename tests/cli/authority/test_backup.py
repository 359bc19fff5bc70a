"""`authority backup` at the operator's terminal."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from attrs import evolve
from twisted.internet.threads import deferToThread
from twisted.trial.unittest import TestCase

from svc.audit.checkpoint.anchor import heads_in
from svc.authority.state.rewind import RESTORE_REQUEST, restore_request_file
from svc.compose.authority.parts import load_cluster_keys
from svc.config import load_settings
from svc.errors import BackupBroken, ConfigError
from svc.ops.backup import manifest as form
from svc.ops.backup import restore
from svc.ops.backup.check import read_backup
from svc.ops.backup.classes import ABSENT, CLASSES, IN_STORE, PRESENT, standings
from svc.ops.backup.place import backup_place
from svc.pki.files import key_pem
from svc.pki.root import new_key
from svc.runtime.state_directory import StateDirectory
from tests.cli.authority.backups import POSTGRES, RECIPIENT, SQLITE, EmptyPlace, KeptPlace, key_file
from tests.store.places import ROOT
from tests.support.proof import proves


class Killed(BaseException):
    """The process ends here."""


class BackupCase(TestCase):
    """Of one place."""

    async def kept(self, backend: str = SQLITE) -> KeptPlace:
        """The place of an Authority that has ended."""
        place = KeptPlace(self, backend)
        await place.written()
        return place

    def refused(self, outcome: Any, text: str, status: int = 1) -> None:
        """Nothing on stdout, the reason on stderr."""
        self.assertEqual((outcome.status, outcome.stdout), (status, ""), outcome.stderr)
        self.assertIn(text, outcome.stderr)

    def broken(self, place: KeptPlace, out: Path, text: str) -> None:
        """It neither verifies nor is it put back anywhere."""
        self.refused(place.verify(out), text)
        target = EmptyPlace(self)
        self.refused(target.restore(out, place.key), text)
        self.assertEqual(_left(target), [])

    def rewritten(self, out: Path, change: Callable[[form.Manifest], form.Manifest]) -> None:
        """Somebody who has the medium writes the manifest again."""
        path = out / form.NAME
        path.write_bytes(form.to_json(change(form.from_json(path.read_bytes()))))


class RoundTripTests(BackupCase):
    """Made, verified, put back."""

    @proves("U-BAK-04", "U-OPEN-12")
    async def test_round_trip(self) -> None:
        """What is put back from an encrypted generation is what was there, and verifies."""
        place = await self.kept()
        before, log = place.files(), place.run("audit", "export", "--personal").stdout
        outcome, out = place.create()
        self.assertEqual(outcome.status, 0, outcome.stderr)
        self.assertEqual(stat.S_IMODE(out.stat().st_mode), 0o700)
        self.assertEqual({stat.S_IMODE(each.stat().st_mode) for each in out.iterdir()}, {0o600})
        verified = place.verify(out)
        self.assertEqual((verified.status, verified.stdout), (0, outcome.stdout), verified.stderr)
        place.lose(anchor=True)
        restored = place.restore(out, place.key)
        self.assertEqual((restored.status, restored.stdout), (0, outcome.stdout), restored.stderr)
        self.assertEqual(place.run("audit", "verify").status, 0)
        self.assertEqual(place.run("audit", "export", "--personal").stdout, log)
        after = place.files()
        same = [name for name in before if "/store.db" not in name]
        self.assertEqual([after.get(name) for name in same], [before[name] for name in same])

    @proves("U-BAK-02", "U-BAK-04", "U-BAK-07")
    async def test_manifest(self) -> None:
        """Every class is told, every file has its digest, and nothing secret is in the clear."""
        place = await self.kept()
        (place.state / "spool" / "new").mkdir(parents=True)
        (place.state / "spool" / "new" / "1").write_bytes(b"row")
        (place.state / "old.db").write_bytes(b"?")
        out = place.made()
        manifest = read_backup(out).manifest
        self.assertEqual(list(manifest.classes), [each.word for each in CLASSES])
        by_class: dict[str, set[str]] = {}
        for file in manifest.files:
            by_class.setdefault(file.sort, set()).add(file.path)
        self.assertEqual(by_class["audit-outbox"], {"state/spool/new/1"})
        self.assertEqual(by_class["state"], {"state/old.db"})
        self.assertIn("configuration/authority.toml", by_class["configuration"])
        self.assertIn("state/identity/current", by_class["identity"])
        for word in by_class:
            self.assertEqual(manifest.classes[word], PRESENT)
        self.assertEqual(manifest.classes["receiver-credential"], ABSENT)
        for word in ("approval", "delegation", "revocation", "inventory"):
            self.assertEqual(manifest.classes[word], IN_STORE)
        self.assertEqual(manifest.recipients, (RECIPIENT,))
        clear = b"".join(each.read_bytes() for each in out.iterdir())
        for secret in (b"PRIVATE KEY", b"10.0.0.1", b'personal_values",'):
            self.assertFalse(secret in clear, secret)
        target = EmptyPlace(self)
        target.config.write_text(target.config.read_text().replace("/store.db", "/old.db"))
        self.refused(target.restore(out, place.key), "at the path of the store")
        self.assertEqual([name for name in _left(target) if "lock" not in name], [])
        again = read_backup(place.made()).manifest
        self.assertEqual((manifest.stamp.number, again.stamp.number), (1, 2))

    def test_page(self) -> None:
        """The page says for each class what of the Authority it is, and where that lies."""
        page = (ROOT / "docs" / "how-to" / "backup.md").read_text("utf-8")
        rows = [line for line in page.splitlines() if line.startswith("| ")]
        last = " ".join(row.split("|")[3] for row in rows if row.count("|") == 4)
        for each in CLASSES:
            self.assertIn(f"`{each.word}`", last)

    async def test_other_backend(self) -> None:
        """What was copied from a file goes into PostgreSQL, and from there into a file."""
        place = await self.kept()
        log = place.run("audit", "export", "--personal").stdout
        shared = EmptyPlace(self, POSTGRES)
        self.assertEqual(shared.restore(place.made(), place.key).status, 0)
        self.assertEqual(shared.run("audit", "export", "--personal").stdout, log)
        out = Path(self.mktemp())
        words = ("backup", "create", "--out", str(out), "--encrypt-to", RECIPIENT)
        made = shared.run(*words)
        self.assertEqual(made.status, 0, made.stderr)
        alone = EmptyPlace(self)
        self.assertEqual(alone.restore(out, place.key).status, 0)
        self.assertEqual(alone.run("audit", "export", "--personal").stdout, log)

    async def test_all_in_one(self) -> None:
        """Of `svc all` the directories of all three roles are kept, and put back."""
        place = await self.kept()
        own, beside = place.state / "authority", place.state / "proxy" / "identity"
        for each in [*place.state.iterdir()]:
            own.mkdir(mode=0o700, exist_ok=True)
            each.rename(own / each.name)
        beside.mkdir(parents=True)
        (beside / "audit.key").write_text("of the Proxy")
        place.config.write_text(
            place.config.read_text().replace("/store.db", "/authority/store.db")
        )
        out, before = place.made(), place.files()
        shutil.rmtree(place.state)
        restored = place.restore(out, place.key)
        self.assertEqual(restored.status, 0, restored.stderr)
        self.assertEqual(place.run("audit", "verify").status, 0)
        after = place.files()
        same = [name for name in before if "/store.db" not in name]
        self.assertEqual([after.get(name) for name in same], [before[name] for name in same])

    async def test_live_writer(self) -> None:
        """While somebody has the store open, in either database, nothing is made or left."""
        for backend in (SQLITE, POSTGRES):
            place = KeptPlace(self, backend)
            store = await place.begin(3)
            outcome, out = place.create()
            self.refused(outcome, "stop every Authority")
            self.assertEqual([each.name for each in out.parent.glob(f".{out.name}*")], [])
            self.assertFalse(out.exists())
            await store.close()

    @proves("U-BAK-01", "U-OPEN-12")
    async def test_under_load(self) -> None:
        """A snapshot beside a writer at work is put back as a log that verifies."""
        for backend in (SQLITE, POSTGRES):
            place = KeptPlace(self, backend)
            store = await place.begin(30)
            making = deferToThread(place.made, "--window-closed")
            while not making.called:
                await place.fill(store, 3)
            out = await making
            await place.fill(store, 3)
            await store.close()
            self.assertEqual(place.verify(out).status, 0)
            target = EmptyPlace(self)
            self.assertEqual(target.restore(out, place.key).status, 0)
            outcome = target.run("audit", "verify")
            self.assertEqual(outcome.status, 0, outcome.stderr)
            self.assertEqual(read_backup(out).manifest.moment, form.SNAPSHOT)


class PairTests(BackupCase):
    """Halves, mixtures and damage."""

    @proves("U-BAK-02")
    async def test_class_missing(self) -> None:
        """A class that must be there and is not is an error: none is made, and none verifies."""
        must = [each.word for each in CLASSES if each.otherwise is None]
        needed = {"audit-and-control-keys", "ca-keys", "identity", "transport-trust"}
        self.assertLessEqual(needed, set(must))
        every = {each.word for each in CLASSES}
        for word in must:
            missing = self.assertRaises(BackupBroken, standings, every - {word})
            self.assertIn(f"class {word}: the backup has no file", missing.text)
        place = await self.kept()
        whole = place.made()
        shutil.rmtree(place.state / "trust")
        outcome, out = place.create()
        self.refused(outcome, "trust")
        self.assertFalse(out.exists())

        def without(old: form.Manifest) -> form.Manifest:
            return evolve(old, classes={**old.classes, "transport-trust": "absent"})

        self.rewritten(whole, without)
        self.broken(place, whole, "its classes do not match its files")

    @proves("U-BAK-06", "U-OPEN-12")
    async def test_paired(self) -> None:
        """Store alone, keys alone, one generation apart: refused; both of one: taken (F24)."""
        place = await self.kept()
        first, second = place.made(), place.made()
        for name in (form.STORE, form.FILES):
            half = Path(self.mktemp())
            shutil.copytree(first, half)
            (half / name).unlink()
            self.broken(place, half, "the backup is incomplete with")
            mixed = Path(self.mktemp())
            shutil.copytree(first, mixed)
            shutil.copy(second / name, mixed / name)
            apart = "is of generation 2"
            self.broken(place, mixed, apart)
            # Also where somebody made the manifest's digests those of the mixture.
            newer = {name: read_backup(second).manifest.sealed[name]}
            self.rewritten(mixed, partial(_with_sealed, newer))
            self.broken(place, mixed, apart)
        self.assertEqual(place.verify(first).status, 0)
        target = EmptyPlace(self)
        self.assertEqual(target.restore(first, place.key).status, 0)
        self.assertEqual(target.run("audit", "verify").status, 0)

    @proves("U-BAK-04")
    async def test_damage(self) -> None:
        """A flipped byte, a cut or a longer file, another key: named, and nothing is put back."""
        place = await self.kept()
        whole = place.made()
        for name in (form.STORE, form.FILES):
            data = (whole / name).read_bytes()
            for other, text in (
                (data[:3000] + bytes([data[3000] ^ 1]) + data[3001:], "is damaged"),
                (data[:-100], "is damaged"),
                (data + b"more", "damaged"),
                (b"", "is damaged"),
            ):
                out = Path(self.mktemp())
                shutil.copytree(whole, out)
                (out / name).write_bytes(other)
                self.broken(place, out, f"{name}: ")
                self.refused(place.verify(out), text)
        self.refused(place.verify(whole, _another(self)), "not encrypted to this identity")

    @proves("U-BAK-04", "U-OPEN-12")
    async def test_manifest_lies(self) -> None:
        """What the manifest says is believed of nothing."""
        place = await self.kept()
        whole = place.made()

        def file(**more: Any) -> Callable[[form.Manifest], form.Manifest]:
            return lambda old: evolve(old, files=(evolve(old.files[0], **more), *old.files[1:]))

        def store(**more: Any) -> Callable[[form.Manifest], form.Manifest]:
            return lambda old: evolve(old, store=evolve(old.store, **more))

        for change, text in (
            (file(sha256="00" * 32), "differs from the manifest"),
            (file(path="../../x"), "does not match the manifest"),
            (file(sort="state"), "does not match the manifest"),
            (lambda old: evolve(old, files=old.files[:-1]), "does not match the manifest"),
            (lambda old: evolve(old, files=(*old.files, old.files[0])), "is missing"),
            (store(records=12), "ends at a different record"),
            (store(level="m0001_store_facts"), "ends at a different record"),
            (store(sha256="00" * 32), "its contents differ"),
            (lambda old: evolve(old, ca_pin="00" * 32), "different Authority or root"),
            (lambda old: evolve(old, head=None), "does not end with the head in the manifest"),
            (lambda old: evolve(old, classes={}), "classes"),
        ):
            out = Path(self.mktemp())
            shutil.copytree(whole, out)
            self.rewritten(out, change)
            self.broken(place, out, text)
        (out / form.NAME).write_text('{"form": "svc-backup-v1"}')
        self.broken(place, out, "malformed")

    async def test_log_does_not_verify(self) -> None:
        """A backup of a log that was changed, or cut, is refused with the number of the record."""
        place = await self.kept()
        whole = place.files()
        store = place.open()
        await store.run("erase", lambda tx: tx.audit.erase_personal(7))
        await store.close()
        self.assertEqual(place.verify(place.made()).status, 0)
        for statement in (
            "UPDATE audit_log SET canonical = replace(canonical, '\"', '\"') || ' ' WHERE seq = 5",
            "DELETE FROM audit_log WHERE seq > 40",
        ):
            with sqlite3.connect(place.store) as connection:
                connection.execute(statement)
            connection.close()
            out = place.made()
            self.refused(place.verify(out), "record", 6)
            target = EmptyPlace(self)
            self.refused(target.restore(out, place.key), "record", 6)
            self.assertEqual(_left(target), [])
        self.assertTrue(whole)

    @proves("U-BAK-07")
    async def test_create_refuses_half_pairs(self) -> None:
        """Nothing is made of keys that do not go together, or of a log without its anchor."""
        place = await self.kept()
        current = (place.state / "identity" / "current").resolve()
        for path in (place.state / "keys" / "grant.key", current / "key.pem"):
            kept = path.read_bytes()
            path.write_bytes(key_pem(new_key()))
            self.refused(place.create()[0], f"{path}: does not match the certificate")
            path.write_bytes(kept)
        (place.state / "anchor").rename(place.state / "elsewhere")
        self.refused(place.create()[0], "class audit-anchor")

    async def test_words(self) -> None:
        """Private keys, keys of nobody and places that are taken are refused as what they are."""
        place = await self.kept()
        outcome, out = place.create(out=place.base / "state" / "inside")
        self.refused(outcome, "lies in the state directory")
        self.refused(place.create(out=place.base)[0], "already exists")
        self.refused(place.create(out=place.base / "no" / "such")[0], "does not exist")
        words = ("backup", "create", "--out", str(out.parent.parent / "x"), "--encrypt-to")
        for given, text in (
            (str(place.key), "private key"),
            ("age1nonsense", "neither a public key"),
            ("AGE-SECRET-KEY-1X", "private key"),
            ("/no/such/file", "No such file"),
        ):
            outcome = place.run(*words, given)
            self.assertEqual(outcome.status, 64)
            self.assertIn(text, outcome.stderr)
        place.key.chmod(0o644)
        self.assertIn("chmod 600", place.verify(out).stderr)


class RestoreTests(BackupCase):
    """Where a backup may go."""

    async def test_place_is_not_empty(self) -> None:
        """A place with a store or files in it, or of another cluster, stays as it is."""
        place = await self.kept()
        out = place.made()
        for target, text in (
            (place, "already exists"),
            (_with_store(EmptyPlace(self)), "a store already exists"),
            (_with_store(EmptyPlace(self, POSTGRES)), "a store already exists"),
            (EmptyPlace(self, cluster="c2.example.test"), "to the cluster c1.example.test"),
            (_with_file(EmptyPlace(self)), "already exists"),
        ):
            before = target.files()
            self.refused(target.restore(out, place.key), text)
            self.assertEqual(target.files(), before)

    async def test_older_than_known(self) -> None:
        """Behind a head that is known here or elsewhere it takes a reason, which is noted."""
        place = await self.kept()
        out = place.made()
        store = place.open()
        await place.fill(store, 5)
        await store.close()
        elsewhere = Path(self.mktemp())
        shutil.copy(place.state / "anchor" / "heads.jsonl", elsewhere)
        target = EmptyPlace(self)
        words = ("--known-head", str(elsewhere))
        self.refused(target.restore(out, place.key, *words), "the signed head over 48", 6)
        self.assertEqual(_left(target), [])
        self.assertEqual(target.restore(out, place.key, *words, "--reason", "a drill").status, 0)
        place.lose()
        self.refused(place.restore(out, place.key), "--reason TEXT", 6)
        self.assertEqual(place.restore(out, place.key, "--reason", "the disk broke").status, 0)
        request = restore_request_file(place.state / "anchor" / RESTORE_REQUEST).read()
        assert request is not None and request.lost is not None
        self.assertEqual((request.end.seq, request.lost.head.tree_size), (43, 48))
        self.assertEqual((request.reason, request.uid), ("the disk broke", os.getuid()))
        (before,) = (place.state / "anchor").glob("before-*")
        self.assertTrue((before / "heads.jsonl").exists())
        self.assertEqual(place.run("audit", "verify").status, 0)

    async def test_given_up_before(self) -> None:
        """What an earlier restore gave up on record is no head that is missing now."""
        place = await self.kept()
        out = place.made()
        store = place.open()
        await place.fill(store, 5)
        await store.close()
        elsewhere = Path(self.mktemp())
        shutil.copy(place.state / "anchor" / "heads.jsonl", elsewhere)
        place.lose()
        self.assertEqual(place.restore(out, place.key, "--reason", "the disk broke").status, 0)
        await place.go_on(next(reversed(list(heads_in(elsewhere)))), 43)
        again, words = place.made(), ("--known-head", str(elsewhere))
        restored = EmptyPlace(self).restore(again, place.key, *words)
        self.assertEqual(restored.status, 0, restored.stderr)
        place.lose()
        restored = place.restore(again, place.key, *words)
        self.assertEqual(restored.status, 0, restored.stderr)

    async def test_known_head_is_borne_out(self) -> None:
        """A head that is known and not of this history refuses the backup, whatever the reason."""
        place, other = await self.kept(), KeptPlace(self)
        out = place.made()
        await other.written(10)
        foreign = other.state / "anchor" / "heads.jsonl"
        target = EmptyPlace(self)
        for reason in ("", "because"):
            words = ("--known-head", str(foreign), "--reason", reason)
            self.refused(target.restore(out, place.key, *words), "head", 6)
            self.assertEqual(_left(target), [])

    async def test_killed_on_the_way(self) -> None:
        """Ended at any step it is begun again or gone on with; no start happens in between."""
        place = await self.kept()
        out, log = place.made(), place.run("audit", "export").stdout
        other = place.made()
        steps = ["unpacked", "marked", "committed", "moved anchor"]
        for backend, step in [*((SQLITE, step) for step in steps), (POSTGRES, "committed")]:
            target = EmptyPlace(self, backend)
            self.assertRaises(Killed, self.killed, target, out, place.key, step)
            self.assertFalse((target.state / "keys").exists())
            if step != "unpacked":
                self.refused(target.restore(other, place.key), "a different backup was started")
                refused = self.assertRaises(
                    ConfigError, load_cluster_keys, None, None, StateDirectory(target.state)
                )
                self.assertIn("was interrupted", refused.text)
            again = target.restore(out, place.key)
            self.assertEqual(again.status, 0, f"{step}: {again.stderr}")
            self.assertEqual(target.run("audit", "export").stdout, log)
            self.assertEqual(target.run("audit", "verify").status, 0)
            self.assertFalse((target.state / ".restoring").exists())

    async def test_killed_at_the_end(self) -> None:
        """Ended after its last file it is gone on with, or has nothing left to do."""
        place = await self.kept()
        out = place.made()
        for step in ("moved keys", "done"):
            target = EmptyPlace(self)
            self.assertRaises(Killed, self.killed, target, out, place.key, step)
            self.assertTrue((target.state / "keys").exists())
            self.assertEqual((target.state / ".restoring").exists(), step == "moved keys")
            if step == "moved keys":
                again = target.restore(out, place.key)
                self.assertEqual(again.status, 0, f"{step}: {again.stderr}")
            self.assertFalse((target.state / ".restoring").exists())
            self.assertEqual(target.run("audit", "verify").status, 0)

    def killed(self, target: EmptyPlace, out: Path, key: Path, step: str) -> None:
        """Restore until that step."""
        from svc.ops.backup.sealing import read_identities

        def crash(name: str) -> None:
            if name == step:
                raise Killed

        settings = load_settings(str(target.config), "authority", {})
        found = read_backup(out, read_identities(key))
        restore.RestoreRun(
            backup=found,
            place=backup_place(settings, target.state),
            now=lambda: 0.0,
            entropy=os.urandom,
            crash_point=crash,
        ).restore()


_UNAPPLY = "DELETE FROM svc_migrations WHERE id = '{}'"


def changed(place: KeptPlace, statement: str) -> None:
    """Change the closed store behind everybody's back."""
    with closing(sqlite3.connect(place.store)) as store, store:
        store.execute(statement)


def applied_to(place: KeptPlace) -> list[str]:
    """What the store's ledger names, in order."""
    with closing(sqlite3.connect(place.store)) as store:
        rows = store.execute("SELECT id FROM svc_migrations ORDER BY id").fetchall()
    return [str(each) for (each,) in rows]


class MigrateTests(BackupCase):
    """`store migrate --backup-manifest`."""

    @proves("U-OPEN-13", "U-BAK-06")
    async def test_restore_point(self) -> None:
        """Only with the whole restore point of this very store and these very keys is migrated."""
        place = await self.kept()
        out = place.made()
        words = ("store", "migrate", "--backup-manifest", str(out))
        self.assertEqual(place.run(*words).status, 0)
        self.assertEqual(place.run(*words, "--identity", str(place.key)).status, 0)
        key = place.state / "keys" / "anchor.key"
        kept = key.read_bytes()
        key.write_bytes(key_pem(new_key()))
        self.refused(place.run(*words), f"{key}: differs from the one in the backup")
        key.unlink()
        self.refused(place.run(*words), f"{key}: is missing")
        key.write_bytes(kept)
        key.chmod(0o600)
        store = place.open()
        await place.fill(store, 2)
        await store.close()
        self.refused(place.run(*words), "take a new backup")
        (out / form.STORE).write_bytes(b"")
        self.refused(place.run(*words), form.STORE)
        (out / form.STORE).unlink()
        self.refused(place.run(*words), "the backup is incomplete")

    @proves("U-BAK-06")
    async def test_stopped_before(self) -> None:
        """Where a migration is pending, none is applied unless store, keys and backup agree."""
        place = await self.kept()
        last = applied_to(place)[-1]
        for statement in ("DROP TABLE manual_inventory", _UNAPPLY.format(last)):
            changed(place, statement)
        out = place.made()
        words = ("store", "migrate", "--backup-manifest", str(out))
        key, store = place.state / "keys" / "anchor.key", out / form.STORE
        kept, sealed = key.read_bytes(), store.read_bytes()
        for path, other in ((key, key_pem(new_key())), (key, None), (store, b""), (store, None)):
            path.unlink()
            if other is not None:
                path.write_bytes(other)
            self.refused(place.run(*words), path.name)
            self.assertNotIn(last, applied_to(place))
            path.write_bytes(kept if path is key else sealed)
            path.chmod(0o600)
        done = place.run(*words)
        self.assertEqual((done.status, applied_to(place)[-1]), (0, last), done.stderr)


def _with_sealed(newer: Mapping[str, form.SealedFile], old: form.Manifest) -> form.Manifest:
    return evolve(old, sealed={**old.sealed, **newer})


def _another(case: TestCase) -> Path:
    from pyrage import x25519

    path = key_file(case)
    path.write_text(str(x25519.Identity.generate()))
    return path


def _left(target: EmptyPlace) -> list[str]:
    """What a refused restore left behind, but for the lock beside the store."""
    return [
        name for name in target.files() if name not in ("authority.toml", "state/store.db.lock")
    ]


def _with_store(target: EmptyPlace) -> EmptyPlace:
    target.factory.migrate(target.url, "test", lambda: 0.0, lambda: 0.0)
    return target


def _with_file(target: EmptyPlace) -> EmptyPlace:
    (target.state / "identity").mkdir()
    (target.state / "identity" / "x").write_text("")
    return target
