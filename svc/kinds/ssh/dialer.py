"""At the Connector: reaches an SSH host, as bytes or with SSH ended here.

A table of ``[[connector.resources]]`` of this kind::

    address = "web1.internal:22"
    onward = "stored_key"                        # or "certificate"; else "passthrough"
    host_keys = ["ssh-ed25519 AAAA…"]            # what the host may show: its files /etc/ssh/*.pub
    key_files = { deploy = "/etc/svc/web1/deploy" }     # of stored_key: one for each account
    gate_key_file = "/etc/svc/gate_key"          # what clients are shown; else one of this start
    record = "best_effort"                       # or "off"; "required", where it is left out
    record_input = true                          # what is typed as well, passwords with it
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from attrs import evolve, field, frozen
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from twisted.internet.interfaces import IReactorTCP, IStreamClientEndpoint
from zope.interface import implementer

from svc.errors import ConfigError, SvcError
from svc.interfaces.kinds import IEndingDialer, Use, not_counted
from svc.interfaces.recordings import NO_RECORDER, IRecorder
from svc.kinds.address import read_address, refuse_unknown, split_address
from svc.kinds.opaque import AddressDialer
from svc.kinds.ssh.rights import LOGIN_USER, SessionRights
from svc.kinds.ssh.terms import NAME
from svc.model.cluster.onward import OnwardAuth
from svc.model.cluster.target import Target
from svc.model.session.onward import OnwardCredential
from svc.runtime.given_file import read_given

CERTIFICATE, PASSTHROUGH, STORED_KEY = (one.value for one in OnwardAuth)

RECORD = ("required", "best_effort", "off")
_CERTIFICATE_KEYS = frozenset({"host_keys", "gate_key_file", "record", "record_input"})
_GATE_KEYS = _CERTIFICATE_KEYS | {"key_files"}
_READ_BY = {
    CERTIFICATE: _CERTIFICATE_KEYS,
    PASSTHROUGH: frozenset[str](),
    STORED_KEY: _GATE_KEYS,
}
_MOST_KEY_BYTES = 16384
_MOST_HOST_KEYS = 16
_HOST_KEY = re.compile(r"([a-z0-9@.-]{1,40}) ([A-Za-z0-9+/]{1,1400}={0,2})(?: .*)?")
_HOST_KEY_TYPES = frozenset(
    {
        "ssh-ed25519",
        "ecdsa-sha2-nistp256",
        "ecdsa-sha2-nistp384",
        "ecdsa-sha2-nistp521",
        "ssh-rsa",
    }
)


@implementer(IEndingDialer)
@frozen(kw_only=True)
class SshTargets(AddressDialer):
    """Reaches hosts.

    Attributes:
        rights: Of the one session that it dials, and the decision's id; None: of none that ends
            here.
        use: Told what that session does with them.
        recorder: Records that session.
        credential: What Authority gave for that session to log in with; None: nothing.
    """

    enforces: frozenset[str] = frozenset({LOGIN_USER})
    rights: tuple[frozenset[str], str] | None = None
    use: Use = not_counted
    recorder: IRecorder = NO_RECORDER
    credential: OnwardCredential | None = None
    made_key: Any = field(factory=Ed25519PrivateKey.generate, repr=False)

    def ends(self, target: Target) -> bool:
        """See IEndingDialer."""
        return target.options.get("onward") in (CERTIFICATE, STORED_KEY)

    def ending(
        self,
        rights: frozenset[str],
        decision_id: str,
        use: Use,
        recorder: IRecorder = NO_RECORDER,
        credential: OnwardCredential | None = None,
    ) -> SshTargets:
        """See IEndingDialer."""
        return evolve(
            self, rights=(rights, decision_id), use=use, recorder=recorder, credential=credential
        )

    def parse(self, resource_id: str, table: Mapping[str, object], path: str) -> Target:
        """A host, and how the Connector logs in there, if it does."""
        address = read_address(table, path, self.default_port)
        onward = table.get("onward", PASSTHROUGH)
        if not isinstance(onward, str) or onward not in _READ_BY:
            raise ConfigError(f"{path}.onward", f"must be one of {', '.join(_READ_BY)}")
        for name in sorted((_GATE_KEYS - _READ_BY[onward]) & set(table)):
            ways = " or ".join(f'"{way}"' for way, keys in _READ_BY.items() if name in keys)
            raise ConfigError(f"{path}.{name}", f"is read only where onward = {ways}")
        refuse_unknown(table, _GATE_KEYS | {"address", "onward"}, path)
        if onward == PASSTHROUGH:
            return Target(resource_id, self.kind, address)
        options: dict[str, object] = {
            "onward": onward,
            "host_keys": _host_keys(table, path),
            "key_files": _key_files(table, path) if onward == STORED_KEY else {},
            "gate_key_file": _path(table, "gate_key_file", path),
            "record": _record(table, path),
            "record_input": _record_input(table, path),
        }
        return Target(id=resource_id, kind=self.kind, address=address, options=options)

    def endpoint(
        self, reactor: IReactorTCP, target: Target, ceiling: Mapping[str, str]
    ) -> IStreamClientEndpoint:
        """Plain TCP; where SSH ends here, the login and the gate above it."""
        below = super().endpoint(reactor, target, ceiling)
        if not self.ends(target):
            return below
        if self.rights is None:
            raise SvcError("nobody has decided what this session may do", reason="no_credential")
        allowed, decision_id = self.rights
        return _gate(
            self,
            recorder=self.recorder,
            below=below,
            target=target,
            reactor=reactor,
            rights=SessionRights(ceiling[LOGIN_USER], allowed, decision_id),
        )


def _gate(
    targets: SshTargets,
    *,
    recorder: IRecorder,
    below: Any,
    target: Target,
    reactor: Any,
    rights: SessionRights,
) -> IStreamClientEndpoint:
    # Conch is loaded where a session needs it, and by nobody else.
    from twisted.conch.ssh.keys import Key

    from svc.kinds.ssh.gate import GateEndpoint
    from svc.kinds.ssh.recorded.session import RecordedSession, RecordMode, mode_of

    options: Mapping[str, Any] = target.options
    file = options["gate_key_file"]
    return GateEndpoint(
        below=below,
        login=partial(_login, options, rights.login_user, targets.credential),
        rights=rights,
        host_key=_read_key(file) if file else Key(targets.made_key),
        target_port=split_address(target.address)[1],
        use=targets.use,
        recorded=RecordedSession(
            recorder=recorder,
            mode=mode_of(RecordMode(options["record"]), rights),
            title=f"ssh {rights.login_user}@{target.id}",
            records_input=options["record_input"],
            use=targets.use,
            clock=reactor,
        ),
        clock=reactor,
    )


def _login(options: Mapping[str, Any], user: str, credential: OnwardCredential | None) -> Any:
    from twisted.conch.ssh.keys import Key

    from svc.kinds.ssh.login import TargetLogin, is_certified

    mode = options["onward"]
    if (mode == CERTIFICATE) is (credential is None):
        raise SvcError(
            f"onward is {mode} here, and the catalog says otherwise; make both the same: the key "
            "onward here, and --onward-auth of `svc authority resources set`",
            reason="ceiling_unenforced",
        )
    keys = tuple(Key.fromString(line.encode("ascii")) for line in options["host_keys"])
    if credential is not None:
        if not is_certified(credential.key, credential.certificate):
            raise SvcError(
                "the certificate is for another process of this Connector; try again",
                reason="no_credential",
            )
        return TargetLogin(
            user=user,
            key=Key(credential.key),
            host_keys=keys,
            certificate=credential.certificate,
        )
    path = options["key_files"].get(user)
    if path is None:
        raise SvcError(f"key_files has no file for the account {user}", reason="no_credential")
    return TargetLogin(user=user, key=_read_key(path), host_keys=keys)


def _read_key(path: str) -> Any:
    """A private key as ssh-keygen writes it, without a passphrase.

    Raises:
        SvcError: ``no_credential``; the operator is told the file, and nobody what is in it.
    """
    from twisted.conch.ssh.keys import BadKeyError, EncryptedKeyError, Key

    try:
        data = read_given(Path(path), _MOST_KEY_BYTES, private=True)
    except OSError as error:
        raise SvcError(f"{path}: {error.strerror}", reason="no_credential") from None
    try:
        key = Key.fromString(data)
    except EncryptedKeyError:
        raise SvcError(f"{path}: the key has a passphrase", reason="no_credential") from None
    except (BadKeyError, ValueError, IndexError, KeyError):
        raise SvcError(f"{path} does not hold a private key", reason="no_credential") from None
    if key.isPublic():
        raise SvcError(f"{path} holds a public key only", reason="no_credential")
    return key


def _host_keys(table: Mapping[str, object], path: str) -> tuple[str, ...]:
    where, value = f"{path}.host_keys", table.get("host_keys")
    if not isinstance(value, list) or not 0 < len(value) <= _MOST_HOST_KEYS:
        raise ConfigError(where, "required: the public host keys of the target, each a string")
    found = []
    for line in value:
        key = _HOST_KEY.fullmatch(line.strip()) if isinstance(line, str) else None
        if key is None or key[1] not in _HOST_KEY_TYPES:
            types = ", ".join(sorted(_HOST_KEY_TYPES))
            raise ConfigError(
                where, f"each is a type ({types}), a space and the key, as in /etc/ssh/*.pub"
            )
        found.append(f"{key[1]} {key[2]}")
    return tuple(found)


def _key_files(table: Mapping[str, object], path: str) -> Mapping[str, str]:
    where, value = f"{path}.key_files", table.get("key_files")
    if not isinstance(value, Mapping) or not value:
        raise ConfigError(where, "required: a table of accounts: account = file of its private key")
    for user, file in value.items():
        if not isinstance(user, str) or re.fullmatch(NAME, user) is None:
            raise ConfigError(where, "a key is no account that a person can ask for")
        if not isinstance(file, str) or not os.path.isabs(file):
            raise ConfigError(f"{where}.{user}", "must be the absolute path of a file")
    return dict(value)


def _path(table: Mapping[str, object], name: str, path: str) -> str:
    value = table.get(name, "")
    if not isinstance(value, str) or (name in table and not os.path.isabs(value)):
        raise ConfigError(f"{path}.{name}", "must be the absolute path of a file")
    return value


def _record(table: Mapping[str, object], path: str) -> str:
    value = table.get("record", RECORD[0])
    if value not in RECORD:
        raise ConfigError(f"{path}.record", f"must be one of {', '.join(RECORD)}")
    return str(value)


def _record_input(table: Mapping[str, object], path: str) -> bool:
    value = table.get("record_input", False)
    if not isinstance(value, bool):
        raise ConfigError(f"{path}.record_input", "must be true or false")
    return value


DIALER = SshTargets(kind="ssh", default_port=22)
