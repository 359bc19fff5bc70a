"""The plan of a new cluster as plain values, checked before anything is written."""

from __future__ import annotations

import re
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path

from attrs import field, frozen

from svc.config.forms import parse_address
from svc.config.keys import KEYS
from svc.errors import UsageError
from svc.model.ids import is_cluster_name, is_resource_id
from svc.plugin import installed

AUTHORITY, PROXY, CONNECTOR, ALL = "authority", "proxy", "connector", "all"
SEPARATE = (AUTHORITY, PROXY, CONNECTOR)
PROXY_NAME, CONNECTOR_NAME = "p1", "c1"
"""The nodes of ``svc all``."""

LOOPBACK = "127.0.0.1"
PAGE: str = next(key.default for key in KEYS if key.path == "page.resource")
"""The id of the browser page where a configuration names none."""

GROUP = "staff"
"""The group that the first policy speaks of."""

KINDS: tuple[str, ...] = next(tuple(key.default) for key in KEYS if key.path == "plugins.kinds")
"""The kinds in use where a configuration names none."""

_PIN = re.compile(r"[0-9a-f]{64}\Z")
ISSUING_CA_DAYS = "identity.issuing_ca_days"
"""The one number that is of use only before the keys are made."""


TableValue = str | bool | Mapping[str, str]


@frozen
class PlannedResource:
    """One resource that the Connector is to serve.

    Attributes:
        table: Further keys of its table: texts, flags, and tables of texts.
    """

    id: str
    kind: str
    address: str
    labels: Mapping[str, str] = field(factory=dict)
    table: Mapping[str, TableValue] = field(factory=dict)


@frozen
class InitPorts:
    """The port of each listener; 0 lets the system choose."""

    public: int = 7400
    control: int = 7401
    join: int = 7402
    renewal: int = 7403
    admin: int = 7404
    page: int = 7405


@frozen
class InitPlan:
    """One ``svc init``.

    Attributes:
        directory: Where the files will be in the end; absolute.
        roles: Whose configurations are written: some of the three, or ``all`` alone.
        host: Where Authority is reached, and what it listens on where that is an address.
        public_names: What people and Connectors call the Proxy; the first is what they dial.
        ca_pin: Of a cluster that was made elsewhere; empty where its keys are made here.
        root_key: Where the root's private key goes; None leaves it in the key directory.
        numbers: Keys of ``svc all``'s configuration that are not left to their defaults.
        has_page: Whether the Authority serves the browser page to the Connector of this machine.
    """

    directory: Path
    cluster: str
    roles: tuple[str, ...] = SEPARATE
    host: str = LOOPBACK
    public_names: tuple[str, ...] = ("localhost", LOOPBACK)
    ports: InitPorts = InitPorts()
    served: tuple[PlannedResource, ...] = ()
    ca_pin: str = ""
    root_key: Path | None = None
    numbers: Mapping[str, float] = field(factory=dict)
    has_page: bool = False

    @property
    def makes_keys(self) -> bool:
        """Whether a cluster begins here."""
        return AUTHORITY in self.roles or self.is_one

    @property
    def holder(self) -> str:
        """The role that holds the keys."""
        return ALL if self.is_one else AUTHORITY

    @property
    def is_one(self) -> bool:
        """Whether it is for ``svc all``."""
        return self.roles == (ALL,)

    @property
    def more_kinds(self) -> tuple[str, ...]:
        """The kinds of what is served that are not in use unless a configuration names them."""
        return tuple(sorted({one.kind for one in self.resources} - set(KINDS)))

    @property
    def resources(self) -> tuple[PlannedResource, ...]:
        """What the Connector serves, with the browser page."""
        if not self.has_page:
            return self.served
        address = joined(LOOPBACK, self.ports.page)
        return (*self.served, PlannedResource(PAGE, "web", address, table={"identity": True}))

    @property
    def public(self) -> str:
        """What people and Connectors dial."""
        return joined(self.public_names[0], self.ports.public)

    @property
    def state(self) -> dict[str, Path]:
        """The state directory of each role."""
        base = self.directory / "state" if self.is_one else self.directory
        return {role: base / role for role in SEPARATE}

    def config(self, role: str) -> Path:
        """The configuration of a role."""
        return self.directory / f"{ALL if self.is_one else role}.toml"

    def check(self) -> None:
        """Refuse what no configuration could say.

        Raises:
            UsageError: naming the option.
        """
        if not str(self.directory).isprintable() or set(str(self.directory)) & set("?#"):
            raise UsageError("DIR: the path must not contain ?, # or control characters")
        if not is_cluster_name(self.cluster):
            raise UsageError(
                "--cluster: must be a DNS name in lower case, such as gate.example.org"
            )
        if ALL in self.roles and not self.is_one:
            raise UsageError("--for all: already includes the three roles; give it alone")
        if self.is_one and self.host != LOOPBACK:
            raise UsageError(
                "--host: does not apply to --all, where the roles use loopback; omit it"
            )
        for name in (*self.public_names, self.host):
            _check_host(name)
        self._check_served()
        if not self.makes_keys and not _PIN.match(self.ca_pin):
            raise UsageError(
                "--ca-pin: required unless an Authority is configured here; give the 64 hex "
                "digits that `svc authority status` shows"
            )
        if self.makes_keys and self.ca_pin:
            raise UsageError(
                "--ca-pin: applies only to nodes of an existing cluster; omit it where an "
                "Authority is configured here"
            )
        if self.root_key is not None and not self.makes_keys:
            raise UsageError(
                "--root-key-to: applies only where an Authority is configured; no keys are "
                "created here"
            )
        if ISSUING_CA_DAYS in self.numbers and not self.makes_keys:
            raise UsageError(
                "--issuing-ca-days: applies only where an Authority is configured; no keys are "
                "created here"
            )

    def _check_served(self) -> None:
        if self.has_page and not (self.is_one or {AUTHORITY, CONNECTOR} <= set(self.roles)):
            raise UsageError(
                "--page: the Authority and the Connector must be configured here together"
            )
        if len({one.id for one in self.resources}) != len(self.resources):
            raise UsageError("--resource: an id is given more than once")


def read_served(text: str) -> PlannedResource:
    """A resource in its form ``ID=KIND:HOST:PORT``.

    Raises:
        UsageError: for another form.
    """
    name, equals, rest = text.partition("=")
    kind, colon, address = rest.partition(":")
    if not (equals and colon and is_resource_id(name) and kind.isidentifier()):
        raise UsageError(
            "--resource: must have the form ID=KIND:HOST:PORT, such as db1=tcp:10.0.0.5:5432"
        )
    kinds = installed("kind")
    if kind not in kinds:
        raise UsageError(
            f"--resource {name}: unknown kind {kind}; the kinds are {', '.join(kinds)}"
        )
    try:
        return PlannedResource(name, kind, str(parse_address(address)))
    except ValueError as error:
        raise UsageError(f"--resource {name}: the address {error}") from None


def joined(host: str, port: int) -> str:
    """``host:port``, with brackets around an IPv6 host."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_address(host: str) -> bool:
    """Whether it is an IP address, not a name."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def is_local(host: str) -> bool:
    """Whether only this machine is meant."""
    return host == "localhost" or (is_address(host) and ip_address(host).is_loopback)


def _check_host(name: str) -> None:
    if not (is_cluster_name(name) or is_address(name)):
        raise UsageError(
            "--host, --public-name: must be a DNS name in lower case, or an IP address"
        )
