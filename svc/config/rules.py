"""Rules that need more than one key, or the role, or the process's surroundings.

They read the tree as it was written, so they hold whatever else is wrong.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from posixpath import normpath
from urllib.parse import parse_qsl

from svc.config.forms import parse_address
from svc.config.keys import KEYS, NODES
from svc.config.problems import SharedStateDir
from svc.config.source import Tree
from svc.errors import ConfigError
from svc.model.host import is_every_address

SHARED = "/var/lib/svc"


def lookup(tree: Tree, path: str) -> object:
    """The value at a dotted path, or None."""
    found: object = tree
    for part in path.split("."):
        if not isinstance(found, dict):
            return None
        found = found.get(part)
    return found


def check(
    tree: Tree, role: str, environ: Mapping[str, str], origin: Mapping[str, str]
) -> Iterator[ConfigError]:
    """Every refusal of these rules; *origin* says which variable set which path."""
    yield from _required(tree, role)
    yield from _together(tree, "oidc.issuer", "oidc.client_id")
    yield from _client(tree)
    yield from _together(tree, "proxy.tls.cert", "proxy.tls.key")
    yield from _joining(tree)
    yield from _public(tree)
    yield from _peers(tree)
    yield from _page(tree)
    yield from _passkeys(tree)
    yield from _timing(tree)
    yield from _store(tree)
    if "store_url" not in origin:
        yield from _store_secret(tree)
    yield from _state_dir(tree, role, environ)


def _required(tree: Tree, role: str) -> Iterator[ConfigError]:
    for key in KEYS:
        if role in key.required and lookup(tree, key.path) in (None, "", []):
            yield ConfigError(key.path, f"required for {role}")


def _peers(tree: Tree) -> Iterator[ConfigError]:
    listen, address = lookup(tree, "endpoints.peer_listen"), lookup(tree, "endpoints.peer_address")
    if not listen:
        if address is not None:
            yield ConfigError("endpoints.peer_listen", "required with endpoints.peer_address")
        return
    if lookup(tree, "proxy.public_plaintext") is True:
        yield ConfigError(
            "endpoints.peer_listen",
            "must be empty with proxy.public_plaintext: such a Proxy has no sessions to relay",
        )
    try:
        host = parse_address(str(listen), lowest_port=0).host
    except ValueError:
        return  # which is refused already
    if address is None and is_every_address(host):
        yield ConfigError(
            "endpoints.peer_address",
            "required where endpoints.peer_listen is every address of the machine: other Proxies "
            "must be told one address to dial",
        )


def _together(tree: Tree, first: str, second: str) -> Iterator[ConfigError]:
    for here, there in ((first, second), (second, first)):
        if lookup(tree, here) is not None and lookup(tree, there) is None:
            yield ConfigError(there, f"required with {here}; give both or neither")


def _client(tree: Tree) -> Iterator[ConfigError]:
    client = lookup(tree, "oidc.client_id")
    if client is not None and client == lookup(tree, "cluster"):
        yield ConfigError(
            "oidc.client_id",
            "must not be the cluster's name, which machines' tokens are for; register another name",
        )


def _joining(tree: Tree) -> Iterator[ConfigError]:
    if lookup(tree, "join.token_file") is not None and lookup(tree, "join.ca_pin") is None:
        yield ConfigError("join.ca_pin", "required with join.token_file")
    if lookup(tree, "join.by_key") is True:
        if lookup(tree, "join.ca_pin") is None:
            yield ConfigError("join.ca_pin", "required with join.by_key")
        if lookup(tree, "join.token_file") is not None:
            yield ConfigError(
                "join.by_key", "a node joins either by its key or by a token; give only one"
            )


def _public(tree: Tree) -> Iterator[ConfigError]:
    plaintext = lookup(tree, "proxy.public_plaintext") is True
    if plaintext and lookup(tree, "proxy.tls.cert") is not None:
        yield ConfigError("proxy.public_plaintext", "excludes [proxy.tls]")


def _page(tree: Tree) -> Iterator[ConfigError]:
    """The last hop to the page is plain HTTP with a credential in it: it stays on the machine."""
    listen = lookup(tree, "page.listen")
    try:
        is_local = not isinstance(listen, str) or not listen or parse_address(listen, 0).is_loopback
    except ValueError:
        return  # the form says what is wrong
    if not is_local:
        yield ConfigError("page.listen", "must be a loopback address, such as 127.0.0.1:7405")


_PASSKEYS = "accounts.passkeys"


def _passkeys(tree: Tree) -> Iterator[ConfigError]:
    """All of the listener, or nothing of it."""
    paths = [f"{_PASSKEYS}.{name}" for name in ("public_name", "listen", "cert", "key")]
    given = [path for path in paths if lookup(tree, path) not in (None, "")]
    if given:
        for path in paths:
            if path not in given:
                yield ConfigError(path, f"required with {given[0]}")


_SHORTER = (
    ("tunnel.lease_renew_secs", "tunnel.lease_secs"),
    ("tunnel.backoff_first_secs", "tunnel.backoff_max_secs"),
    ("snapshot.heartbeat_secs", "snapshot.valid_secs"),
)


def _timing(tree: Tree) -> Iterator[ConfigError]:
    defaults = {key.path: key.default for key in KEYS}
    for shorter, longer in _SHORTER:
        short = lookup(tree, shorter) or defaults[shorter]
        long = lookup(tree, longer) or defaults[longer]
        if isinstance(short, int | float) and isinstance(long, int | float) and short > long:
            yield ConfigError(shorter, f"must not be longer than {longer}")


def _store(tree: Tree) -> Iterator[ConfigError]:
    """Installed is not enabled: the URL names a store that the configuration names too."""
    url, stores = lookup(tree, "store_url"), lookup(tree, "plugins.stores")
    if not isinstance(url, str) or "://" not in url:
        return
    scheme = url.partition("://")[0]
    if stores is None:
        stores = next(key.default for key in KEYS if key.path == "plugins.stores")
    word = "postgresql" if scheme == "postgres" else scheme
    if isinstance(stores, list) and word not in stores:
        known = word in ("sqlite", "postgresql")
        what = (
            f'write plugins.stores = ["{word}"]'
            if known
            else "the store is not listed in plugins.stores"
        )
        yield ConfigError("store_url", what if known else f"unknown scheme: {what}")


_SECRETS = ("password", "sslpassword", "oauth_client_secret", "scram_client_key")


def _store_secret(tree: Tree) -> Iterator[ConfigError]:
    """A configuration is copied, shown and kept in version control; a password in it is too."""
    url = lookup(tree, "store_url")
    if not isinstance(url, str) or not _holds_secret(url):
        return
    whole = "set the whole URL in SVC_STORE_URL"
    if url.startswith(("postgres:", "postgresql:")):
        whole = f"name libpq's password file with ?passfile=/its/path, or {whole}"
    yield ConfigError("store_url", f"must not hold a password; {whole}")


def _holds_secret(url: str) -> bool:
    """Whether a URL carries a password beside its user or among its parameters."""
    rest = url.partition("://")[2]
    # To libpq a question mark before the "@" is of the password, and begins no parameters.
    user, _, _ = rest.partition("/")[0].rpartition("@")
    if user.partition(":")[2]:
        return True
    parameters = rest.partition("?")[2]
    return any(name in _SECRETS for name, value in parse_qsl(parameters) if value)


def _state_dir(tree: Tree, role: str, environ: Mapping[str, str]) -> Iterator[ConfigError]:
    """The directory is the role's alone; under a unit, the one the unit gives."""
    given = [normpath(path) for path in environ.get("STATE_DIRECTORY", "").split(":") if path]
    if SHARED in given:
        yield SharedStateDir(
            "STATE_DIRECTORY",
            f"the systemd unit provides the shared {SHARED}; run `svc --config FILE service "
            f"install {role}` as root, which writes a unit that provides {SHARED}/{role}",
        )
    path = lookup(tree, "state_dir")
    if not isinstance(path, str) or not path.startswith("/"):
        return
    path = normpath(path)
    if os.path.islink(path):
        yield ConfigError("state_dir", "must not be a symbolic link")
    elif given and SHARED not in given and path not in given:
        yield ConfigError(
            "state_dir", "must be the directory that the systemd unit provides (StateDirectory=)"
        )
    elif given and SHARED not in given and role in NODES and not is_own_directory(role, path):
        yield ConfigError(
            "state_dir",
            f"under a systemd unit, must be {SHARED}/{role} or a directory below it; stop the "
            f"role, move the directory there, and run `svc --config FILE service install {role}` "
            "as root",
        )


def is_own_directory(role: str, path: str) -> bool:
    """Whether a unit may provide it: the role's own below the shared one, or one below that.

    By its name, and once links are followed.
    """
    path, own = normpath(path), f"{SHARED}/{role}"
    real, place = os.path.realpath(path), os.path.join(os.path.realpath(SHARED), role)
    return _is_within(path, own) and _is_within(real, place)


def _is_within(path: str, directory: str) -> bool:
    return path == directory or path.startswith(f"{directory}/")
