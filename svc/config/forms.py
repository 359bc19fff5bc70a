"""The types of configuration values, and their checks.

A check takes what TOML gave (its type already right) and returns the final
value or raises ValueError with a sentence that never holds the value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from ipaddress import ip_network
from posixpath import isabs, normpath
from types import MappingProxyType
from typing import Any
from urllib.parse import SplitResult, urlsplit

from attrs import frozen

from svc.config.discovery import read_scopes, read_sources
from svc.config.values import Address, ResourceTable, StoreUrl
from svc.model.host import read_host
from svc.model.ids import is_cluster_name, is_resource_id

_WORD = re.compile(r"[a-z][a-z0-9_]{0,39}\Z")
MAX_WITNESSES = 8
_PIN = re.compile(r"(?:sha256:)?([0-9a-f]{64})\Z", re.IGNORECASE)


@frozen
class Form:
    """One form: its words for a person, its TOML type, and its check."""

    words: str
    toml: Any
    check: Callable[[Any], Any]


def _same(value: object) -> object:
    return value


def _clean(text: str) -> str:
    if any(ord(mark) < 32 or ord(mark) == 127 for mark in text):
        raise ValueError("control characters are not allowed")
    return text


def _profile(text: str) -> str:
    if not 0 < len(text) <= 256:
        raise ValueError("must have 1 to 256 characters")
    if "\0" in text or any("\ud800" <= mark <= "\udfff" for mark in text):
        raise ValueError("NUL is not allowed")
    return text


def _cluster(text: str) -> str:
    if not is_cluster_name(text):
        raise ValueError("must be a DNS name in lower case, such as gate.example.org")
    return text


def parse_address(text: str, lowest_port: int = 1) -> Address:
    """``host:port``, with brackets around an IPv6 host.

    Raises:
        ValueError: with a sentence that does not repeat *text*.
    """
    host, colon, port = text.rpartition(":")
    if not colon or not host:
        raise ValueError("must be host:port, such as 127.0.0.1:7443 or [::1]:7443")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
        if ":" not in host:
            raise ValueError("brackets are for IPv6 addresses")
    elif ":" in host:
        raise ValueError("an IPv6 address needs brackets, such as [::1]:7443")
    if not (port.isascii() and port.isdigit() and lowest_port <= int(port[:6]) <= 65535):
        raise ValueError(f"the port must be a number from {lowest_port} to 65535")
    return Address(read_host(host), int(port))


def _listen(text: str) -> Address | None:
    return parse_address(text, lowest_port=0) if text else None


def _dials(texts: list[str]) -> tuple[Address, ...]:
    found = tuple(parse_address(text) for text in texts)
    if len(set(found)) != len(found):
        raise ValueError("an address is listed twice")
    return found


def _names(texts: list[str]) -> tuple[str, ...]:
    return tuple(read_host(text) for text in texts)


def _name(text: str) -> str:
    if not is_resource_id(text):
        raise ValueError("must be one DNS label: a-z, 0-9 and -, at most 63")
    return text


MAX_PEERS = 16
"""More Authorities on one store than anybody runs."""


def _peers(table: dict[str, str]) -> Mapping[str, Address]:
    if len(table) > MAX_PEERS:
        raise ValueError(f"more than {MAX_PEERS} Authorities")
    for name in table:
        if not is_resource_id(name):
            raise ValueError("each name must be one DNS label: a-z, 0-9 and -, at most 63")
    found = {name: parse_address(text) for name, text in table.items()}
    if len(set(found.values())) != len(found):
        raise ValueError("an address is listed twice")
    return found


def _directory(text: str) -> str:
    if not isabs(_clean(text)) or _tidy(text) == "/":
        raise ValueError("must be an absolute path of a directory of its own")
    if ".." in text.split("/"):
        raise ValueError("must not contain ..")
    return _tidy(text)


def _tidy(path: str) -> str:
    """Without doubled slashes, the two at the front included."""
    return f"/{normpath(path).lstrip('/')}"


def _path(text: str) -> str:
    if not isabs(_clean(text)):
        raise ValueError("must be an absolute path (~ is not expanded)")
    return text


_SCHEME = re.compile(r"[a-z][a-z0-9_]{0,39}")


def parse_store_url(text: str) -> StoreUrl:
    """The store's scheme and the rest; the text may hold a password and is never repeated."""
    scheme, mark, rest = text.partition("://")
    if not mark:
        raise ValueError("must be a URL such as sqlite:///var/lib/svc/authority/store.db")
    if not _SCHEME.fullmatch(scheme):
        raise ValueError("the scheme must be the name of a store drop-in")
    if scheme in ("postgres", "postgresql"):
        names_host = re.search(r"[?&](host|hostaddr|service)=[^&]", rest)
        if not names_host and not urlsplit(f"postgres://{rest}").netloc.rpartition("@")[2]:
            raise ValueError("a postgres URL must name a host")
        return StoreUrl("postgresql", rest)
    if scheme != "sqlite":
        return StoreUrl(scheme, rest)  # of somebody else's store, which checks it
    if not isabs(_clean(rest)) or rest.endswith("/") or "?" in rest or "#" in rest:
        raise ValueError("must be sqlite:// and the absolute path of a file")
    return StoreUrl(scheme, _tidy(rest))


def _web_url(text: str, *schemes: str) -> SplitResult:
    """A URL of a server that holds no secret and nothing but a place."""
    if not text.isascii() or any(ord(mark) <= 32 or ord(mark) == 127 for mark in text):
        raise ValueError("must be a URL without blanks, line breaks or non-ASCII characters")
    try:
        url = urlsplit(text)
        port = url.port
    except ValueError:
        raise ValueError("the host or port of the URL is malformed") from None
    if url.scheme not in schemes or not text.lower().startswith(f"{url.scheme}://"):
        raise ValueError(f"must be an absolute {' or '.join(f'{each}://' for each in schemes)} URL")
    if url.username is not None or url.password is not None or "@" in url.netloc:
        raise ValueError("user information in the URL is not allowed")
    if not url.hostname or port == 0:
        raise ValueError("the URL must name a host")
    read_host(url.hostname)
    if url.query or url.fragment:
        raise ValueError("query and fragment are not allowed")
    return url


def parse_otel_endpoint(text: str) -> str:
    """The URL that spans are posted to: ``/v1/traces`` is added unless it is there.

    Raises:
        ValueError: with a sentence that does not repeat *text*.
    """
    url = _web_url(text, "http", "https")
    path = url.path.rstrip("/")
    return f"{url.scheme}://{url.netloc}{path.removesuffix('/v1/traces')}/v1/traces"


def _witnesses(texts: list[str]) -> tuple[str, ...]:
    found = tuple(_witness(text) for text in texts)
    if len(found) > MAX_WITNESSES:
        raise ValueError(f"must hold at most {MAX_WITNESSES}")
    if len(set(found)) != len(found):
        raise ValueError("a URL is listed twice")
    return found


def _witness(text: str) -> str:
    scheme, split, rest = _clean(text).partition("://")
    if scheme == "file" and split:
        if not text.isascii() or not isabs(rest) or rest.endswith("/") or set(rest) & set("?#% "):
            raise ValueError("must hold file:// and the absolute path of a file")
        return f"file://{_tidy(rest)}"
    if scheme != "https" or not split:
        raise ValueError("must hold file:// or https:// URLs")
    _web_url(text, "https")
    return text


def _pin(text: str) -> str:
    found = _PIN.match(text)
    if found is None:
        raise ValueError("must be the SHA-256 of the cluster root: 64 hex digits")
    return found[1].lower()


def _reach(texts: list[str]) -> tuple[str, ...]:
    return tuple(_reachable(text) for text in texts)


def _reachable(text: str) -> str:
    try:
        return ip_network(text, strict=True).compressed
    except ValueError:
        pass
    raise ValueError("must contain IP addresses, or networks (10.1.0.0/16) with no host bits set")


def _words(texts: list[str]) -> tuple[str, ...]:
    if not all(_WORD.match(text) for text in texts):
        raise ValueError("each must be a drop-in's name: a-z, 0-9 and _, starting with a letter")
    if len(set(texts)) != len(texts):
        raise ValueError("a name is listed twice")
    return tuple(texts)


def _resources(tables: list[dict[str, object]]) -> tuple[ResourceTable, ...]:
    found = tuple(_resource(f"[{at}]", table) for at, table in enumerate(tables))
    seen: set[str] = set()
    for each in found:
        if each.id in seen:
            raise ValueError(f"{each.id} is listed twice")
        seen.add(each.id)
    return found


def _resource(at: str, table: dict[str, object]) -> ResourceTable:
    texts: dict[str, str] = {}
    for name in ("id", "kind", "address"):
        value = table.get(name)
        if not isinstance(value, str) or not value:
            raise ValueError(f"{at}: {name} is required and must be a string")
        texts[name] = value
    if not is_resource_id(texts["id"]):
        raise ValueError(f"{at}: id must be one DNS label: a-z, 0-9 and -, at most 63")
    if not _WORD.match(texts["kind"]):
        raise ValueError(f"{at}: kind must be a drop-in's name, such as tcp")
    rest = {name: value for name, value in table.items() if name not in ("id", "kind")}
    path = f"connector.resources{at}"
    return ResourceTable(**texts, table=MappingProxyType(rest), key_path=path)


MAX_OIDC_ENTRIES = 32
_TOKEN = re.compile(r"[\x21-\x7e]{1,255}\Z")
_OWNED_PARAMS = frozenset(
    [
        "client_id",
        "client_secret",
        "client_assertion",
        "client_assertion_type",
        "grant_type",
        "device_code",
        "scope",
        "response_type",
        "response_mode",
        "redirect_uri",
        "state",
        "nonce",
        "request",
        "request_uri",
        "password",
        "assertion",
        "code",
        "username",
        "id_token_hint",
        "registration",
        "dpop_jkt",
    ]
)
_SECRET_WORDS = ("token", "secret", "key", "password", "assertion", "code_")


def _token(text: str) -> str:
    if _TOKEN.match(text) is None:
        raise ValueError("must be 1 to 255 visible ASCII characters")
    return text


def _issuer(text: str) -> str:
    _web_url(text, "https")
    if len(text) > 255:
        raise ValueError("must have at most 255 characters")
    return text


def _oidc_scopes(texts: list[str]) -> tuple[str, ...]:
    found = tuple(_token(text) for text in texts)
    if len(found) > MAX_OIDC_ENTRIES or len(set(found)) != len(found):
        raise ValueError(f"must list at most {MAX_OIDC_ENTRIES} scopes, each once")
    if "openid" not in found:
        raise ValueError("must list openid")
    return found


def _oidc_flows(texts: list[str]) -> tuple[str, ...]:
    if not texts or len(set(texts)) != len(texts) or set(texts) - {"code", "device", "token"}:
        raise ValueError("must list one or more of code, device, token, each once")
    return tuple(texts)


def _oidc_params(table: dict[str, str]) -> Mapping[str, str]:
    """U-OPEN-17: no credential, and nothing that the protocol itself sets."""
    if len(table) > MAX_OIDC_ENTRIES:
        raise ValueError(f"must have at most {MAX_OIDC_ENTRIES} parameters")
    for name, value in table.items():
        lower = _token(name).lower()
        if any(word in lower for word in _SECRET_WORDS):
            raise ValueError(f"{_safe(name)}: must not hold a credential")
        if lower in _OWNED_PARAMS:
            raise ValueError(f"{_safe(name)}: is set by the protocol")
        if len(value) > 255 or not value.isprintable():
            raise ValueError(f"{_safe(name)}: must have at most 255 printable characters")
    return dict(table)


def _safe(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", name) else "a parameter"


def _pending_errors(texts: list[str]) -> tuple[str, ...]:
    if len(texts) > MAX_OIDC_ENTRIES:
        raise ValueError(f"must list at most {MAX_OIDC_ENTRIES} texts")
    for text in texts:
        if not text or len(text) > 255:
            raise ValueError("each text must have 1 to 255 characters")
    return tuple(texts)


def whole(lowest: int, highest: int) -> Form:
    """A whole number between two bounds."""

    def check(value: int) -> int:
        if not lowest <= value <= highest:
            raise ValueError(f"must be a whole number from {lowest} to {highest}")
        return value

    return Form(f"a whole number from {lowest} to {highest}", int, check)


def seconds(lowest: float, highest: float) -> Form:
    """A time in seconds between two bounds."""
    words = f"a number of seconds from {lowest:g} to {highest:g}"

    def check(value: float) -> float:
        if not lowest <= value <= highest:
            raise ValueError(f"must be {words}")
        return float(value)

    return Form(words, float, check)


def one_of(*words: str) -> Form:
    """One of a few words."""

    def check(value: str) -> str:
        if value not in words:
            raise ValueError(f"must be one of: {', '.join(words)}")
        return value

    return Form(f"one of: {', '.join(words)}", str, check)


TEXT = Form("a string", str, _clean)
TEXTS = Form("a list of strings", list[str], lambda texts: tuple(map(_clean, texts)))
YES_NO = Form("true or false", bool, _same)
PROFILE = Form("a string", str, _profile)
CLUSTER = Form("a DNS name", str, _cluster)
LISTEN = Form("an address host:port (a string)", str, _listen)
DIAL = Form("an address host:port (a string)", str, parse_address)
DIALS = Form("a list of addresses host:port", list[str], _dials)
NAME = Form("a DNS label (a string)", str, _name)
PEERS = Form("a table of addresses host:port by name", dict[str, str], _peers)
NAMES = Form("a list of DNS names and IP addresses", list[str], _names)
DIRECTORY = Form("an absolute path (a string)", str, _directory)
PATH = Form("an absolute path (a string)", str, _path)
STORE_URL = Form("a URL (a string)", str, parse_store_url)
OTEL_URL = Form("a URL (a string)", str, parse_otel_endpoint)
WITNESSES = Form("a list of file:// and https:// URLs", list[str], _witnesses)
PIN = Form("64 hex digits (a string)", str, _pin)
REACH = Form("a list of IP addresses and networks", list[str], _reach)
WORDS = Form("a list of drop-in words", list[str], _words)
TOKEN = Form("a string", str, _token)
ISSUER = Form("an https:// URL (a string)", str, _issuer)
OIDC_SCOPES = Form("a list of strings", list[str], _oidc_scopes)
OIDC_FLOWS = Form("a list of `code`, `device`, `token`", list[str], _oidc_flows)
OIDC_PARAMS = Form("a table of strings", dict[str, str], _oidc_params)
PENDING_ERRORS = Form("a list of strings", list[str], _pending_errors)
RESOURCES = Form("a list of tables", list[dict[str, Any]], _resources)
SCOPES = Form("a list of tables", list[dict[str, Any]], read_scopes)
SOURCES = Form("a list of tables", list[dict[str, Any]], read_sources)
