"""The files of a release: the program, its bill of materials, the checksums, their signature."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from operator import itemgetter
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ec import (
    ECDSA,
    SECP256R1,
    EllipticCurvePrivateKey,
)
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from contrib.release.plan import ReleaseRefused
from contrib.release.static.packages import Package
from svc.model.release import SIGNATURE, SUMS, TARGET, Version

ROOT = Path(__file__).resolve().parents[2]
WHEEL_TARGET = "py3-none-any"
EPOCH = "1704067200"
"""The time of each file in the wheel: the same whenever it is built."""

_LOCKED = re.compile(r"^([A-Za-z0-9._-]+)==([A-Za-z0-9.!+_-]+)", re.M)


def wheel_name(version: Version) -> str:
    """The file name of the wheel; its version is written as Python packages write it."""
    base = f"{version.major}.{version.minor}.{version.patch}"
    suffix = f"{('a', 'b', 'rc')[version.channel]}{version.serial}" if version.serial else ""
    return f"svc-{base}{suffix}-{WHEEL_TARGET}.whl"


def build_wheel(out: Path, version: Version, root: Path) -> Path:
    """Build the program of the checkout in *root* into *out*.

    Raises:
        ReleaseRefused: the build failed, or made something else.
    """
    words = ["-m", "pip", "wheel", "--quiet", "--no-input", "--disable-pip-version-check"]
    words += ["--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", str(out), str(root)]
    environ = {**os.environ, "SOURCE_DATE_EPOCH": EPOCH, "PYTHONHASHSEED": "0"}
    done = subprocess.run([sys.executable, *words], env=environ, capture_output=True, text=True)
    path = out / wheel_name(version)
    if done.returncode or not path.is_file():
        raise ReleaseRefused(f"the build of {path.name} failed:\n{done.stdout}{done.stderr}")
    return path


def bill_of(version: Version, locked: str, packages: Iterable[Package], target: str) -> bytes:
    """The bill of materials in CycloneDX 1.5: the same locks give the same bytes.

    It has no time and no serial number, and its components are in order.

    Args:
        locked: The text of ``requirements/runtime.txt``.
        packages: Those of Debian in the static file.
        target: What the static file runs on.
    """
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": f"svc@{version}",
                "name": "svc",
                "version": str(version),
                "properties": [{"name": TARGET, "value": target}],
            }
        },
        "components": sorted(_components(locked, packages), key=itemgetter("purl")),
    }
    return json.dumps(document, indent=2, sort_keys=True).encode() + b"\n"


def _components(locked: str, packages: Iterable[Package]) -> Iterator[dict[str, object]]:
    for name, number in set(_LOCKED.findall(locked)):
        purl = f"pkg:pypi/{re.sub(r'[-_.]+', '-', name).lower()}@{number}"
        yield _component(name, number, purl)
    for one in packages:
        hashes = [{"alg": "SHA-256", "content": one.digest}]
        yield {**_component(one.name, one.version, one.purl), "hashes": hashes}


def _component(name: str, version: str, purl: str) -> dict[str, object]:
    return {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}


def write_sums(directory: Path, names: Iterable[str]) -> bytes:
    """Write the checksums of these files, which do not list themselves; what was written."""
    lines = [
        f"{hashlib.sha256((directory / name).read_bytes()).hexdigest()}  {name}\n"
        for name in sorted(names)
    ]
    made = "".join(lines).encode()
    (directory / SUMS).write_bytes(made)
    return made


def write_signature(directory: Path, sums: bytes, key: EllipticCurvePrivateKey) -> None:
    """Write the detached signature of the checksums."""
    signature = key.sign(sums, ECDSA(SHA256()))
    (directory / SIGNATURE).write_bytes(base64.b64encode(signature) + b"\n")


def read_key(path: Path) -> EllipticCurvePrivateKey:
    """The private key that releases are signed with.

    Raises:
        ReleaseRefused: there is none, or it is of another kind.
    """
    try:
        key = load_pem_private_key(path.read_bytes(), None)
    except OSError as failed:
        raise ReleaseRefused(f"{path}: {(failed.strerror or 'cannot be read').lower()}") from None
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, EllipticCurvePrivateKey) or not isinstance(key.curve, SECP256R1):
        raise ReleaseRefused(
            f"{path}: is no private key of ECDSA over P-256 in PEM without a passphrase; make one "
            "with: openssl ecparam -name prime256v1 -genkey -noout"
        )
    return key
