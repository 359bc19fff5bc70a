"""At the Connector: reaches a PostgreSQL server, logs in as the grant's role, makes the edits.

A table of ``[[connector.resources]]`` of this kind::

    address = "db1.internal:5432"
    tls = "verify-full"                          # the default; or "off"
    ca_file = "/etc/svc/orders-ca.pem"           # the system's trust, where it is left out
    server_name = "db1.internal"                 # the host of the address, where it is left out
    auth = "scram-sha-256"                       # the default; or "md5", "password", "trust"
    read_only_roles = ["analyst"]
    password_files = { analyst = "/etc/svc/orders/analyst", app = "/etc/svc/orders/app" }

A password is in a file of its own and is read at each login.
"""

from __future__ import annotations

import os
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from hashlib import sha256
from pathlib import Path
from ssl import RAND_bytes
from typing import Any

from attrs import define, evolve, field, frozen
from twisted.internet.interfaces import IReactorTCP, IStreamClientEndpoint
from zope.interface import implementer

from svc.errors import ConfigError, SvcError
from svc.interfaces.kinds import IDialer
from svc.kinds.address import read_address, refuse_unknown, split_address
from svc.kinds.opaque import AddressDialer
from svc.kinds.postgres.login import AUTH_METHODS, LoginEndpoint, LoginPlan
from svc.kinds.postgres.messages import DENIED_WORD, message, text_at
from svc.kinds.postgres.reader import PostgresRequests
from svc.kinds.postgres.reading import READING
from svc.kinds.postgres.scram import salted_password
from svc.kinds.postgres.terms import DATABASE, NAME, ROLE
from svc.kinds.verified_tls import verified_tls
from svc.model.cluster.target import Target
from svc.model.ids import Entropy, random_id
from svc.model.session.edits import MakeEdit
from svc.runtime.given_file import read_given
from svc.runtime.threads import in_pool

KEYS = frozenset(
    {"address", "tls", "ca_file", "server_name", "auth", "read_only_roles", "password_files"}
)
PORT = 5432
MOST_PASSWORD_BYTES = 4096
MOST_CACHED = 256

_DECISION = re.compile(r"[0-9a-f]{32}\Z")
_SETTINGS = {**READING, "application_name": "svc"}
"""What the session's start says besides its role and database."""


def deny(came: bytes, values: Mapping[str, str]) -> bytes:
    """The request with a word in the place of its text, which no server can parse.

    Args:
        came: The message, or its beginning.
    """
    decision = values.get("decision", "")
    if _DECISION.match(decision) is None:
        raise ValueError("no id of a decision")
    word = DENIED_WORD + decision.encode("ascii")
    kind = came[:1]
    if kind in (b"Q", b"F"):
        return message(b"Q", word + b"\0")
    if kind == b"P":
        # As the name's own Parse, which drops an unnamed statement even where it fails.
        name, _ = text_at(came, 5)
        return message(b"P", name + b"\0" + word + b"\0\0\0")
    if kind in (b"B", b"E"):
        # Under a name: without one it would drop the client's unnamed statement.
        return message(b"P", b"svc_denied\0" + word + b"\0\0\0")
    raise ValueError("no request that is denied")


def drop(came: bytes, values: Mapping[str, str]) -> bytes:
    """Nothing: the rest of what was denied, and what a server in failure would read past."""
    return b""


def unknown(came: bytes, values: Mapping[str, str]) -> bytes:
    """A Bind to a statement that the server does not know, since the gate does not."""
    if came[:1] != b"B":
        raise ValueError("no Bind")
    return message(b"B", b"\0svc_unknown\0" + bytes(6))


@define(eq=False)
class SaltedPasswords:
    """The newest salted passwords, by a digest of what they were made of."""

    _kept: OrderedDict[bytes, bytes] = field(factory=OrderedDict)

    async def salted(
        self,
        in_thread: Callable[[Callable[[], bytes]], Awaitable[bytes]],
        password: bytes,
        salt: bytes,
        iterations: int,
    ) -> bytes:
        """The salted password; computed once, away from the reactor."""
        key = sha256(b"%d\0%d\0%s%s" % (iterations, len(salt), salt, password)).digest()
        found = self._kept.get(key)
        if found is None:
            found = await in_thread(lambda: salted_password(password, salt, iterations))
            self._kept[key] = found
            if len(self._kept) > MOST_CACHED:
                self._kept.popitem(last=False)
        return found


@implementer(IDialer)
@frozen(kw_only=True)
class PostgresTargets(AddressDialer):
    """Logs in, and makes the closed list of edits of requests."""

    edits: Mapping[str, MakeEdit] = field(
        factory=lambda: {"deny": deny, "drop": drop, "unknown": unknown}
    )
    enforces: frozenset[str] = frozenset({DATABASE, ROLE})
    requests: type[PostgresRequests] = PostgresRequests
    passwords: SaltedPasswords = field(factory=SaltedPasswords)
    entropy: Entropy = RAND_bytes

    def parse(self, resource_id: str, table: Mapping[str, object], path: str) -> Target:
        """A server, how its certificate is checked, and where the roles' passwords are."""
        address = read_address(table, path, self.default_port)
        refuse_unknown(table, KEYS, path)
        tls = _choice(table, "tls", ("verify-full", "off"), path)
        auth = _choice(table, "auth", AUTH_METHODS, path)
        options: dict[str, object] = {
            "tls": tls,
            "auth": auth,
            "ca_file": _file(table, "ca_file", path),
            "server_name": _text(table, "server_name", path) or split_address(address)[0],
            "read_only_roles": _roles(table, path),
            "password_files": _password_files(table, path),
        }
        if tls == "off" and (options["ca_file"] or "server_name" in table):
            raise ConfigError(f"{path}.tls", "ca_file and server_name mean nothing without TLS")
        if auth == "password" and tls == "off":
            raise ConfigError(f"{path}.auth", "a password in clear text needs tls = verify-full")
        return Target(id=resource_id, kind=self.kind, address=address, options=options)

    def endpoint(
        self, reactor: IReactorTCP, target: Target, ceiling: Mapping[str, str]
    ) -> IStreamClientEndpoint:
        """Plain TCP or TLS, then the login as the ceiling's role at its database."""
        options: Mapping[str, Any] = target.options
        role, database = ceiling[ROLE], ceiling[DATABASE]
        settings = {"user": role, "database": database, **_SETTINGS}
        if role in options["read_only_roles"]:
            settings["default_transaction_read_only"] = "on"
        plan = LoginPlan(
            settings=settings,
            auth=options["auth"],
            password=partial(read_password, options["password_files"].get(role)),
            salted=partial(self.passwords.salted, in_pool(reactor)),
            nonce=lambda: random_id(self.entropy),
        )
        if options["tls"] != "off":
            plan = evolve(plan, tls=partial(_secure, options["server_name"], options["ca_file"]))
        return LoginEndpoint(below=super().endpoint(reactor, target, ceiling), plan=plan)


def _secure(server_name: str, ca_file: str, transport: Any) -> None:
    """Start TLS on a connected transport, which is lost where the server does not prove itself."""
    transport.startTLS(verified_tls(server_name, ca_file, b"postgresql"))


def read_password(path: str | None) -> bytes:
    """The password in a file, without the end of its line.

    Raises:
        SvcError: ``no_credential``; the operator is told the file, and nobody what is in it.
    """
    if path is None:
        raise SvcError("password_files has no file for this role", reason="no_credential")
    try:
        password = read_given(Path(path), MOST_PASSWORD_BYTES, private=True)
    except OSError as error:
        raise SvcError(f"{path}: {error.strerror}", reason="no_credential") from None
    password = password.removesuffix(b"\n").removesuffix(b"\r")
    if not password or len(password) > MOST_PASSWORD_BYTES or b"\0" in password:
        raise SvcError(f"{path} does not hold one password", reason="no_credential")
    return password


def _text(table: Mapping[str, object], name: str, path: str) -> str:
    value = table.get(name, "")
    if not isinstance(value, str) or (name in table and not value):
        raise ConfigError(f"{path}.{name}", "must be a string that is not empty")
    return value


def _choice(table: Mapping[str, object], name: str, choices: tuple[str, ...], path: str) -> str:
    value = _text(table, name, path) or choices[0]
    if value not in choices:
        raise ConfigError(f"{path}.{name}", f"must be one of {', '.join(choices)}")
    return value


def _file(table: Mapping[str, object], name: str, path: str) -> str:
    value = _text(table, name, path)
    if value and not os.path.isabs(value):
        raise ConfigError(f"{path}.{name}", "must be the absolute path of a file")
    return value


def _roles(table: Mapping[str, object], path: str) -> frozenset[str]:
    value = table.get("read_only_roles", [])
    if not isinstance(value, list) or not all(_is_role(role) for role in value):
        raise ConfigError(f"{path}.read_only_roles", "must be a list of database roles")
    return frozenset(value)


def _password_files(table: Mapping[str, object], path: str) -> Mapping[str, str]:
    where = f"{path}.password_files"
    value = table.get("password_files", {})
    if not isinstance(value, Mapping):
        raise ConfigError(where, "must be a table: role = file")
    for role, file in value.items():
        if not _is_role(role):
            raise ConfigError(where, "a key is no database role that a person can ask for")
        if not isinstance(file, str) or not os.path.isabs(file):
            raise ConfigError(f"{where}.{role}", "must be the absolute path of a file")
    return dict(value)


def _is_role(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(NAME, value) is not None


DIALER = PostgresTargets(kind="postgres", default_port=PORT)
