"""The gateway that an upgrade is rehearsed on: its processes, its program, and what is tried."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from attrs import define

from svc.errors import SvcError
from svc.model.audit.events import BY_NAME
from svc.model.release import Version
from svc.testing.gateway.gateway import Gateway, make_gateway
from svc.testing.gateway.person import GatewayPerson
from svc.testing.gateway.processes import Child, Ran, run, until
from svc.testing.gateway.settings import AUTHORITY, CONNECTOR, PROXY, GatewayTarget
from tests.system.gated_ssh import GATED, GatedHost, gated_target, recording_of
from tests.system.sshd import Sshd, start_sshd

ROLES = (AUTHORITY, PROXY, CONNECTOR)
"""In the order in which they are started."""

PLAIN, CLOSED = "plain", "closed"
"""A port that is open to the person, and one that the policy closes."""

LONG_SECS = 120.0
"""For what takes long where much else runs."""

_PROGRAM = "SVC_TEST_PROGRAM"


class RehearsalFailed(SvcError):
    """A step of the rehearsal did not end as it should."""

    reason = "rehearsal"


def expect(is_so: object, text: str) -> None:
    """Go on only if it is so.

    Raises:
        RehearsalFailed: it is not.
    """
    if not is_so:
        raise RehearsalFailed(text)


@define(eq=False)
class Stand:
    """Authority, Proxy, Connector, a person's resident, and a host with SSH.

    Attributes:
        program: The path from which all of them are started.
    """

    gateway: Gateway
    person: GatewayPerson
    host: Sshd
    program: Path

    @classmethod
    def made(cls, base: Path, program: Path) -> Stand:
        """A running gateway of a copy of *program*; ``end`` ends it."""
        place = base / "bin" / "svc"
        place.parent.mkdir()
        put_over(program, place)
        os.environ |= {_PROGRAM: str(place), "XDG_CACHE_HOME": str(base / "cache")}
        unpack(program)
        host = start_sshd(base / "sshd")
        targets = (
            gated_target(host),
            GatewayTarget(PLAIN, host.address),
            GatewayTarget(CLOSED, host.address, labels=("closed=yes",)),
        )
        gateway = make_gateway(targets)
        person = gateway.add_person("ada", "ops")
        person.up(GATED, PLAIN)
        return cls(gateway=gateway, person=person, host=host, program=place)

    def end(self) -> None:
        """End every process, and remove what they left."""
        self.gateway.end()
        self.host.child.end()
        for name in (_PROGRAM, "XDG_CACHE_HOME"):
            os.environ.pop(name, None)

    @property
    def resident(self) -> Child:
        """The process of ``svc up``."""
        assert self.person.resident is not None, "Stand.made starts it"
        return self.person.resident

    def operator(self, *words: str, role: str = AUTHORITY, check: bool = True) -> Ran:
        """A command with the configuration of a role, by the program in place."""
        command = [str(self.program), "--config", str(self.gateway.files.config(role)), *words]
        ran = run(command, self.gateway.directory, seconds=120)
        return ran.checked() if check else ran

    # What is tried

    def try_plain(self) -> None:
        """Reach a port by the person's local endpoint; asks no command anything."""
        with socket.create_connection(self.person.endpoint(PLAIN), 20) as session:
            session.settimeout(20)
            expect(session.recv(4) == b"SSH-", f"{PLAIN}: the session does not reach the host")

    def try_sessions(self) -> None:
        """A session that is allowed and recorded, and one that is denied; both are in the log.

        Raises:
            RehearsalFailed, AssertionError: one did not end as it should.
        """
        self.person.endpoint(GATED)
        host = GatedHost(self.gateway, self.host, self.person)
        done = host.ssh("echo", "rehearsed").checked()
        expect(done.stdout == "rehearsed\n", f"{GATED}: ssh printed {done.stdout!r}")
        delivered = recording_of(self.gateway, done)
        denied = self._denied()
        events = ("session.start", "recording.delivered")
        self._check_records(delivered["decision_id"], "allow", events)
        self._check_records(denied["decision_id"], "deny")

    def _denied(self) -> dict[str, Any]:
        known = len(self.person.status()["refused"])
        address = self.person.endpoint(CLOSED)
        try:
            with socket.create_connection(address, 20) as session:
                session.settimeout(20)
                expect(session.recv(1) == b"", f"{CLOSED}: a session was opened")
        except ConnectionResetError:
            pass  # as good an end, also while the connection is made

        def told() -> dict[str, Any] | None:
            refused = self.person.status()["refused"]
            return refused[-1] if len(refused) > known else None

        return until(f"the refusal of {CLOSED}", told, alive=[self.resident])

    def _check_records(self, decision_id: str, decision: str, events: Sequence[str] = ()) -> None:
        """The decision is on record, and these events; each record is as it is declared."""

        def found() -> list[dict[str, Any]]:
            records = self.gateway.decision(decision_id)
            told = {one["event"] for one in records}, {one.get("decision") for one in records}
            return records if set(events) <= told[0] and decision in told[1] else []

        for record in until(f"the records of {decision_id}", found):
            check_shape(record)

    def check_environment(self, version: Version) -> None:
        """A shell sources what the resident of that version wrote, twice and without a fault."""
        path = self.person.directory / "env"

        def is_new() -> bool:
            return f"svc {version} " in path.read_text("utf-8")

        until(f"{path} of svc {version}", is_new, alive=[self.resident])
        run(["sh", "-euc", '. "$1"; . "$1"', "sh", str(path)], self.person.home).checked()

    # The processes

    def stop(self) -> None:
        """Stop everything in order: the resident, Connector, Proxy, and last the Authority.

        Raises:
            RehearsalFailed: one did not end with 0, or rows still waited.
        """
        for child in (self.resident, *map(self.gateway.child, (CONNECTOR, PROXY))):
            self._stopped(child)
        self.gateway.await_metric(AUTHORITY, "svc_audit_outbox_depth", 0)
        self._stopped(self.gateway.child(AUTHORITY))

    def _stopped(self, child: Child) -> None:
        expect(child.stop(LONG_SECS) == 0, f"{child.name} did not stop in order\n{child.tail()}")

    def start_reversed(self) -> None:
        """Start the last role first; all come to serve without being started again."""
        self.resident.start()
        for role in reversed(ROLES):
            self.gateway.start(role, ready=False)
        pids = [self.gateway.child(role).pid for role in ROLES]
        for role in ROLES:
            self.gateway.await_ready(role, LONG_SECS)
        self.person.endpoint(GATED, LONG_SECS)
        expect(
            pids == [self.gateway.child(role).pid for role in ROLES] and self.resident.is_alive,
            "a role had to be started again",
        )

    def status(self) -> dict[str, Any]:
        """``authority status``, once the Connector serves what it is meant to."""
        whole = partial(self._whole)
        return until("all is served", whole, LONG_SECS)

    def _whole(self) -> dict[str, Any] | None:
        found = self.gateway.status()
        served = [one["resources"] == one["resources_served"] for one in found["serving"]]
        return found if served and all(served) else None


def check_shape(record: dict[str, Any]) -> None:
    """Compare a record with what the catalogue of events declares.

    Raises:
        RehearsalFailed: its event, code, class or a field is another one.
    """
    event = BY_NAME.get(record["event"])
    expect(event is not None, f"record {record['seq']}: {record['event']} is not declared")
    assert event is not None
    found = (record["code"], record["class"], record["severity"])
    declared = (event.code, event.event_class.value, event.severity.value)
    expect(found == declared, f"{event.name}: is {found}, and is declared {declared}")
    undeclared = set(record.get("details") or {}) - {one.name for one in event.fields}
    expect(not undeclared, f"{event.name}: {undeclared} is not declared")


def unpack(program: Path) -> None:
    """Let a one file unpack itself, and compile it: no deadline of the rehearsal is for that."""
    cache = Path(os.environ["XDG_CACHE_HOME"])
    cache.mkdir(exist_ok=True)
    before = set(cache.glob("svc/*"))
    run([str(program), "--version"], cache, seconds=300).checked()
    for made in set(cache.glob("svc/*")) - before:
        for site in made.glob("lib/python*/site-packages"):  # the static file brings byte code
            words = ["-m", "compileall", "-q", str(site / "svc"), str(site / "twisted")]
            run([str(made / "bin" / "python3"), *words], cache, seconds=600).checked()


def put_over(program: Path, place: Path) -> None:
    """Replace the file at *place* by a copy of *program* in one step."""
    fresh = place.with_name(f".{place.name}.new")
    shutil.copy(program, fresh)
    os.replace(fresh, place)


@contextmanager
def unchanged(*places: Path) -> Iterator[None]:
    """Whatever is done meanwhile, no file that is there now is removed or changed."""
    before = digests(places)
    yield
    after = digests(places)
    lost = sorted(name for name, digest in before.items() if after.get(name) != digest)
    expect(not lost, f"removed or changed: {', '.join(lost[:5])}")


def digests(places: tuple[Path, ...]) -> dict[str, str]:
    """SHA-256 of each file at or below these places."""
    files = [one for place in places for one in (place, *place.rglob("*")) if one.is_file()]
    return {str(one): sha256(one.read_bytes()).hexdigest() for one in files}
