"""As whom a person comes to the cluster: what the Connector's configuration says, and nobody else.

Keys of a resource's table::

    user_prefix = "svc:"                             # before the person's id
    groups = ["svc:people"]                          # of everybody; none of system:
    person_groups = { PERSON_ID = ["svc:oncall"] }   # of single persons, besides
    uid = true                                       # the person's id as the user's uid
    extra = { "example.com/gateway" = ["shop"] }     # of everybody
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import quote

from attrs import field, frozen

from svc.errors import ConfigError
from svc.kinds.web.rewrite import Fields
from svc.model.ids import is_opaque_id

IDENTITY_KEYS = frozenset({"user_prefix", "groups", "person_groups", "uid", "extra"})

_PREFIX = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@\-]{0,63}\Z")
_GROUP = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@\-]{0,127}\Z")
_EXTRA = re.compile(r"[a-z0-9][a-z0-9.\-]{0,63}(?:/[a-z0-9][a-z0-9.\-]{0,63})?\Z")
_VALUE = re.compile(r"[\x21-\x7e]{1,256}\Z")
_MOST_GROUPS = 32
_MOST_PERSONS = 1024
_MOST_EXTRA = 16
_THEIRS = "system:"
_THEIR_EXTRA = re.compile(r"(?:.*\.)?(?:kubernetes|k8s)\.io/")

_DROPPED = frozenset({b"authorization", b"cookie", b"impersonate"})
_DROPPED_BEGINNINGS = (b"impersonate-", b"x-remote-")
_SUBPROTOCOLS = b"sec-websocket-protocol"
_BEARER = b"base64url.bearer.authorization.k8s.io."


@frozen(kw_only=True)
class ClusterIdentities:
    """The users of one cluster, by the persons who they are."""

    user_prefix: str = "svc:"
    groups: tuple[str, ...] = ()
    person_groups: Mapping[str, tuple[str, ...]] = field(factory=dict)
    has_uid: bool = False
    extra: Mapping[str, tuple[str, ...]] = field(factory=dict)

    def fields(self, person_id: str) -> Fields:
        """The header fields that say who asks."""
        groups = dict.fromkeys((*self.groups, *self.person_groups.get(person_id, ())))
        said = [(b"Impersonate-User", f"{self.user_prefix}{person_id}")]
        if self.has_uid:
            said.append((b"Impersonate-Uid", person_id))
        said += [(b"Impersonate-Group", group) for group in groups]
        said += [
            (b"Impersonate-Extra-" + quote(name, safe="").encode("ascii"), value)
            for name, values in self.extra.items()
            for value in values
        ]
        return tuple((name, value.encode("ascii")) for name, value in said)


def read_identities(table: Mapping[str, object], path: str) -> ClusterIdentities:
    """What a resource's table says of them.

    Raises:
        ConfigError: naming the key.
    """
    prefix = table.get("user_prefix", "svc:")
    if not isinstance(prefix, str) or not _PREFIX.match(prefix) or _is_theirs(prefix):
        raise ConfigError(
            f"{path}.user_prefix", "must be a word such as svc: and not begin with system:"
        )
    has_uid = table.get("uid", False)
    if not isinstance(has_uid, bool):
        raise ConfigError(f"{path}.uid", "must be true or false")
    return ClusterIdentities(
        user_prefix=prefix,
        groups=_groups(table.get("groups", ()), f"{path}.groups"),
        person_groups=_person_groups(table.get("person_groups", {}), f"{path}.person_groups"),
        has_uid=has_uid,
        extra=_extra(table.get("extra", {}), f"{path}.extra"),
    )


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


def _groups(given: object, where: str) -> tuple[str, ...]:
    good = _texts(given, _GROUP, _MOST_GROUPS)
    if good is None or any(map(_is_theirs, good)):
        raise ConfigError(
            where,
            f"must be at most {_MOST_GROUPS} names of groups, none of which begins with system:",
        )
    return good


def _person_groups(given: object, where: str) -> dict[str, tuple[str, ...]]:
    if not isinstance(given, Mapping) or len(given) > _MOST_PERSONS:
        raise ConfigError(where, f"must be a table of at most {_MOST_PERSONS} persons")
    if not all(isinstance(name, str) and is_opaque_id(name) for name in given):
        raise ConfigError(where, "must name persons by their ids; see svc authority persons list")
    return {name: _groups(groups, f"{where}.{name}") for name, groups in given.items()}


def _extra(given: object, where: str) -> dict[str, tuple[str, ...]]:
    if not isinstance(given, Mapping) or len(given) > _MOST_EXTRA:
        raise ConfigError(where, f"must be a table of at most {_MOST_EXTRA} names")
    found: dict[str, tuple[str, ...]] = {}
    for name, values in given.items():
        good = _texts(values, _VALUE, _MOST_EXTRA)
        is_name = isinstance(name, str) and _EXTRA.match(name)
        if not is_name or _THEIR_EXTRA.match(name) or good is None:
            raise ConfigError(
                where,
                "must map names such as example.com/gateway, none of kubernetes.io, to lists of "
                "texts without spaces",
            )
        found[name] = good
    return found


def _texts(given: object, form: re.Pattern[str], most: int) -> tuple[str, ...] | None:
    """A list of texts of this form; None where it is something else."""
    if not isinstance(given, list | tuple) or len(given) > most:
        return None
    return tuple(given) if all(isinstance(one, str) and form.match(one) for one in given) else None


def _is_theirs(name: str) -> bool:
    return name.lower().startswith(_THEIRS)
