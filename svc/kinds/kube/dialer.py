r"""At the Connector: how the API server is reached, and as whom a person's requests get there.

Keys of a resource's table::

    address = "10.0.0.1:6443"
    ca_file = "/etc/svc/cluster-ca.pem"
    token_file = "/etc/svc/cluster-token"     # the Connector's own credential
    token_is_mounted = false                  # others may read it: an orchestrator mounted it
    user_prefix = "svc:"                      # before the person's id
    groups = ["svc:people"]                   # the groups of every person; none of system:
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from attrs import evolve, field, frozen
from twisted.internet.interfaces import IReactorTCP, IStreamClientEndpoint
from zope.interface import implementer

from svc.errors import ConfigError, SvcError
from svc.interfaces.kinds import IPersonalDialer
from svc.kinds.address import split_address
from svc.kinds.web.dialer import RequestsEndpoint, WebDialer
from svc.kinds.web.rewrite import ChangeFields, Fields
from svc.model.cluster.target import Target
from svc.runtime.given_file import read_secret

_OWN_KEYS = frozenset({"token_file", "token_is_mounted", "user_prefix", "groups"})
_PREFIX = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@\-]{0,63}\Z")
_GROUP = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@\-]{0,127}\Z")
_MOST_TOKEN = 16384
_TOKEN = re.compile(rb"[A-Za-z0-9._~+/=\-]{1,%d}\Z" % _MOST_TOKEN)
_MOST_GROUPS = 32
_THEIRS = "system:"
_LOOPBACK = ("127.0.0.1", "::1")

_DROPPED = frozenset({b"authorization", b"cookie", b"impersonate"})
_DROPPED_BEGINNINGS = (b"impersonate-", b"x-remote-")
_SUBPROTOCOLS = b"sec-websocket-protocol"
_BEARER = b"base64url.bearer.authorization.k8s.io."


@frozen(kw_only=True)
class Impersonation:
    """Makes a person's requests the Connector's own, in the name of the person.

    Attributes:
        token_file: Of the Connector's credential; read for each connection, since tokens rotate.
        is_mounted: Others may read it.
    """

    token_file: str
    is_mounted: bool
    user: str
    groups: tuple[str, ...]

    def change(self) -> ChangeFields:
        """What becomes of header fields.  Reads the file.

        Raises:
            SvcError: ``no_credential``.
        """
        own = (
            (b"Authorization", b"Bearer " + _token(self.token_file, self.is_mounted)),
            (b"Impersonate-User", self.user.encode("ascii")),
            *((b"Impersonate-Group", group.encode("ascii")) for group in self.groups),
        )
        return lambda fields: (*without_identity(fields), *own)


def without_identity(fields: Fields) -> Fields:
    """What is left when nobody but the Connector says who asks."""
    kept = []
    for name, value in fields:
        lower = name.lower()
        if lower in _DROPPED or lower.startswith(_DROPPED_BEGINNINGS):
            continue
        if lower == _SUBPROTOCOLS:
            value = _without_bearer(value)
            if not value:
                continue
        kept.append((name, value))
    return tuple(kept)


def _without_bearer(value: bytes) -> bytes:
    offered = [one.strip() for one in value.split(b",")]
    return b", ".join(one for one in offered if one and not one.lower().startswith(_BEARER))


def _token(path: str, is_mounted: bool) -> bytes:
    try:
        found = read_secret(Path(path), _MOST_TOKEN + 2, mounted=is_mounted).strip()
    except OSError as error:
        raise SvcError(f"{path}: {error.strerror}", reason="no_credential") from None
    if not _TOKEN.match(found):
        raise SvcError(f"{path} does not hold one bearer token", reason="no_credential")
    return found


@implementer(IPersonalDialer)
@frozen(kw_only=True)
class KubeDialer(WebDialer):
    """Reaches an API server, and impersonates.

    Attributes:
        person_id: Whose sessions it dials; empty: nobody's, and it dials none.
    """

    person_id: str = field(default="")

    def of(self, person_id: str) -> KubeDialer:
        """See IPersonalDialer."""
        return evolve(self, person_id=person_id)

    def parse(self, resource_id: str, table: Mapping[str, object], path: str) -> Target:
        """A target with its credential by reference, and as whom people come there."""
        rest = {key: value for key, value in table.items() if key not in _OWN_KEYS}
        tls = {"tls": "verify", **rest}
        target = super().parse(resource_id, tls, path)
        if target.options["tls"] != "verify" and not _is_loopback(target.address):
            raise ConfigError(f"{path}.tls", "may be off only for 127.0.0.1 and ::1")
        token_file = table.get("token_file")
        if not isinstance(token_file, str) or not token_file.startswith("/"):
            raise ConfigError(f"{path}.token_file", "must be the whole path of a bearer token")
        is_mounted = table.get("token_is_mounted", False)
        if not isinstance(is_mounted, bool):
            raise ConfigError(f"{path}.token_is_mounted", "must be true or false")
        prefix = table.get("user_prefix", "svc:")
        if not isinstance(prefix, str) or not _PREFIX.match(prefix) or _is_theirs(prefix):
            raise ConfigError(
                f"{path}.user_prefix", "must be a word such as svc: and not begin with system:"
            )
        groups = _groups(table, path)
        options = {
            "token_file": token_file,
            "token_is_mounted": is_mounted,
            "user_prefix": prefix,
            "groups": groups,
        }
        return evolve(target, options={**target.options, **options})

    def endpoint(
        self, reactor: IReactorTCP, target: Target, ceiling: Mapping[str, str]
    ) -> IStreamClientEndpoint:
        """Every request goes in the person's name, under the Connector's credential."""
        if not self.person_id:
            raise SvcError("nobody is named whose session this is", reason="no_credential")
        below = super().endpoint(reactor, target, ceiling)
        assert isinstance(below, RequestsEndpoint)
        groups = target.options["groups"]
        assert isinstance(groups, tuple)
        acting = Impersonation(
            token_file=str(target.options["token_file"]),
            is_mounted=bool(target.options["token_is_mounted"]),
            user=f"{target.options['user_prefix']}{self.person_id}",
            groups=groups,
        )
        return evolve(below, change=acting.change)


def _groups(table: Mapping[str, object], path: str) -> tuple[str, ...]:
    groups = table.get("groups", [])
    is_good = isinstance(groups, list | tuple) and len(groups) <= _MOST_GROUPS
    if not is_good or not all(
        isinstance(one, str) and _GROUP.match(one) and not _is_theirs(one)
        for one in groups  # type: ignore[attr-defined]
    ):
        raise ConfigError(
            f"{path}.groups",
            f"must be at most {_MOST_GROUPS} names of groups, none of which begins with system:",
        )
    return tuple(groups)  # type: ignore[arg-type]


def _is_theirs(name: str) -> bool:
    return name.lower().startswith(_THEIRS)


def _is_loopback(address: str) -> bool:
    return split_address(address)[0] in _LOOPBACK


DIALER = KubeDialer(kind="kube", default_port=443)
