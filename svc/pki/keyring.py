"""The key directory of an Authority: ``svc init`` writes it whole, and every start checks it whole.

``root.pem`` and a ``<name>.pem``/``<name>.key`` pair for each issuing CA and
purpose; ``root.key`` only where it was left.  It lies apart from the store, so
whoever can change the store still cannot sign.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from attrs import evolve
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from svc.errors import ConfigError
from svc.model.audit.record import rfc3339
from svc.model.certificate import CertificateRefused
from svc.model.ids import Entropy
from svc.model.session.grant import RECORDING_KEY_BYTES
from svc.model.signing import PrivateKey
from svc.pki import files, issue, profile
from svc.pki.credentials import CREDENTIALS_FILE, new_credentials_key
from svc.pki.root import ClusterKeys, PurposeKey, make_cluster, make_purpose_key, new_key
from svc.pki.verify import check_root, check_standing, root_cluster
from svc.runtime import durable

RECORDING_FILE = "recording.key"
"""What recordings are sealed to.  It is made with the others, so that whoever copies them to a
further Authority copies it as well."""


def create_cluster(
    directory: Path,
    cluster: str,
    now: profile.WallTime,
    entropy: Entropy,
    *,
    keep_root_key: bool = True,
    issuer_lifetime: float = profile.ISSUER_LIFETIME,
) -> ClusterKeys:
    """Make a cluster and write its keys into *directory*, all or nothing.

    Called by ``svc init`` and ``svc demo``; blocks for the disk.

    Args:
        directory: ``<state_dir>/keys``; must not exist, its parent must.
        keep_root_key: Whether ``root.key`` is left there.  If not, the
            returned value holds the only copy: write :func:`root_key_pem`
            where the operator wants it.
        issuer_lifetime: Seconds that the issuing CAs are good for.

    Raises:
        ConfigError: when *directory* exists already: keys are never overwritten.
    """
    if directory.exists():
        raise ConfigError(str(directory), "already exists; keys are never overwritten")
    keys = make_cluster(cluster, now, entropy, issuer_lifetime)
    written = keys if keep_root_key else evolve(keys, root_key=None)
    beside = directory.with_name(f".{directory.name}.new")
    shutil.rmtree(beside, ignore_errors=True)
    files.make_private_directory(beside)
    for name, data in _contents(written).items():
        durable.write_new(beside / name, data)
    durable.write_new(beside / CREDENTIALS_FILE, new_credentials_key(entropy))
    durable.write_new(beside / RECORDING_FILE, new_recording_key(entropy))
    durable.sync_directory(beside)
    durable.move(beside, directory)
    return keys


def new_recording_key(entropy: Entropy) -> bytes:
    """What the file of a new key for recordings holds."""
    return entropy(RECORDING_KEY_BYTES).hex().encode("ascii") + b"\n"


def add_purpose(
    directory: Path,
    word: str,
    now: profile.WallTime,
    entropy: Entropy,
    root_key: Path | None = None,
) -> bool:
    """Make a purpose key that a key directory of before does not have; whether one was made.

    Called by ``svc authority state adopt``; blocks for the disk.

    Args:
        directory: ``<state_dir>/keys``.
        word: Which; a row of ``profile.PURPOSES``.
        now: Wall time.
        entropy: For the certificate's serial number.
        root_key: Where the root's key lies; by default in *directory*.

    Raises:
        ConfigError: the root's key is missing, or not to be trusted.
    """
    files.check_directory(directory, os.geteuid())
    if (directory / f"{word}.pem").exists():
        return False
    renew_purpose(directory, word, now, entropy, root_key)
    return True


def renew_purpose(
    directory: Path,
    word: str,
    now: profile.WallTime,
    entropy: Entropy,
    root_key: Path | None = None,
) -> x509.Certificate:
    """Make the next key of a purpose, with its certificate, in the place of the one before.

    Called by ``svc authority keys renew``; blocks for the disk.  As with :func:`renew_issuer` a
    running Authority takes it, and a pair that was cut is made whole by the same command.  A key
    that others trust by itself stays, and gets the next certificate.

    Raises:
        ConfigError: the root's key is missing, or not to be trusted.
    """
    root, signer, cluster = _root_signer(directory, root_key)
    kept, path = None, directory / f"{word}.key"
    if profile.PURPOSES[word].keeps_key and path.exists():
        kept = files.load_key(path, os.geteuid())
    made = make_purpose_key(word, cluster, root, signer, now(), entropy, kept)
    # The key first: what is found by its certificate is whole.
    durable.replace(directory / f"{word}.key", files.key_pem(made.key))
    durable.replace(directory / f"{word}.pem", files.certificates_pem(made.certificate))
    return made.certificate


def renew_issuer(
    directory: Path,
    kind: str,
    now: profile.WallTime,
    entropy: Entropy,
    lifetime: float,
    root_key: Path | None = None,
) -> x509.Certificate:
    """Create the next CA of *kind*, with a new key, in place of the previous one.

    Called by ``svc authority keys renew``; blocks for the disk.  A running Authority takes
    it at its next reload pass.  Cut between its two files it leaves a pair that a start
    refuses; run again it is whole.

    Args:
        lifetime: Seconds.
        root_key: Where the root's key lies; by default in *directory*.

    Raises:
        ConfigError: the root's key is missing, or not to be trusted.
    """
    root, signer, cluster = _root_signer(directory, root_key)
    key = new_key()
    made = issue.make_issuer(kind, cluster, key, root, signer, now(), entropy, lifetime)
    durable.replace(directory / f"{kind}.key", files.key_pem(key))
    durable.replace(directory / f"{kind}.pem", files.certificates_pem(made))
    return made


def root_key_pem(keys: ClusterKeys) -> bytes:
    """The root key for a file of the operator's choice.

    Raises:
        ConfigError: where these keys are without it.
    """
    if keys.root_key is None:
        raise ConfigError("root.key", "is not in this key directory")
    return files.key_pem(keys.root_key)


def _root_signer(
    directory: Path, root_key: Path | None
) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey, str]:
    """The root, its key, and its cluster."""
    uid = os.geteuid()
    files.check_directory(directory, uid)
    _refuse_candidate(directory, uid)
    (root,) = files.load_certificates(directory / "root.pem", uid)
    path = root_key or directory / "root.key"
    signer = files.load_key(path, uid)
    files.check_pair(path, signer, root)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)  # check_root lets no other be a root
    return root, signer, root_cluster(issue.der(root))


def _refuse_candidate(directory: Path, uid: int) -> None:
    """Refuse to renew some certificates of a cluster whose others can no longer be read.

    A file that holds no certificate at all is let pass: renewing is what puts that right.

    Raises:
        ConfigError: naming the first certificate that an earlier candidate made.
    """
    for name in (*profile.ISSUERS, *profile.PURPOSES):
        try:
            files.load_certificates(directory / f"{name}.pem", uid)
        except ConfigError as refused:
            if refused.what == profile.OF_CANDIDATE:
                raise


def load_keys(
    directory: Path,
    now: profile.WallTime,
    entropy: Entropy,
    *,
    cluster: str | None = None,
    uid: int | None = None,
) -> ClusterKeys:
    """Read and check every key of an Authority; called at start, blocks for the disk.

    Args:
        cluster: The configuration's word; None takes the root's.
        uid: Who must own the files; this process's user by default.

    Raises:
        ConfigError: naming the file: missing, of another owner or mode, a key
            that is not its certificate's, another cluster, expired.
    """
    return _Reader(
        directory=directory, uid=os.geteuid() if uid is None else uid, now=now, entropy=entropy
    ).read(cluster)


def load_issuer(
    directory: Path, kind: str, root: x509.Certificate, now: profile.WallTime, entropy: Entropy
) -> issue.IssuingAuthority:
    """Read and check one issuing CA again, as :func:`load_keys` does; blocks for the disk.

    Args:
        root: Of the keys that this process runs with; ``root.pem`` must still be it.

    Raises:
        ConfigError: as :func:`load_keys`, or another root lies there.
    """
    return _Reader(directory=directory, uid=os.geteuid(), now=now, entropy=entropy).issuer(
        kind, root
    )


def newer_purpose(
    directory: Path,
    used: PurposeKey,
    root: x509.Certificate,
    now: profile.WallTime,
    entropy: Entropy,
) -> PurposeKey | None:
    """The key of a purpose that lies where *used* did; None while it is the same, or ends sooner.

    One that ends sooner is found where *used* has not begun: the clock was set back, and the
    operator made another.  Blocks for the disk; the files are looked at as :func:`load_keys` does.

    Args:
        root: As :func:`load_issuer`.

    Raises:
        ConfigError: as :func:`load_issuer`.
    """
    reader = _Reader(directory=directory, uid=os.geteuid(), now=now, entropy=entropy)
    if reader.certificate(used.word) == used.certificate:
        return None
    found = reader.purpose(used.word, root)
    is_later = found.ends_at >= used.ends_at or now() < used.begins_at
    return found if is_later else None


def _contents(keys: ClusterKeys) -> dict[str, bytes]:
    pairs: dict[str, tuple[x509.Certificate, PrivateKey]] = {
        kind: (each.certificate, each.key) for kind, each in keys.issuers.items()
    }
    pairs |= {word: (each.certificate, each.key) for word, each in keys.purposes.items()}
    found = {"root.pem": files.certificates_pem(keys.root)}
    if keys.root_key is not None:
        found["root.key"] = files.key_pem(keys.root_key)
    for name, (certificate, key) in pairs.items():
        found[f"{name}.pem"] = files.certificates_pem(certificate)
        found[f"{name}.key"] = files.key_pem(key)
    return found


class _Reader:
    """Reads one key directory."""

    def __init__(self, directory: Path, uid: int, now: profile.WallTime, entropy: Entropy) -> None:
        self._directory = directory
        self._uid = uid
        self._now = now
        self._entropy = entropy

    def read(self, cluster: str | None) -> ClusterKeys:
        files.check_directory(self._directory, self._uid)
        root = self._root(cluster)
        name = root_cluster(issue.der(root))
        root_key = None
        if (self._directory / "root.key").exists():
            root_key = self._curve_key("root", root)
        issuers = {kind: self._issuer(kind, name, root) for kind in profile.ISSUERS}
        purposes = {
            word: self._purpose(word, name, root)
            for word, row in profile.PURPOSES.items()
            if not row.optional or self._has(word)
        }
        return ClusterKeys(
            cluster=name, root=root, root_key=root_key, issuers=issuers, purposes=purposes
        )

    def _has(self, word: str) -> bool:
        """Whether anything of a key is there; a half of it stops the start."""
        return any((self._directory / f"{word}.{half}").exists() for half in ("pem", "key"))

    def certificate(self, word: str) -> x509.Certificate:
        files.check_directory(self._directory, self._uid)
        return self._certificate(word)

    def purpose(self, word: str, root: x509.Certificate) -> PurposeKey:
        return self._purpose(word, self._still(root), root)

    def issuer(self, kind: str, root: x509.Certificate) -> issue.IssuingAuthority:
        return self._issuer(kind, self._still(root), root)

    def _still(self, root: x509.Certificate) -> str:
        """The cluster of *root*; whoever may write here must not bring another one in force."""
        files.check_directory(self._directory, self._uid)
        cluster = root_cluster(issue.der(root))
        if issue.der(self._root(cluster)) != issue.der(root):
            raise ConfigError(
                str(self._directory / "root.pem"),
                "is not the root that this process runs with; put this cluster's own keys back",
            )
        return cluster

    def _root(self, cluster: str | None) -> x509.Certificate:
        root = self._certificate("root")
        path = str(self._directory / "root.pem")
        try:
            name = root_cluster(issue.der(root))
            check_root(issue.der(root), cluster or name)
        except CertificateRefused as refused:
            raise ConfigError(path, f"is not this cluster's root: {refused.text}") from None
        if root.not_valid_after_utc.timestamp() <= self._now():
            raise ConfigError(path, "the root has expired")
        return root

    def _issuer(self, kind: str, cluster: str, root: x509.Certificate) -> issue.IssuingAuthority:
        certificate = self._certificate(kind)
        self._check(kind, certificate, root, cluster)
        key = self._curve_key(kind, certificate)
        return issue.IssuingAuthority(
            kind=kind,
            cluster=cluster,
            certificate=certificate,
            key=key,
            root=root,
            now=self._now,
            entropy=self._entropy,
        )

    def _purpose(self, word: str, cluster: str, root: x509.Certificate) -> PurposeKey:
        if not (self._directory / f"{word}.pem").exists():
            raise ConfigError(
                str(self._directory / f"{word}.pem"),
                "is missing; a cluster made before this key existed gets it with "
                "`svc authority state adopt`",
            )
        certificate = self._certificate(word)
        self._check(word, certificate, root, cluster)
        return PurposeKey(word, certificate, self._key(word, certificate))

    def _check(
        self, name: str, certificate: x509.Certificate, root: x509.Certificate, cluster: str
    ) -> None:
        try:
            standing = check_standing(issue.der(certificate), issue.der(root), cluster)
            if standing.word != name:
                raise CertificateRefused(f"it is the certificate of {standing.word}")
            if self._now() < standing.not_before:
                raise CertificateRefused(
                    f"it is valid from {rfc3339(standing.not_before)}, which is later than "
                    "this host's clock; correct the clock"
                )
            if self._now() >= standing.not_after:
                raise CertificateRefused(
                    "it has expired; make a new one with the root key: "
                    f"`svc authority keys renew {name}`"
                )
        except CertificateRefused as refused:
            raise ConfigError(str(self._directory / f"{name}.pem"), refused.text) from None

    def _certificate(self, name: str) -> x509.Certificate:
        path = self._directory / f"{name}.pem"
        found = files.load_certificates(path, self._uid)
        if len(found) != 1:
            raise ConfigError(str(path), "contains more than one certificate")
        return found[0]

    def _key(self, name: str, certificate: x509.Certificate) -> PrivateKey:
        path = self._directory / f"{name}.key"
        key = files.load_key(path, self._uid)
        files.check_pair(path, key, certificate)
        return key

    def _curve_key(self, name: str, certificate: x509.Certificate) -> ec.EllipticCurvePrivateKey:
        key = self._key(name, certificate)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ConfigError(str(self._directory / f"{name}.key"), "is not a P-256 key")
        return key
