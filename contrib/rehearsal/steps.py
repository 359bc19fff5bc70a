"""The steps of an upgrade and of the way back, in the order of ``docs/how-to/upgrade.md``."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from attrs import define, field
from pyrage import x25519

from contrib.rehearsal.stand import (
    LONG_SECS,
    PLAIN,
    ROLES,
    Stand,
    expect,
    put_over,
    unchanged,
    unpack,
)
from contrib.release.one_file import TARGET
from svc.errors import UnknownApplied
from svc.model.release import SUMS, Version, parse_tag
from svc.model.upgrade import ORDER
from svc.ops.preflight.artifacts import check_bill, check_signature, check_sums, read_sums
from svc.testing.gateway.processes import Ran, run
from svc.testing.gateway.settings import AUTHORITY, CONNECTOR, PROXY

_BILL = re.compile(r"svc-(v.+)\.cdx\.json")
_SAME = ("policy_version", "catalog_version", "serving", "ca_pin")
"""What an upgrade changes nothing of, in ``authority status``."""


@define(eq=False, kw_only=True)
class Rehearsal:
    """One rehearsal; ``whole`` makes its steps, and ``end`` cleans up.

    Attributes:
        old: The one file that runs today.
        release: The artifacts of the release.
        public_key: The PEM of the key that the release is signed with.
    """

    old: Path
    release: Path
    public_key: Path
    base: Path = field(init=False)
    _stand: Stand | None = field(default=None, init=False)
    _before: dict[str, Any] = field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self.base = Path(tempfile.mkdtemp(prefix="svc-rehearsal-"))

    @property
    def stand(self) -> Stand:
        """The gateway; made by the first step."""
        assert self._stand is not None, "whole() makes it"
        return self._stand

    @property
    def version(self) -> Version:
        """Of the release, by the name of its bill of materials."""
        names = [found[1] for name in os.listdir(self.release) if (found := _BILL.fullmatch(name))]
        expect(len(names) == 1, f"{self.release}: holds {len(names)} bills, and not one")
        return parse_tag(names[0])

    @property
    def new(self) -> Path:
        """The one file of the release."""
        return self.release / self.version.program(TARGET)

    def end(self) -> None:
        """End every process, and remove what they left."""
        if self._stand is not None:
            self._stand.end()
        shutil.rmtree(self.base, ignore_errors=True)

    def whole(self) -> Iterator[str]:
        """Make every step; each that passed, in words.

        Raises:
            SvcError, AssertionError: one did not.
        """
        yield from self.prepare()
        with unchanged(*self._kept_files):
            yield from self.upgrade()
        yield from self.verify()
        yield from self.go_back()

    # There

    def prepare(self) -> Iterator[str]:
        """The release verified, a gateway of the old program with sessions, and the preflight."""
        self._verify_release()
        yield f"the release is signed with the key in {self.public_key}, and is as signed"
        self._stand = stand = Stand.made(self.base, self.old)
        stand.try_sessions()
        stand.gateway.configure(AUTHORITY, {"store_auto_migrate": False})
        stand.gateway.child(AUTHORITY).stop()
        stand.gateway.start(AUTHORITY)
        self._before = stand.status()
        yield f"a gateway of svc {self._before['version']} serves"
        unpack(self.new)
        record = self.base / "change.json"
        words = ["--artifacts", str(self.release), "--pubkey", str(self.public_key)]
        words += ["--change-id", "rehearsal", "--out", str(record)]
        config = str(stand.gateway.files.config(AUTHORITY))
        command = [str(self.new), "--config", config, "authority", "preflight", *words]
        run(command, stand.gateway.directory, seconds=120).checked()
        told = json.loads(record.read_text("utf-8"))
        expect(told["result"] == "passed", f"preflight: {told}")
        yield f"the preflight of svc {told['version']} passed: {', '.join(_steps(told))}"

    def _verify_release(self) -> None:
        """Before its program is run, which could say of itself what it likes.

        Raises:
            ArtifactsRefused, RehearsalFailed: it is not what was signed.
        """
        listed = check_sums(self.release, check_signature(self.release, self.public_key))
        check_bill(self.release, listed)
        expect(
            self.new.name in listed,
            f"{self.release / SUMS}: does not list {self.new.name}, the one file for this machine",
        )

    def upgrade(self) -> Iterator[str]:
        """Stop, back up, replace, migrate, start; each role is checked before the next."""
        stand = self.stand
        stand.stop()
        yield "stopped resident, Connector, Proxy, Authority; no row waits"
        self._back_up()
        yield "backed up store, keys and the files of every node; the copy verifies"
        put_over(self.new, stand.program)
        listed = read_sums((self.release / SUMS).read_bytes())[self.new.name]
        expect(_digest(stand.program) == listed, f"{stand.program}: is not what {SUMS} lists")
        yield "replaced the program by a rename; its checksum is the release's"
        yield self._migrate()
        for step in ORDER:
            if step.role == "client":
                stand.person.up(PLAIN)
                stand.check_environment(self.version)
            else:
                stand.gateway.start(step.role)
            for check in step.checks:
                self._check(step.role, check)
            yield f"started {step.role}: {len(step.checks)} checks passed"

    def verify(self) -> Iterator[str]:
        """What the upgrade must not have changed, and sessions."""
        stand = self.stand
        after = stand.status()
        for name in _SAME:
            expect(
                after[name] == self._before[name],
                f"status: {name} was {self._before[name]}, and is {after[name]}",
            )
        expect(after["version"] == str(self.version), f"status: version {after['version']}")
        yield f"policy, catalog and what is served are as before; svc {after['version']} runs"
        stand.try_sessions()
        yield "a session was allowed and its recording delivered, another denied; both on record"
        stand.gateway.verify()
        yield "the audit log verifies"

    # And back

    def go_back(self) -> Iterator[str]:
        """The old program over the running roles; refused by the store; all restored."""
        stand, child = self.stand, self.stand.gateway.child(AUTHORITY)
        put_over(self.old, stand.program)
        stand.try_plain()
        yield "replaced the program under the running roles, which go on"
        stand.stop()
        stand.gateway.files.listening(AUTHORITY).unlink(missing_ok=True)
        child.start()
        status = child.wait(LONG_SECS)
        expect(
            status == UnknownApplied.exit_code,
            f"the old program over the newer store ended with {status}\n{child.tail()}",
        )
        expect(not stand.gateway.listening(AUTHORITY), "the old program listened")
        yield "the old program alone refuses the migrated store, and is never ready"
        self._restore()
        yield "restored store and keys by the old program, and the files of every node"
        stand.start_reversed()
        after = stand.status()
        expect(after["store"] == self._before["store"], f"the store is at {after['store']}")
        expect(after["version"] == self._before["version"], f"version {after['version']}")
        yield "started in reverse order; every role came to serve"
        stand.gateway.verify()
        stand.try_sessions()
        yield "the audit log verifies; a session was allowed and recorded, another denied"

    # How

    @property
    def _kept_files(self) -> tuple[Path, ...]:
        """What has to be there until the upgrade is verified (the store changes, and is backed up).

        The old program, configurations, identities and keys.
        """
        files = self.stand.gateway.files
        configs = [files.config(role) for role in ROLES]
        identities = [files.state(role) / "identity" for role in ROLES]
        person = self.stand.person.directory
        keys = files.state(AUTHORITY) / "keys"
        return self.old, *configs, *identities, keys, person / "identity", person / "client.toml"

    @property
    def _store_copy(self) -> Path:
        return self.base / "backup" / "authority"

    @property
    def _owner_key(self) -> Path:
        return self.base / "owner.key"

    def _authority(self, *words: str, check: bool = True) -> Ran:
        return self.stand.operator("authority", *words, check=check)

    def _back_up(self) -> None:
        """The Authority by its command, and each node's directory and configuration as files."""
        owner = x25519.Identity.generate()
        self._owner_key.touch(mode=0o600)
        self._owner_key.write_text(f"{owner}\n", "ascii")
        out = self._store_copy
        out.parent.mkdir()
        to = str(owner.to_public())
        self._authority("backup", "create", "--out", str(out), "--encrypt-to", to)
        self._authority("backup", "verify", str(out), "--identity", str(self._owner_key))
        for name, place in self._node_places():
            copied = partial(shutil.copytree, symlinks=True, ignore=_sockets)
            copied(place, out.parent / name)

    def _node_places(self) -> Iterator[tuple[str, Path]]:
        """The directories of every node and person but the Authority's."""
        files = self.stand.gateway.files
        for role in (PROXY, CONNECTOR):
            yield role, files.state(role)
        yield "person", self.stand.person.directory

    def _migrate(self) -> str:
        pending = self._authority("store", "migrate", "--check", check=False).stdout.splitlines()
        manifest = ("--backup-manifest", str(self._store_copy))
        self._authority("store", "migrate", *manifest)
        current = self._authority("store", "migrate", "--check").stdout
        expect("pending" not in current, f"after the migration: {current}")
        return f"migrated once: {len(pending)} pending before, none after"

    def _check(self, role: str, check: str) -> None:
        """Make one check of the plan: a command, or requests of the telemetry listener."""
        if not check.startswith("svc "):
            for path in re.findall(r"GET (/[a-z]+)", check):
                status, body = self.stand.gateway.get(role, path)
                expect(status == 200, f"{role}: GET {path}: {status}\n{body}")
            return
        words = check.removeprefix("svc ").split()
        if words[:2] == ["--config", "FILE"]:
            of = AUTHORITY if words[2] == "authority" else role
            self.stand.operator(*words[2:], role=of)
        else:
            name = self.stand.person.svc("contexts", "list", "--json").checked().json[0]["name"]
            self.stand.person.svc(*(name if word == "NAME" else word for word in words)).checked()

    def _restore(self) -> None:
        """The Authority by its command, the nodes by their files; all with the old program."""
        state = self.stand.gateway.files.state(AUTHORITY)
        state.rename(self.base / "migrated")
        state.mkdir(mode=0o700)
        back = ("backup", "restore", str(self._store_copy), "--identity", str(self._owner_key))
        self._authority(*back)
        for name, place in self._node_places():
            place.rename(self.base / f"upgraded-{name}")
            shutil.copytree(self._store_copy.parent / name, place, symlinks=True)


def _steps(record: dict[str, Any]) -> list[str]:
    return [one["step"] for one in record["steps"]]


def _digest(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()


def _sockets(directory: str, names: list[str]) -> list[str]:
    """What is no file, link or directory, and cannot be copied."""
    paths = {name: Path(directory, name) for name in names}
    return [name for name, path in paths.items() if path.is_socket() or path.is_fifo()]
