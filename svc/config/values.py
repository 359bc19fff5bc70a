"""The settings as every other room sees them: frozen values, nothing of pydantic.

A field has the name of its key; `svc.config.keys` says what each means, and a
test holds the two together.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address

from attrs import field, frozen

from svc.model.cluster.scope import DiscoveryScope


@frozen
class Address:
    """A host and a port; the host is a DNS name or an IP address without brackets."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def server_name(self) -> str | None:
        """What a front may route by: a DNS name, never an address."""
        is_address = ":" in self.host or self.host.replace(".", "").isdigit()
        return None if is_address or not self.host.isascii() else self.host

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


@frozen
class StoreUrl:
    """Where the store is: the scheme picks the store drop-in, which reads the rest."""

    scheme: str
    rest: str = field(repr=False)


@frozen
class ResourceTable:
    """One ``[[connector.resources]]`` table, raw: its kind reads the rest.

    ``table`` holds every key but ``id`` and ``kind`` (``address`` among them);
    ``key_path`` is what to name in a refusal, such as ``connector.resources[2]``.
    """

    id: str
    kind: str
    address: str
    table: Mapping[str, object] = field(repr=False)
    key_path: str


@frozen
class SourceTable:
    """One ``[[connector.discovery_sources]]`` table, raw: its drop-in reads the rest.

    ``table`` holds every key but ``name``, ``source`` and ``every_secs``; ``key_path`` is what to
    name in a refusal.
    """

    name: str
    source: str
    every_secs: float
    table: Mapping[str, object] = field(repr=False)
    key_path: str


@frozen
class DiscoverySettings:
    """``[discovery]``: what of what Connectors find enters the catalog."""

    auto_scopes: tuple[DiscoveryScope, ...]
    lease_secs: float


@frozen
class RecordingSettings:
    """``[recordings]``: of sessions, at the Connector that makes them and the Authority."""

    buffer_max_bytes: int
    session_max_bytes: int
    command_max_bytes: int
    directory: str | None
    max_bytes: int
    lost_after_secs: float
    keep_days: int


@frozen
class KeySettings:
    """``[keys]``: the keys that an Authority signs with."""

    automatic_distribution: bool


@frozen
class EndpointSettings:
    """``[endpoints]``: what is listened on and what is dialed."""

    public_listen: Address | None
    public_names: tuple[str, ...]
    control_listen: Address | None
    join_listen: Address | None
    renewal_listen: Address | None
    admin_listen: Address | None
    private_listen: Address | None
    peer_listen: Address | None
    peer_address: Address | None
    authority: tuple[Address, ...]
    authority_failover: tuple[Address, ...]
    proxy: tuple[Address, ...]


@frozen
class PageSettings:
    """``[page]``: the browser page."""

    listen: Address | None
    resource: str


@frozen
class JoinSettings:
    """``[join]``: how a node without an identity gets one; ignored once it has one."""

    token_file: str | None
    ca_pin: str | None
    by_key: bool
    authority: Address | None


@frozen
class TelemetrySettings:
    """``[telemetry]``: the plain HTTP listener and the trace collector."""

    metrics_listen: Address | None
    ready_follows: bool
    otel_endpoint: str | None


@frozen
class DoctorSettings:
    """``[doctor]``: the periodic self-check."""

    check_interval_secs: int


@frozen
class AuthoritySettings:
    """``[authority]``: this one among those on a shared store."""

    name: str | None
    peers: Mapping[str, Address]


@frozen
class ProxySettings:
    """``[proxy]``."""

    public_plaintext: bool
    direct_lane: bool
    tls_min_version: str
    spool_max_bytes: int


@frozen
class ConnectorSettings:
    """``[connector]``."""

    reach: tuple[str, ...]
    resources: tuple[ResourceTable, ...]
    discovery_sources: tuple[SourceTable, ...]
    proxy_connection_count: int


@frozen
class ClientSettings:
    """``[client]``."""

    native_port_offset: int
    unprotected_loopback: bool
    direct_lane_after: int


@frozen
class PluginSettings:
    """``[plugins]``: the drop-ins that may be imported, by the operator's words."""

    kinds: tuple[str, ...]
    stores: tuple[str, ...]
    sources: tuple[str, ...]
    checks: tuple[str, ...]


@frozen
class LimitSettings:
    """``[limits]``."""

    anonymous_per_minute: int
    anonymous_burst: int
    max_sessions_per_person: int
    opens_per_minute: int
    opens_burst: int
    denials_per_minute: int
    denials_burst: int
    requests_per_minute: int
    requests_burst: int
    node_calls_per_minute: int
    node_calls_burst: int
    asks_per_proxy: int
    max_streams: int
    max_header_list_bytes: int
    max_nuisances: int
    max_resets: int
    stalled_secs: float
    idle_secs: float
    least_ping_secs: float
    max_connections: int
    max_connections_per_address: int
    max_handshakes: int
    connections_per_minute: int
    handshake_secs: float
    drain_secs: float


@frozen
class DeviceSettings:
    """``[oidc.device]``: what differs from the provider's own word, in one direction only."""

    pending_errors: tuple[str, ...]
    interval: int | None
    expires_in: int | None


@frozen
class OidcSettings:
    """``[oidc]``: where people sign in, if ``issuer`` is set."""

    issuer: str | None
    client_id: str | None
    flows: tuple[str, ...]
    scopes: tuple[str, ...]
    extra_params: Mapping[str, str]
    groups_claim: str | None
    create_persons: bool
    name_claim: str
    renew_secs: int
    reach: tuple[str, ...]
    ca_file: str | None
    device: DeviceSettings


@frozen
class PasskeySettings:
    """``[accounts.passkeys]``: people who sign in with a passkey, in a browser."""

    public_name: Address | None
    listen: Address | None
    cert: str | None
    key: str | None


@frozen
class AccountsSettings:
    """``[accounts]``: people who sign in without a provider."""

    password_min: int
    renew_secs: int
    hash_threads: int
    passkeys: PasskeySettings


@frozen
class IdentitySettings:
    """``[identity]``: how long what Authority issues is good for."""

    node_leaf_secs: int
    person_leaf_secs: int
    issuing_ca_days: int
    join_token_secs: int


@frozen
class PolicySettings:
    """``[policy]``: how a policy is changed."""

    approvals: int
    break_glass: tuple[str, ...]


@frozen
class TunnelSettings:
    """``[tunnel]``."""

    keepalive_secs: float
    keepalive_timeout_secs: float
    lease_secs: float
    lease_renew_secs: float
    backoff_first_secs: float
    backoff_max_secs: float


@frozen
class AuditSettings:
    """``[audit]``."""

    head_every_records: int
    head_after_secs: float
    witness: tuple[str, ...]
    requests: str


@frozen
class SnapshotSettings:
    """``[snapshot]``."""

    heartbeat_secs: float
    valid_secs: float
    reload_secs: float


@frozen
class AccessSettings:
    """``[access]``."""

    max_secs: float


@frozen
class SessionSettings:
    """``[session]``."""

    reclaim_secs: float


@frozen
class RoleSettings:
    """One role's whole configuration, checked.

    ``cluster``, ``state_dir`` and ``store_url`` are there for every role that
    needs them: the reading refuses a file that lacks one.
    """

    role: str
    path: str
    cluster: str
    state_dir: str
    profile: str | None
    store_url: StoreUrl | None
    store_auto_migrate: bool
    license_path: str | None
    store_lease_secs: float
    endpoints: EndpointSettings
    page: PageSettings
    join: JoinSettings
    telemetry: TelemetrySettings
    doctor: DoctorSettings
    authority: AuthoritySettings
    proxy: ProxySettings
    connector: ConnectorSettings
    client: ClientSettings
    plugins: PluginSettings
    limits: LimitSettings
    oidc: OidcSettings
    accounts: AccountsSettings
    identity: IdentitySettings
    policy: PolicySettings
    tunnel: TunnelSettings
    discovery: DiscoverySettings
    recordings: RecordingSettings
    keys: KeySettings
    audit: AuditSettings
    snapshot: SnapshotSettings
    access: AccessSettings
    session: SessionSettings
