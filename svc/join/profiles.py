"""Where people of a cluster sign in, as different sources say it: two that differ are refused.

The profile is signed by the Authority, so no Proxy can make one up.  But Proxies may lead to
Authorities that are configured differently, and a cluster may change its provider: nobody is to
type a password at another provider than before without being told.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from attrs import frozen

from svc.errors import Fault, SvcError
from svc.proto.gate.v1 import sign_in_pb2 as pb
from svc.runtime import durable
from svc.telemetry.escape import escaped

PROFILE_FILE = "sign-in-profile.json"
_MAX_FILE = 16384


@frozen
class ToldProfile:
    """What one source says.

    Attributes:
        source: As a person knows it: a Proxy's address, or a file.
        issuer: Empty: nobody signs in at a provider.
    """

    source: str
    cluster: str
    issuer: str
    client_id: str

    @classmethod
    def of(cls, source: str, profile: pb.SignInProfile) -> ToldProfile:
        """A profile that was verified.

        Raises:
            SvcError: ``profile_partial``.
        """
        if bool(profile.issuer) != bool(profile.client_id):
            raise SvcError(
                f"{source}: the sign-in profile of {profile.cluster} names only one of issuer and "
                "client id; have your operator set both, oidc.issuer and oidc.client_id",
                reason="profile_partial",
                fault=Fault.PRECONDITION,
            )
        return cls(
            source=source,
            cluster=profile.cluster,
            issuer=profile.issuer,
            client_id=profile.client_id,
        )


def check_same(told: Iterable[ToldProfile], do: str) -> None:
    """Return if all of these say the same of each cluster.

    Args:
        told: In the order in which they were asked.
        do: What to do where two differ; the rest of the sentence.

    Raises:
        SvcError: ``profile_conflict``, naming both sources and what they say.
    """
    first: dict[str, ToldProfile] = {}
    for one in told:
        before = first.setdefault(one.cluster, one)
        if (one.issuer, one.client_id) != (before.issuer, before.client_id):
            raise SvcError(
                f"two sources say differently where people of {one.cluster} sign in: "
                f"{_words(before)}, {_words(one)}; {do}",
                reason="profile_conflict",
                fault=Fault.PRECONDITION,
            )


def _words(one: ToldProfile) -> str:
    where = f"at {escaped(one.issuer)} as the client {escaped(one.client_id)}"
    return f"{escaped(one.source)} says {where if one.issuer else 'at no provider'}"


@frozen
class KeptProfile:
    """The profile by which somebody signed in from a directory; blocks for the disk."""

    directory: Path

    @property
    def path(self) -> Path:
        """Of the file."""
        return self.directory / PROFILE_FILE

    def read(self) -> ToldProfile | None:
        """What is kept; None: nothing, or nothing that can be read."""
        try:
            with self.path.open("rb") as file:
                found = json.loads(file.read(_MAX_FILE))
            cluster, issuer, client_id = (found[one] for one in ("cluster", "issuer", "client_id"))
        except (OSError, ValueError, KeyError, TypeError):
            return None
        if not all(isinstance(one, str) for one in (cluster, issuer, client_id)):
            return None
        return ToldProfile(
            source=str(self.path), cluster=cluster, issuer=issuer, client_id=client_id
        )

    def check(self, told: ToldProfile) -> None:
        """Return if nothing else is kept of this cluster.

        Raises:
            SvcError: ``profile_conflict``.
        """
        kept = self.read()
        if kept is not None:
            do = f"if your operator changed the provider, remove {self.path} and sign in again"
            check_same((kept, told), do)

    def keep(self, told: ToldProfile) -> None:
        """Keep what was checked: a person is about to be sent to this provider."""
        form = {"cluster": told.cluster, "issuer": told.issuer, "client_id": told.client_id}
        durable.replace(self.path, json.dumps(form, indent=2).encode("ascii") + b"\n")
