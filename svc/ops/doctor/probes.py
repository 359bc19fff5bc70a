"""Asks the network and the disk what a check has to know; each question has a deadline.

Nothing is sent over a connection but a question to the role's own ``/readyz``, and nothing listens.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterable, Iterator, Set
from contextlib import closing, suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from threading import Event, Thread

from attrs import define, evolve, field, frozen

from svc.config import Address
from svc.config.forms import parse_address
from svc.ops.doctor.sockets import tcp_sockets
from svc.runtime.durable import open_regular

DIAL_SECS = 3.0
RESOLVE_SECS = 3.0
MOST = 32
"""So many addresses are tried at the same time; a configuration that has more is not all tried."""

LOCKS = Path("/proc/locks")
MOUNTS = Path("/proc/self/mountinfo")
LISTENING = "listening.json"
_MOST_READY_BYTES = 4096
_MOST_LISTENING_BYTES = 1 << 16
READY_SECS = 3.0
"""For the whole answer of ``/readyz``."""

LATE = "no answer within {:g} seconds"


@define
class _Asked:
    """One question, in a thread of its own: the resolver of the system knows no deadline."""

    host: str
    port: int
    dial: bool
    done: Event = field(factory=Event)
    addresses: tuple[str, ...] = ()
    problem: str = ""

    def ask(self) -> None:
        try:
            found = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
            self.addresses = tuple(dict.fromkeys(str(each[4][0]) for each in found))
            if self.dial:
                with socket.create_connection((self.host, self.port), DIAL_SECS):
                    pass
        except TimeoutError:
            self.problem = LATE.format(DIAL_SECS)
        except socket.gaierror:
            self.problem = "the name cannot be resolved"
        except (OSError, UnicodeError) as refused:
            self.problem = (getattr(refused, "strerror", None) or "cannot be dialed").lower()
        finally:
            self.done.set()


@frozen
class DialAnswer:
    """What became of one address.

    Attributes:
        addresses: What its name resolves to.
        problem: Why it was not reached; empty if it was, or was not dialed.
        is_reached: Whether it was dialed, or is known to answer without that.
    """

    address: Address
    addresses: tuple[str, ...]
    problem: str
    is_reached: bool = False


def answering(addresses: Iterable[Address], *, dial: bool = True) -> tuple[DialAnswer, ...]:
    """Whether each address takes TCP connections.

    An address is dialed only if the sockets of this machine do not show that it answers: a
    connection that is closed without a word is a failed handshake, and a line in a log.
    """
    found = {one.address: one for one in _answers(addresses, dial=False)}
    sockets = tcp_sockets({each.port for each in found})
    known = {
        each: evolve(one, is_reached=True)
        for each, one in found.items()
        if sockets is not None and any(sockets.answers(host, each.port) for host in one.addresses)
    }
    if dial:
        rest = [each for each, one in found.items() if each not in known and not one.problem]
        tried = _answers(rest, dial=True)
        known |= {one.address: evolve(one, is_reached=not one.problem) for one in tried}
    return tuple(known.get(each, one) for each, one in found.items())


def resolved(host: str) -> tuple[str, ...]:
    """The addresses of a name or address; empty if it does not resolve in time."""
    (answer,) = _answers((Address(host, 0),), dial=False)
    return answer.addresses


def _answers(addresses: Iterable[Address], *, dial: bool) -> tuple[DialAnswer, ...]:
    wanted = tuple(addresses)[:MOST]
    asked = [_Asked(each.host, each.port, dial) for each in wanted]
    for one in asked:
        Thread(target=one.ask, name="doctor-probe", daemon=True).start()
    seconds = DIAL_SECS + RESOLVE_SECS if dial else RESOLVE_SECS
    answers = []
    for address, one in zip(wanted, asked, strict=True):
        # They run at the same time: once one was too late, the others have had that time, too.
        if not one.done.wait(seconds):
            seconds = 0.0
            answers.append(DialAnswer(address, (), LATE.format(DIAL_SECS)))
        else:
            answers.append(DialAnswer(address, one.addresses, one.problem))
    return tuple(answers)


def bind_refusal(address: Address) -> OSError | None:
    """Why the system would not let a listener of ours have this address now; None if it would.

    The address is bound and let go at once; nobody can connect to it meanwhile.
    """
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    host = "127.0.0.1" if address.host == "localhost" else address.host
    with socket.socket(family, socket.SOCK_STREAM) as tried:
        # As the listener itself does: what a former process left behind keeps nobody out.
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((host, address.port))
        except OSError as refused:
            return refused
    return None


def is_running(state: Path) -> bool | None:
    """Whether a process has the state directory; None if this system does not tell.

    The lock itself is not touched: to try it would keep out a role that starts at this moment.
    """
    try:
        found = os.stat(state / "lock")
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return None  # We may not look, and so cannot know.
    try:
        lines = LOCKS.read_text("ascii").splitlines()
    except (OSError, UnicodeError):
        return None
    devices = {(os.major(found.st_dev), os.minor(found.st_dev)), *_mounted_device(state)}
    names = {f"{major:02x}:{minor:02x}:{found.st_ino}" for major, minor in devices}
    return any(_locks(line, names) for line in lines)


def readiness(state: Path) -> str:
    """What ``/readyz`` of the role that runs says; empty if it has none, or does not answer.

    Args:
        state: Its directory, which says where it listens.
    """
    said: list[str] = []
    # In a thread, for the timeout of a connection is of each read: somebody else may listen there.
    asking = Thread(target=lambda: said.append(_said(state)), name="doctor-ready", daemon=True)
    asking.start()
    asking.join(READY_SECS)
    return said[0] if said else ""


def _said(state: Path) -> str:
    try:
        with open_regular(state / LISTENING) as file:
            listening = json.loads(file.read(_MOST_LISTENING_BYTES))
        address = parse_address(str(listening["telemetry"]), 1)
        with closing(HTTPConnection(address.host, address.port, timeout=READY_SECS)) as asking:
            asking.request("GET", "/readyz")
            return asking.getresponse().read(_MOST_READY_BYTES).decode("utf-8", "replace")
    except (OSError, ValueError, KeyError, TypeError, RecursionError, HTTPException):
        return ""


def _mounted_device(directory: Path) -> Iterator[tuple[int, int]]:
    """The device that is mounted there: on btrfs another one than files say that they are on."""
    with suppress(OSError, ValueError, IndexError):
        descriptor = os.open(directory, os.O_PATH | os.O_CLOEXEC)
        try:
            facts = Path(f"/proc/self/fdinfo/{descriptor}").read_text("ascii").splitlines()
        finally:
            os.close(descriptor)
        (mount,) = [line.split()[1] for line in facts if line.startswith("mnt_id:")]
        for line in MOUNTS.read_text("utf-8", "replace").splitlines():
            words = line.split()
            if words[0] == mount:
                major, minor = map(int, words[2].split(":"))
                yield major, minor


def _locks(line: str, names: Set[str]) -> bool:
    """``1: FLOCK  ADVISORY  WRITE 4242 fd:01:131 0 EOF``."""
    words = line.split()
    with suppress(ValueError):
        at = words.index("FLOCK")
        return len(words) > at + 4 and words[at + 4] in names
    return False


@frozen
class Room:
    """How much of a disk is free.

    Attributes:
        free: Bytes that we may use.
        size: Of the whole disk.
        files: How many files can be made; None where the file system has no limit.
    """

    free: int
    size: int
    files: int | None


def room(path: Path) -> Room:
    """Of the disk that *path* is on, or would be made on.  Raises OSError."""
    there = next(each for each in (path, *path.parents) if each.exists())
    found = os.statvfs(there)
    files = found.f_favail if found.f_files else None
    return Room(found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize, files)
