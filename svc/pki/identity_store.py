"""Our identity on disk: ``identity/<serial>/{leaf,chain,key}.pem`` and the files next to it.

``identity/current`` is a symbolic link that a rename swaps, so at every moment
it leads to a whole, matching pair: the old one or the new one.
``identity/pending.key`` holds the key of a request whose answer may have been
lost; asking again with the same key tells the registry that we are no clone.
``identity/answer`` is the answer to a join whose identity is not in place yet.
``trust/root.pem`` is the pinned root.  Calls block for a few fsyncs.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from attrs import field, frozen
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from svc.errors import ConfigError, Fault, SvcError
from svc.interfaces.crash import CrashPoint, no_crash
from svc.pki import files
from svc.pki.issue import der
from svc.pki.root import new_key
from svc.runtime import durable

KEPT_GENERATIONS = 2
LOCK_FILE = "identity.lock"
_Key = TypeVar("_Key", ec.EllipticCurvePrivateKey, ed25519.Ed25519PrivateKey)
_SERIAL = re.compile(r"[0-9a-f]{1,40}\Z")


@frozen
class StoredIdentity:
    """What lay on disk: a matching pair, its chain without the root, and the root."""

    key: ec.EllipticCurvePrivateKey = field(repr=False, eq=False)
    chain: tuple[bytes, ...]
    root: bytes


class IdentityBusy(SvcError):
    """Another process is making, renewing or removing the identity."""

    fault = Fault.ABORTED
    reason = "identity_busy"


class IdentityStore:
    """The identity files of one state directory.

    Args:
        state_dir: A private directory that exists.
        uid: Who must own what is read; this process's user by default.
        crash_point: See CrashPoint.
    """

    def __init__(
        self, state_dir: Path, *, uid: int | None = None, crash_point: CrashPoint = no_crash
    ) -> None:
        self._lock = state_dir / LOCK_FILE
        self._identity = state_dir / "identity"
        self._trust = state_dir / "trust"
        self._uid = os.geteuid() if uid is None else uid
        self._crash_point = crash_point

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Keep others that hold it from making, renewing or removing the identity meanwhile.

        The file lies beside the directory of the identity, which a sign-out removes.

        Raises:
            IdentityBusy: another one holds it.
            OSError: the file cannot be made.
        """
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(self._lock, flags, 0o600)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise IdentityBusy(
                    f"{self._lock.parent}: another process is making, renewing or removing the "
                    "identity"
                ) from None
            yield
        finally:
            os.close(descriptor)

    @property
    def exists(self) -> bool:
        """Whether an identity exists, intact or not, valid or expired.

        From then on tokens and pins in the configuration are ignored (X-47).
        """
        return os.path.lexists(self._identity / "current")

    @property
    def has_root(self) -> bool:
        """Whether the root of a cluster was pinned here, also where no identity is left."""
        return os.path.lexists(self._trust / "root.pem")

    def load(self) -> StoredIdentity:
        """Read and check what is there.

        Raises:
            ConfigError: naming the file: missing, of another owner or mode, a
                key that is not its certificate's.
        """
        for directory in (self._identity, self._trust):
            files.check_directory(directory, self._uid)
        place = self._current()
        files.check_directory(place, self._uid)
        leaf = files.load_certificates(place / "leaf.pem", self._uid)
        above = files.load_certificates(place / "chain.pem", self._uid)
        if len(leaf) != 1:
            raise ConfigError(str(place / "leaf.pem"), "contains more than one certificate")
        key = files.load_key(place / "key.pem", self._uid)
        files.check_pair(place / "key.pem", key, leaf[0])
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ConfigError(str(place / "key.pem"), "is not a P-256 key")
        return StoredIdentity(key, tuple(der(each) for each in (*leaf, *above)), self.load_root())

    def load_root(self) -> bytes:
        """DER of the pinned root.

        Raises:
            ConfigError: naming the file.
        """
        path = self._trust / "root.pem"
        roots = files.load_certificates(path, self._uid)
        if len(roots) != 1:
            raise ConfigError(str(path), "contains more than one certificate")
        return der(roots[0])

    def pin(self, root: bytes) -> None:
        """Keep the root that every chain must end in; before the first :meth:`write`."""
        self._make(self._trust)
        pem = files.certificates_pem(x509.load_der_x509_certificate(root))
        durable.replace(self._trust / "root.pem", pem)
        self._crash_point("pinned")

    def keep_answer(self, answer: bytes) -> None:
        """Keep the answer to a join until :meth:`forget_answer`."""
        self._make(self._identity)
        durable.replace(self._answer, answer)
        self._crash_point("answered")

    def kept_answer(self) -> bytes | None:
        """The answer to a join that was not completed; None where there is none.

        Raises:
            ConfigError: where the file is there but cannot be trusted.
        """
        return files.read_private(self._answer, self._uid) if self.keeps_answer else None

    def forget_answer(self) -> None:
        """The join is complete, or its answer was refused."""
        self._answer.unlink(missing_ok=True)

    @property
    def keeps_answer(self) -> bool:
        """Whether a join was stopped here before it was complete."""
        return os.path.lexists(self._answer)

    @property
    def _answer(self) -> Path:
        return self._identity / "answer"

    def write(self, key: ec.EllipticCurvePrivateKey, chain: Sequence[bytes]) -> None:
        """Make this pair the current one; whenever the machine stops, old or new is whole.

        Args:
            chain: DER: leaf, issuing CA.

        Raises:
            ConfigError: for a key that is not the leaf's, before anything is written.
            OSError: when the disk refuses; the old pair stands.
        """
        leaf, *above = (x509.load_der_x509_certificate(each) for each in chain)
        serial = f"{leaf.serial_number:x}"
        files.check_pair(self._identity / serial / "key.pem", key, leaf)
        self._make(self._identity)
        self._place(serial, leaf, above, key)
        link = self._identity / ".current.new"
        link.unlink(missing_ok=True)
        link.symlink_to(serial)
        self._crash_point("linked")
        durable.move(link, self._identity / "current")
        self._crash_point("swapped")
        (self._identity / "pending.key").unlink(missing_ok=True)
        self._crash_point("asked")
        self._prune()

    def pending_key(self) -> ec.EllipticCurvePrivateKey:
        """The key to ask a certificate for: the same one until a pair was written.

        Raises:
            ConfigError: where the file is there but cannot be trusted.
        """
        return self._own("pending.key", ec.EllipticCurvePrivateKey, new_key, "a P-256 key")

    def audit_key(self) -> ed25519.Ed25519PrivateKey:
        """The node's own audit key, made at its first use and kept for the node's life.

        Raises:
            ConfigError: where the file is there but cannot be trusted.
        """
        kind = ed25519.Ed25519PrivateKey
        return self._own("audit.key", kind, kind.generate, "an Ed25519 key")

    def _own(self, name: str, kind: Any, make: Callable[[], _Key], words: str) -> _Key:
        """The key in this file, made where there is none."""
        path = self._identity / name
        if path.exists():
            kept: Any = files.load_key(path, self._uid)
            if not isinstance(kept, kind):
                raise ConfigError(str(path), f"is not {words}")
            key: _Key = kept
            return key
        self._make(self._identity)
        made = make()
        durable.replace(path, files.key_pem(made))
        return made

    def _current(self) -> Path:
        link = self._identity / "current"
        try:
            name = os.readlink(link)
        except OSError:
            raise ConfigError(str(link), "is not a symbolic link to an identity") from None
        if _SERIAL.match(name) is None:
            raise ConfigError(str(link), "is a symbolic link that leads out of its directory")
        return self._identity / name

    def _place(
        self,
        serial: str,
        leaf: x509.Certificate,
        above: list[x509.Certificate],
        key: ec.EllipticCurvePrivateKey,
    ) -> None:
        """Write the pair under its serial; nothing leads there yet."""
        beside = self._identity / ".new"
        shutil.rmtree(beside, ignore_errors=True)
        files.make_private_directory(beside)
        self._crash_point("made")
        for name, data in (
            ("leaf", files.certificates_pem(leaf)),
            ("chain", files.certificates_pem(*above)),
            ("key", files.key_pem(key)),
        ):
            durable.write_new(beside / f"{name}.pem", data)
            self._crash_point(name)
        durable.sync_directory(beside)
        target = self._identity / serial
        if not target.exists():
            durable.move(beside, target)
        self._crash_point("placed")

    def _prune(self) -> None:
        """Keep the current pair and the one before it."""
        current = self._current().name
        found = [path for path in self._identity.iterdir() if _SERIAL.match(path.name)]
        found = [path for path in found if path.is_dir() and path.name != current]
        found.sort(key=lambda path: path.stat().st_mtime_ns, reverse=True)
        for path in found[KEPT_GENERATIONS - 1 :]:
            shutil.rmtree(path)
            self._crash_point("pruned")
        shutil.rmtree(self._identity / ".new", ignore_errors=True)

    def _make(self, directory: Path) -> None:
        if directory.exists():
            files.check_directory(directory, self._uid)
            return
        files.make_private_directory(directory)
        durable.sync_directory(directory.parent)
