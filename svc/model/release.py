"""Releases: their versions, tags and channels, and the names of what is published with each.

Pure.  Versions are compared as semantic versioning does: by numbers, and a final release comes
after its candidates.  Text order would put ``rc.10`` before ``rc.9``.
"""

from __future__ import annotations

import re
from enum import IntEnum

from attrs import frozen

from svc.errors import Fault, SvcError

SUMS = "SHA256SUMS"
"""Lists the digest of each artifact, as ``sha256sum`` writes and checks it."""

SIGNATURE = f"{SUMS}.sig"
"""Of :data:`SUMS`: ECDSA over P-256 and SHA-256, DER in Base64."""

TARGET = "svc:target"
"""The property of the bill of materials that says what the artifacts run on."""

_NUMBER = r"(?:0|[1-9][0-9]{0,8})"
_VERSION = re.compile(
    rf"({_NUMBER})\.({_NUMBER})\.({_NUMBER})(?:-(alpha|beta|rc)\.([1-9][0-9]{{0,8}}))?"
)


class Channel(IntEnum):
    """Where a version is published, in the order of precedence of its versions."""

    ALPHA = 0
    BETA = 1
    RC = 2
    RELEASE = 3

    @property
    def word(self) -> str:
        """As it is written."""
        return self.name.lower()


@frozen(order=True)
class Version:
    """A version; ``str`` writes it without the ``v`` of its tag.

    Attributes:
        serial: Counts the pre-releases of one channel from 1; 0 of a final release.
    """

    major: int
    minor: int
    patch: int
    channel: Channel = Channel.RELEASE
    serial: int = 0

    def __str__(self) -> str:
        base = f"{self.major}.{self.minor}.{self.patch}"
        return f"{base}-{self.channel.word}.{self.serial}" if self.serial else base

    @property
    def tag(self) -> str:
        """The tag of its release."""
        return f"v{self}"

    @property
    def bill(self) -> str:
        """The file name of its bill of materials (SBOM)."""
        return f"svc-{self.tag}.cdx.json"

    def program(self, target: str) -> str:
        """The file name of its executable for *target*."""
        return f"svc-{self.tag}-{target}"


class VersionRefused(SvcError):
    """A text is not a version, or not a tag."""

    fault = Fault.INVALID
    reason = "version"


def parse_version(text: str) -> Version:
    """The version that *text* writes, without a ``v``.

    Raises:
        VersionRefused: it is of another form.
    """
    found = _VERSION.fullmatch(text)
    if found is None:
        raise VersionRefused(
            f"{text[:60]!r}: is no version; write X.Y.Z, or X.Y.Z-CHANNEL.N with the channel "
            "alpha, beta or rc, and N from 1 on"
        )
    major, minor, patch, channel, serial = found.groups()
    return Version(
        major=int(major),
        minor=int(minor),
        patch=int(patch),
        channel=Channel.RELEASE if channel is None else Channel[channel.upper()],
        serial=int(serial or 0),
    )


def parse_tag(text: str) -> Version:
    """The version whose tag *text* is: ``v`` and the version.

    Raises:
        VersionRefused: it is of another form.
    """
    if not text.startswith("v"):
        raise VersionRefused(f"{text[:60]!r}: is no tag; a tag is v and a version, as in v1.2.3")
    return parse_version(text[1:])
