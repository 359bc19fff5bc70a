"""Parses a ``postgresql:`` URL, and knows what of it must never be shown.

The URL is libpq's own, so its TLS options and everything else pass through.
What libpq says about a URL it cannot read repeats parts of it, and where a
password holds an unescaped mark these parts are the password's: so the form is
looked at here first, and libpq's words are not passed on.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping
from urllib.parse import quote, unquote

import psycopg2
from attrs import field, frozen
from psycopg2.extensions import parse_dsn

from svc.errors import ConfigError

SCHEME = "postgresql"
_KEY = "store_url"
_SECRET = ("password", "sslpassword")
_ESCAPE = "write the characters @ : / ? # & % in user and password as %40 %3A %2F %3F %23 %26 %25"
_DEFAULTS: Mapping[str, str] = {
    # A server that vanished is noticed within some 20 s even where nothing is waited for.
    "keepalives": "1",
    "keepalives_idle": "10",
    "keepalives_interval": "3",
    "keepalives_count": "3",
    # Also what ends the attempt at a host that swallows packets, so that the next host is tried.
    "tcp_user_timeout": "5000",
}
_NAME_BYTES = 63


@frozen
class DatabasePlace:
    """A database and how it is reached; shows no part of it that could be a secret."""

    parameters: Mapping[str, str] = field(repr=False)

    def connection_parameters(self, purpose: str) -> dict[str, str]:
        """Libpq's parameters for a connection; the server shows *purpose* to other sessions."""
        name = f"svc pid {os.getpid()} on {socket.gethostname()} ({purpose})"
        ours = {"application_name": name[:_NAME_BYTES]}
        return {**_DEFAULTS, **ours, **self.parameters, "client_encoding": "UTF8"}

    def scrub(self, text: str) -> str:
        """The text without any of the place's secrets."""
        for name in _SECRET:
            secret = self.parameters.get(name, "")
            for form in {secret, quote(secret), quote(secret, safe="")} - {""}:
                text = text.replace(form, "***")
        return text


def database_place(url: str) -> DatabasePlace:
    """The database a URL names; looks at its form only.

    Raises:
        ConfigError: the URL is of another form.  No part of it is shown.
    """
    scheme, colon, rest = url.partition("://")
    if not colon or scheme not in (SCHEME, "postgres"):
        raise ConfigError(
            _KEY, "this is not a PostgreSQL URL; write postgresql://user@host/database"
        )
    if not rest.isprintable() or " " in rest:
        raise ConfigError(_KEY, "write blanks and unprintable characters as %20 and so on")
    _look_at(rest)
    try:
        parameters = parse_dsn(f"{SCHEME}://{rest}")
    except (psycopg2.Error, UnicodeError):
        # Neither the text nor its cause: both repeat parts of the URL.
        refusal = "libpq refuses it: a parameter is unknown, or a character is not escaped"
        raise ConfigError(_KEY, f"{refusal}; {_ESCAPE}") from None
    if not any(parameters.get(name) for name in ("host", "hostaddr", "service")):
        raise ConfigError(
            _KEY, "a PostgreSQL URL must name a host; for a Unix socket add ?host=/its/directory"
        )
    if not any(parameters.get(name) for name in ("dbname", "service")):
        raise ConfigError(_KEY, "a PostgreSQL URL must name a database: postgresql://host/database")
    if "replication" in parameters:
        raise ConfigError(_KEY, "the parameter replication is not allowed here")
    return DatabasePlace(parameters)


def _look_at(rest: str) -> None:
    """Refuse what libpq would read otherwise than it was meant."""
    before, _, _ = rest.partition("?")
    authority, _, database = before.partition("/")
    user, _, hosts = authority.rpartition("@")
    # libpq looks for the "@" first: a question mark before it is of the password.
    strays = (user, database, rest.partition("/")[0].partition("?")[2])
    if any("@" in each for each in strays) or user.count(":") > 1:
        raise ConfigError(_KEY, f"a character in user or password is not escaped; {_ESCAPE}")
    for host in hosts.split(","):
        name, colon, port = re.sub(r"\[[0-9A-Fa-f:.%]*\]", "", host).partition(":")
        if not re.fullmatch(r"[\w.\-/]*", unquote(name)) or (colon and not port.isdigit()):
            raise ConfigError(_KEY, f"host or port is malformed; {_ESCAPE}")
