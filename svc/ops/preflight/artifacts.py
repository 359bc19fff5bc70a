"""The artifacts of a release, as somebody downloaded them to one directory.

Three things are checked, each only if the one before holds: the signature over the checksums, the
checksums, and the bill of materials.  Nothing in the directory is believed before its digest is.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from attrs import frozen
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, SECP256R1, EllipticCurvePublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from svc.errors import Fault, SvcError
from svc.model.release import SIGNATURE, SUMS, TARGET, Version, parse_tag

PROGRAM = "svc"
MAX_SUMS = 1 << 20
MAX_BILL = 1 << 25
_MAX_SIGNATURE = 1 << 12
_MAX_KEY = 1 << 14
_BLOCK = 1 << 20
_LINE = re.compile(r"([0-9a-f]{64}) [ *]([A-Za-z0-9][A-Za-z0-9._+~-]{0,254})")
_BILL = re.compile(r"svc-(v.+)\.cdx\.json")
_AGAIN = "do not install from this directory; download the release again"


class ArtifactsRefused(SvcError):
    """The artifacts are not those of a release that was signed with this key."""

    fault = Fault.PRECONDITION
    reason = "artifacts"


@frozen
class Bill:
    """What the bill of materials says of the release.

    Attributes:
        version: As it says so itself; the same as that of its tag.
        target: What the artifacts run on.
        components: How many it lists.
    """

    version: Version
    target: str
    components: int


def check_signature(directory: Path, public_key: Path) -> bytes:
    """The checksums, once their signature is verified.

    Raises:
        ArtifactsRefused: a file is missing or malformed, or the signature is another one.
    """
    key = _public_key(public_key)
    sums = _read(directory / SUMS, MAX_SUMS)
    signature = _read(directory / SIGNATURE, _MAX_SIGNATURE)
    try:
        key.verify(_decoded(signature), sums, ECDSA(SHA256()))
    except InvalidSignature:
        raise ArtifactsRefused(
            f"{directory / SIGNATURE}: is no signature of {SUMS} by the key in {public_key}; "
            f"{_AGAIN}"
        ) from None
    return sums


def check_sums(directory: Path, sums: bytes) -> Mapping[str, str]:
    """The SHA-256 of each artifact by its name, once each is that of the file.

    Raises:
        ArtifactsRefused: the list is malformed, or a file is missing or another one.
    """
    listed = read_sums(sums, str(directory / SUMS))
    for name, digest in listed.items():
        found = _sha256(directory / name)
        if not hmac.compare_digest(found, digest):
            raise ArtifactsRefused(
                f"{directory / name}: has the SHA-256 {found}, and {SUMS} lists {digest}; {_AGAIN}"
            )
    return listed


def read_sums(sums: bytes, where: str = SUMS) -> Mapping[str, str]:
    """The SHA-256 of each artifact by its name, as the list says.

    Raises:
        ArtifactsRefused: it is malformed.
    """
    listed: dict[str, str] = {}
    for number, line in enumerate(sums.decode("ascii", "replace").splitlines(), 1):
        found = _LINE.fullmatch(line)
        if found is None:
            raise ArtifactsRefused(
                f"{where}: line {number} is not a SHA-256 and the name of a file in this "
                f"directory; {_AGAIN}"
            )
        digest, name = found.groups()
        if name in listed or name in (SUMS, SIGNATURE):
            raise ArtifactsRefused(f"{where}: line {number} lists {name}, which it must not")
        listed[name] = digest
    if not listed:
        raise ArtifactsRefused(f"{where}: lists nothing; {_AGAIN}")
    return listed


def check_bill(directory: Path, listed: Mapping[str, str]) -> Bill:
    """What the one bill of materials among the artifacts says.

    Raises:
        ArtifactsRefused: there is none or several, it is malformed or of another program, or
            there is nothing besides it.
    """
    bills = [name for name in listed if _BILL.fullmatch(name)]
    if len(bills) != 1 or len(listed) < 2:
        raise ArtifactsRefused(
            f"{directory / SUMS}: lists {len(bills)} bills of materials (svc-TAG.cdx.json) and "
            f"{len(listed) - len(bills)} other artifacts; a release has one and at least one"
        )
    path = directory / bills[0]
    text = _read(path, MAX_BILL)
    if hashlib.sha256(text).hexdigest() != listed[bills[0]]:
        raise ArtifactsRefused(f"{path}: was changed while it was checked; {_AGAIN}")
    named = _BILL.fullmatch(bills[0])
    assert named is not None
    try:
        return _bill(json.loads(text), parse_tag(named[1]))
    except SvcError as refused:
        raise ArtifactsRefused(f"{path}: {refused.text}") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ArtifactsRefused(
            f"{path}: is no CycloneDX document of a release of svc, with metadata.component, "
            f"its property {TARGET}, and components"
        ) from None


def _bill(document: Mapping[str, object], version: Version) -> Bill:
    metadata, components = document["metadata"], document["components"]
    if document["bomFormat"] != "CycloneDX" or not isinstance(components, list):
        raise ValueError
    if not isinstance(metadata, dict):
        raise ValueError
    component = metadata["component"]
    properties = {one["name"]: one["value"] for one in component["properties"]}
    name, said, target = component["name"], component["version"], properties[TARGET]
    if name != PROGRAM:
        raise ArtifactsRefused(f"is the bill of {str(name)[:60]!r}, not of {PROGRAM!r}")
    if said != str(version):
        raise ArtifactsRefused(
            f"is of version {str(said)[:60]!r}, and its name of tag {version.tag}"
        )
    if not components:
        raise ArtifactsRefused("lists no component")
    if not isinstance(target, str) or not target.isprintable():
        raise ValueError
    return Bill(version, target, len(components))


def _public_key(path: Path) -> EllipticCurvePublicKey:
    try:
        key = load_pem_public_key(_read(path, _MAX_KEY))
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, EllipticCurvePublicKey) or not isinstance(key.curve, SECP256R1):
        raise ArtifactsRefused(
            f"{path}: is no public key of ECDSA over P-256 in PEM; name the key that the project "
            "publishes (svc-release.pub)"
        )
    return key


def _decoded(signature: bytes) -> bytes:
    """DER, written in Base64 or as it is: ``openssl dgst -sign`` writes it as it is."""
    try:
        return base64.b64decode(signature.strip(), validate=True)
    except binascii.Error:
        return signature


def _read(path: Path, limit: int) -> bytes:
    """All of a regular file.  Raises ArtifactsRefused: there is none, or it is longer."""
    with _opened(path) as file:
        found = file.read(limit + 1)
    if len(found) > limit:
        raise ArtifactsRefused(f"{path}: is longer than {limit} bytes")
    return found


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with _opened(path) as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def _opened(path: Path) -> IO[bytes]:
    # A pipe under that name would block the open for ever.
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as failed:
        text = (failed.strerror or "cannot be read").lower()
        raise ArtifactsRefused(f"{path}: {text}; {_AGAIN}") from None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise ArtifactsRefused(f"{path}: is not a regular file")
    return os.fdopen(handle, "rb")
