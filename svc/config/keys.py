"""Every key of the configuration, in one table.

The models that check a file, the reference in ``docs/reference/config.md`` and
the suggestions for misspelled names are all made from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from attrs import frozen

from svc.config import forms as f
from svc.config.principals import principals
from svc.config.public_name import PUBLIC_NAME
from svc.model.cluster.account import PASSWORD_MIN

ROLES = ("authority", "proxy", "connector", "all", "client")
NODES = ("authority", "proxy", "connector", "all")
JOINERS = ("proxy", "connector", "all")
"""Whoever joins by its configuration: an Authority is made by ``svc init``, or has its keys."""
BUILT_IN_KINDS = ("kube", "postgres", "ssh", "tcp", "web")
"""The resource kinds that come with svc."""
_AUTHORITY = ("authority", "all")
_PROXY = ("proxy", "all")
_CONNECTOR = ("connector", "all")
_DECIDING = ("authority", "proxy", "all")

ENVIRONMENT = {
    "SVC_CONFIG": "Path of the configuration where `--config` is not given.",
    "SVC_ID_TOKEN": "An ID token for this cluster, for `svc login` of a machine.",
    "SVC_LOG_FORMAT": "`json`: one JSON object a line; anything else: lines for people.",
    "SVC_CRASH_AT": "A crash point, `name` or `name:N` for the Nth time; in fault tests only.",
    "SVC_REQUIRE_TOOLS": "`1`: a test whose stock tool is missing fails instead of skipping.",
    "SVC_TEST_RUN": "The process id of a run of the tests; `make test` sets it.",
}


@frozen
class Key:
    """One key.

    Attributes:
        path: Dotted, as refusals name it.
        form: What values look like.
        default: The TOML value that its absence means; None for no value.
        roles: Who reads it.
        meaning: One sentence for the reference.
        required: The roles that do not start without it.
        later: This build checks its form and refuses any value but the default.
        defaults: The roles for which its absence means something else.
    """

    path: str
    form: f.Form
    default: Any
    roles: tuple[str, ...]
    meaning: str
    required: tuple[str, ...] = ()
    later: bool = False
    defaults: Mapping[str, Any] = MappingProxyType({})


_SECS = f.seconds(0.05, 86400)
_COUNT = f.whole(1, 1_000_000)


def _top() -> tuple[Key, ...]:
    return (
        Key(
            path="cluster",
            form=f.CLUSTER,
            default=None,
            roles=NODES,
            meaning="The cluster's DNS name: the trust domain of every certificate.",
            required=NODES,
        ),
        Key(
            path="state_dir",
            form=f.DIRECTORY,
            default=None,
            roles=NODES,
            meaning="The role's own directory (0700) for identity, keys, sockets and spools.",
            required=NODES,
        ),
        Key(
            path="profile",
            form=f.PROFILE,
            default=None,
            roles=ROLES,
            meaning="Deployment label: `profile` on every log line, `deployment` on every series.",
        ),
        Key(
            path="store_url",
            form=f.STORE_URL,
            default=None,
            roles=_AUTHORITY,
            meaning=(
                "The store: `sqlite:///<absolute path>`, or "
                "`postgresql://<user>@<host>/<database>` with `plugins.stores = "
                '["postgresql"]`. A password is not written here: `passfile` in the URL names its '
                "file, or `SVC_STORE_URL` in the environment gives the whole URL."
            ),
            required=_AUTHORITY,
        ),
        Key(
            path="store_auto_migrate",
            form=f.YES_NO,
            default=True,
            roles=_AUTHORITY,
            meaning=(
                "If true, the start applies pending migrations; otherwise it waits until they "
                "are applied."
            ),
        ),
        Key(
            path="store_lease_secs",
            form=f.seconds(1, 300),
            default=15,
            roles=_AUTHORITY,
            meaning=(
                "On a store that several Authorities share: how long the leader may be silent "
                "before a standby takes over."
            ),
        ),
        Key(
            path="license_path",
            form=f.PATH,
            default=None,
            roles=_AUTHORITY,
            meaning="The license file.",
            later=True,
        ),
    )


def _endpoints() -> tuple[Key, ...]:
    return (
        Key(
            path="endpoints.public_listen",
            form=f.LISTEN,
            default="",
            roles=_PROXY,
            meaning="Where people and Connectors reach the Proxy.",
            required=_PROXY,
        ),
        Key(
            path="endpoints.public_names",
            form=f.NAMES,
            default=[],
            roles=_PROXY,
            meaning=(
                "The DNS names and IP addresses that people reach the Proxy by. The "
                "certificate gets its names from the join token (`nodes add --public-name`); "
                "the log warns of names that are missing from it."
            ),
        ),
        Key(
            path="endpoints.control_listen",
            form=f.LISTEN,
            default="127.0.0.1:7401",
            roles=_AUTHORITY,
            meaning="Where Proxies reach Authority.",
        ),
        Key(
            path="endpoints.join_listen",
            form=f.LISTEN,
            default="127.0.0.1:7402",
            roles=_AUTHORITY,
            meaning="Where the join lane ends, and where the first Proxy joins directly.",
        ),
        Key(
            path="endpoints.renewal_listen",
            form=f.LISTEN,
            default="127.0.0.1:7403",
            roles=_AUTHORITY,
            meaning="Where the renewal lane ends.",
        ),
        Key(
            path="endpoints.admin_listen",
            form=f.LISTEN,
            default="",
            roles=_AUTHORITY,
            meaning=(
                "Where the admin lane ends, through which people administer the gateway from "
                "anywhere; empty: no listener."
            ),
        ),
        Key(
            path="page.listen",
            form=f.LISTEN,
            default="",
            roles=_AUTHORITY,
            meaning=(
                "A loopback address where a Connector on this machine finds the browser page;"
                " empty: no page."
            ),
        ),
        Key(
            path="page.resource",
            form=f.NAME,
            default="svc-page",
            roles=_AUTHORITY,
            meaning="The id of the `web` resource that the page is.",
        ),
        Key(
            path="endpoints.private_listen",
            form=f.LISTEN,
            default="",
            roles=_AUTHORITY,
            meaning=(
                "Where the other Authorities on a shared store reach this one; empty: no "
                "listener. Keep it private."
            ),
        ),
        Key(
            path="endpoints.authority",
            form=f.DIALS,
            default=[],
            roles=_PROXY,
            meaning="Authority's control addresses, one for each instance.",
        ),
        Key(
            path="endpoints.authority_failover",
            form=f.DIALS,
            default=[],
            roles=_PROXY,
            meaning="Further Authority addresses, tried after those.",
        ),
        Key(
            path="endpoints.proxy",
            form=f.DIALS,
            default=[],
            roles=("connector", "all", "client"),
            meaning=(
                "The Proxies to dial, in order; a Connector keeps "
                "`connector.proxy_connection_count` of them."
            ),
            required=("connector",),
        ),
        Key(
            path="endpoints.peer_listen",
            form=f.LISTEN,
            default="",
            roles=_PROXY,
            meaning="Where other Proxies reach this one.",
            later=True,
        ),
        Key(
            path="join.token_file",
            form=f.PATH,
            default=None,
            roles=JOINERS,
            meaning="File with the one-use join token; ignored once an identity exists.",
        ),
        Key(
            path="join.ca_pin",
            form=f.PIN,
            default=None,
            roles=JOINERS,
            meaning="SHA-256 of the cluster root; required with a token file.",
        ),
        Key(
            path="join.by_key",
            form=f.YES_NO,
            default=False,
            roles=JOINERS,
            meaning=(
                "Join by the node's own key instead of a token; an operator first registers the "
                "key's SHA-256 with `svc authority nodes expect`."
            ),
        ),
        Key(
            path="join.authority",
            form=f.DIAL,
            default=None,
            roles=JOINERS,
            meaning=(
                "Authority's join listener: for the first Proxy, and for a Connector that can"
                " reach it; other nodes join through a Proxy of `endpoints.proxy`."
            ),
        ),
    )


def _telemetry() -> tuple[Key, ...]:
    return (
        Key(
            path="telemetry.metrics_listen",
            form=f.LISTEN,
            default="",
            roles=NODES,
            meaning=(
                "Plain HTTP listener of /healthz, /readyz and /metrics, and of /jwks.json on an "
                "Authority; empty: none. Keep it private."
            ),
        ),
        Key(
            path="telemetry.ready_follows",
            form=f.YES_NO,
            default=False,
            roles=_PROXY,
            meaning=(
                "If true, a Proxy's `/readyz` answers 503 while no session can open (Authority "
                "cannot be reached, the policy is stale, the audit spool is full), so that a "
                "load balancer uses another Proxy; otherwise it answers 200. The body names what "
                "is missing in either case."
            ),
        ),
        Key(
            path="telemetry.otel_endpoint",
            form=f.OTEL_URL,
            default=None,
            roles=NODES,
            meaning="OTLP/HTTP collector; absent: no trace leaves the process.",
        ),
        Key(
            path="doctor.check_interval_secs",
            form=f.whole(0, 86400),
            default=0,
            roles=NODES,
            meaning="Seconds between periodic checks; 0: off.",
            later=True,
        ),
    )


def _roles() -> tuple[Key, ...]:
    return (
        Key(
            path="authority.name",
            form=f.NAME,
            default=None,
            roles=_AUTHORITY,
            meaning=(
                "This Authority's unique name among those on a shared store; it holds the lease "
                "under this name. Absent: its node id."
            ),
        ),
        Key(
            path="authority.peers",
            form=f.PEERS,
            default={},
            roles=_AUTHORITY,
            meaning=(
                "The private address of every Authority on a shared store, this one included,"
                " by `authority.name`; the same table in each."
            ),
        ),
        Key(
            path="proxy.public_plaintext",
            form=f.YES_NO,
            default=False,
            roles=_PROXY,
            meaning="Serve the public listener without TLS: health and the join lane only.",
        ),
        Key(
            path="proxy.tls_min_version",
            form=f.one_of("1.3", "1.2"),
            default="1.3",
            roles=_PROXY,
            meaning=(
                "The oldest TLS version that the public listener accepts; `1.2` accepts clients "
                "and load balancers that have nothing newer. The TLS inside a session is "
                "always 1.3."
            ),
        ),
        Key(
            path="proxy.direct_lane",
            form=f.YES_NO,
            default=True,
            roles=_PROXY,
            meaning=(
                "Let opaque sessions that carry much data move from the tunnel to connections of "
                "their own. Turn it off behind a load balancer that terminates TLS or HTTP/2; "
                "it is off where the public listener is plaintext."
            ),
        ),
        Key(
            path="proxy.spool_max_bytes",
            form=f.whole(1 << 24, 1 << 40),
            default=1 << 28,
            roles=_PROXY,
            meaning=(
                "Disk space in bytes for audit rows that no signed head covers yet. One person or "
                "Connector may use an eighth, and a quarter is reserved for the Proxy's own "
                "records. A session that does not fit is refused (`audit_spool_full`); raise it "
                "to work longer without Authority."
            ),
        ),
        Key(
            path="proxy.tls.cert",
            form=f.PATH,
            default=None,
            roles=_PROXY,
            meaning="A certificate of your own for the public listener.",
            later=True,
        ),
        Key(
            path="proxy.tls.key",
            form=f.PATH,
            default=None,
            roles=_PROXY,
            meaning="Its private key.",
            later=True,
        ),
        Key(
            path="connector.reach",
            form=f.REACH,
            default=[],
            roles=_CONNECTOR,
            meaning=(
                "If any are listed, nothing else is dialed; link-local, metadata and other "
                "special addresses are dialed only if listed explicitly."
            ),
        ),
        Key(
            path="connector.resources",
            form=f.RESOURCES,
            default=[],
            roles=_CONNECTOR,
            meaning="The resources served here: `id`, `kind`, `address` and the keys of the kind.",
        ),
        Key(
            path="connector.proxy_connection_count",
            form=f.whole(1, 16),
            default=1,
            roles=_CONNECTOR,
            meaning=(
                "How many different Proxies of `endpoints.proxy` the Connector stays connected "
                "to; when a connection is lost, another address is tried. Two connections to one "
                "Proxy count once."
            ),
        ),
        Key(
            path="connector.discovery_sources",
            form=f.TABLES,
            default=[],
            roles=_CONNECTOR,
            meaning="Where resources are discovered.",
            later=True,
        ),
        Key(
            path="discovery.auto_scopes",
            form=f.SCOPES,
            default=[],
            roles=_AUTHORITY,
            meaning=(
                "Scopes admitted automatically; `onward_auth` is required when `kinds` holds ssh."
            ),
            later=True,
        ),
        Key(
            path="plugins.kinds",
            form=f.WORDS,
            default=["ssh", "tcp"],
            roles=ROLES,
            meaning=(
                "The resource kinds in use: a drop-in that is installed is not enabled before it "
                "is named here."
            ),
            # What a person's machine serves depends on the cluster, which nobody there configures.
            defaults={"client": list(BUILT_IN_KINDS)},
        ),
        Key(
            path="plugins.stores",
            form=f.WORDS,
            default=["sqlite"],
            roles=_AUTHORITY,
            meaning="The stores in use.",
        ),
    )


def _policy() -> tuple[Key, ...]:
    return (
        Key(
            path="policy.approvals",
            form=f.whole(0, 2),
            default=0,
            roles=_AUTHORITY,
            meaning=(
                "How many people other than the proposer approve a policy before it can be "
                "activated; 0: `policy set` activates at once. With 1 or 2, a security-sensitive "
                "change needs 2, and one that an operator of the control socket proposes needs "
                "one more."
            ),
        ),
        Key(
            path="policy.break_glass",
            form=f.Form("a list of ids of people and local:<uid>", list[str], principals),
            default=[],
            roles=_AUTHORITY,
            meaning=(
                "Who may read and set policies even if the policy lets nobody: ids of people, and "
                "`local:<uid>` for users of the control socket. Each use is recorded."
            ),
        ),
    )


def _client() -> tuple[Key, ...]:
    return (
        Key(
            path="client.native_port_offset",
            form=f.whole(0, 60000),
            default=10000,
            roles=("client",),
            meaning="Added to a kind's native port to make the local one.",
        ),
        Key(
            path="client.direct_lane_after",
            form=f.whole(0, 1 << 50),
            default=1 << 20,
            roles=("client",),
            meaning=(
                "Bytes that an opaque session carries before it asks its Proxy for a direct lane; "
                "it asks sooner if it has carried 64 messages."
            ),
        ),
        Key(
            path="client.unprotected_loopback",
            form=f.YES_NO,
            default=False,
            roles=("client",),
            meaning="Open TCP ports even if the platform cannot tell which user connects.",
        ),
    )


def _wire() -> tuple[Key, ...]:
    return (
        Key(
            path="limits.max_header_list_bytes",
            form=f.whole(4096, 65_536),
            default=16_384,
            roles=ROLES,
            meaning="The longest header list, counted as HTTP/2 counts.",
        ),
        Key(
            path="limits.max_nuisances",
            form=f.whole(50, 1_000_000),
            default=200,
            roles=ROLES,
            meaning=(
                "How many frames of one kind that does no work (pings, settings, empty data, "
                "...) a connection accepts in 10 s beyond the answers to its own frames."
            ),
        ),
        Key(
            path="limits.max_resets",
            form=f.whole(50, 1_000_000),
            default=200,
            roles=NODES,
            meaning=(
                "How many calls in 10 s a peer may reset, or break, unanswered and within a "
                "second of their start."
            ),
        ),
        Key(
            path="limits.stalled_secs",
            form=_SECS,
            default=30,
            roles=ROLES,
            meaning=(
                "How long a peer may leave a header block unfinished, a call without its first "
                "message, or an answer unread; it may leave bytes unread four times as long."
            ),
        ),
        Key(
            path="limits.idle_secs",
            form=_SECS,
            default=60,
            roles=NODES,
            meaning=(
                "Minimum time that a connection without a certificate may stay open without a call."
            ),
        ),
        Key(
            path="limits.least_ping_secs",
            form=f.seconds(0, 3600),
            default=5,
            roles=NODES,
            meaning=(
                "Minimum time between pings of a caller to whom nothing is sent; the third ping "
                "that comes too early closes the connection with `too_many_pings`. Keep it below "
                "every peer's `tunnel.keepalive_secs`."
            ),
        ),
    )


def _limits() -> tuple[Key, ...]:
    return (
        Key(
            path="limits.anonymous_per_minute",
            form=_COUNT,
            default=60,
            roles=_PROXY,
            meaning=(
                "Calls one IPv4 address or IPv6 /64 may make in a minute without a "
                "certificate; health checks are not counted."
            ),
        ),
        Key(
            path="limits.anonymous_burst",
            form=_COUNT,
            default=20,
            roles=_PROXY,
            meaning="And how many of them at once.",
        ),
        Key(
            path="limits.max_sessions_per_person",
            form=_COUNT,
            default=256,
            roles=_PROXY,
            meaning="Open sessions of one person.",
        ),
        Key(
            path="limits.opens_per_minute",
            form=_COUNT,
            default=3000,
            roles=_DECIDING,
            meaning=(
                "Sessions one person may request in a minute, counted at a Proxy and at "
                "Authority separately; a list counts as ten. Above it a call is answered "
                "RESOURCE_EXHAUSTED with the time to wait, without a decision."
            ),
        ),
        Key(
            path="limits.opens_burst",
            form=_COUNT,
            default=500,
            roles=_DECIDING,
            meaning="And how many of them at once.",
        ),
        Key(
            path="limits.denials_per_minute",
            form=_COUNT,
            default=120,
            roles=_DECIDING,
            meaning=(
                "Refused sessions of one person in a minute, for any reason; above it every "
                "request is answered the same way."
            ),
        ),
        Key(
            path="limits.denials_burst",
            form=_COUNT,
            default=200,
            roles=_DECIDING,
            meaning="And how many of them at once.",
        ),
        Key(
            path="limits.requests_per_minute",
            form=_COUNT,
            default=600_000,
            roles=_PROXY,
            meaning=(
                "Requests inside one person's sessions in a minute, such as statements; above it "
                "each is denied in its protocol's form, undecided and without a record."
            ),
        ),
        Key(
            path="limits.requests_burst",
            form=_COUNT,
            default=60_000,
            roles=_PROXY,
            meaning="And how many of them at once.",
        ),
        Key(
            path="limits.node_calls_per_minute",
            form=_COUNT,
            default=120,
            roles=_DECIDING,
            meaning=(
                "Registrations of one Connector in a minute, and at Authority renewals of one node."
            ),
        ),
        Key(
            path="limits.node_calls_burst",
            form=_COUNT,
            default=120,
            roles=_DECIDING,
            meaning="And how many of each at once.",
        ),
        Key(
            path="limits.asks_per_proxy",
            form=f.whole(8, 100_000),
            default=512,
            roles=_AUTHORITY,
            meaning=(
                "Session requests of one Proxy that are in progress at once; one person may have "
                "half as many."
            ),
        ),
        Key(
            path="limits.max_streams",
            form=f.whole(8, 100_000),
            default=4096,
            roles=NODES,
            meaning="Streams one connection may hold.",
        ),
        Key(
            path="limits.max_connections",
            form=_COUNT,
            default=8192,
            roles=NODES,
            meaning=(
                "Connections of one listener; peers without a certificate may use half of them. "
                "A role raises its limit of open files, and warns if that may be too low."
            ),
        ),
        Key(
            path="limits.max_connections_per_address",
            form=_COUNT,
            default=1024,
            roles=_DECIDING,
            meaning=(
                "And how many of them from one IPv4 address or IPv6 /64; raise it behind a NAT."
            ),
        ),
        Key(
            path="limits.connections_per_minute",
            form=_COUNT,
            default=18000,
            roles=_DECIDING,
            meaning=(
                "New connections that one such address may make to a listener in a minute; a "
                "sixth of them may come at once."
            ),
        ),
        Key(
            path="limits.max_handshakes",
            form=f.whole(16, 100_000),
            default=512,
            roles=NODES,
            meaning=(
                "TLS handshakes in progress at once on a listener. Above that the oldest one of "
                "the address with the most is aborted; each uses about 60 KiB."
            ),
        ),
        Key(
            path="limits.handshake_secs",
            form=_SECS,
            default=8,
            roles=ROLES,
            meaning=(
                "How long a TLS handshake may take, here and inside a session. At a listener the "
                "time in the system's accept queue counts; a peer always has at least half."
            ),
        ),
        Key(
            path="limits.drain_secs",
            form=f.seconds(0, 3600),
            default=30,
            roles=NODES,
            meaning="How long a stopping role waits for open sessions.",
        ),
    )


def _oidc() -> tuple[Key, ...]:
    """How people sign in; the names of the keys are recommended by U-OPEN-15."""
    return (
        Key(
            path="oidc.issuer",
            form=f.ISSUER,
            default=None,
            roles=_AUTHORITY,
            meaning=(
                "The identity provider that people sign in at, exactly as it names itself; with"
                " `oidc.client_id`, or neither."
            ),
        ),
        Key(
            path="oidc.client_id",
            form=f.TOKEN,
            default=None,
            roles=_AUTHORITY,
            meaning="The name of this cluster's public client at the provider.",
        ),
        Key(
            path="oidc.flows",
            form=f.OIDC_FLOWS,
            default=["code"],
            roles=_AUTHORITY,
            meaning=(
                "How people may sign in: `code`, in a browser on their machine; `device`, with a"
                " code that is typed on another device, as whoever phishes may ask for; `token`,"
                " with the ID token of a machine."
            ),
        ),
        Key(
            path="oidc.scopes",
            form=f.OIDC_SCOPES,
            default=["openid", "profile", "email", "offline_access"],
            roles=_AUTHORITY,
            meaning=(
                "The scopes to ask for; `openid` is one of them. Without `offline_access` most"
                " providers give no refresh token, and certificates are then not renewed."
            ),
        ),
        Key(
            path="oidc.extra_params",
            form=f.OIDC_PARAMS,
            default={},
            roles=_AUTHORITY,
            meaning=(
                "More parameters of the request for sign-in, such as `prompt`; never a"
                " credential, nor a parameter that the protocol sets."
            ),
        ),
        Key(
            path="oidc.groups_claim",
            form=f.TOKEN,
            default=None,
            roles=_AUTHORITY,
            meaning=(
                "The claim of the ID token that lists a person's groups: at each sign-in and"
                " renewal the person is in those of them that exist here, and in no other."
                " Absent: operators alone decide who is in a group."
            ),
        ),
        Key(
            path="oidc.create_persons",
            form=f.YES_NO,
            default=False,
            roles=_AUTHORITY,
            meaning=(
                "If true, the first sign-in of an account that is nobody's here adds a person;"
                " otherwise it is refused."
            ),
        ),
        Key(
            path="oidc.name_claim",
            form=f.TOKEN,
            default="email",
            roles=_AUTHORITY,
            meaning=(
                "The claim that a person who is added is named by; an `email` counts only if the"
                " provider has verified it."
            ),
        ),
        Key(
            path="oidc.renew_secs",
            form=f.whole(0, 31_536_000),
            default=604_800,
            roles=_AUTHORITY,
            meaning=(
                "How long after a sign-in its certificate is renewed without a new one; 0: never."
            ),
        ),
        Key(
            path="oidc.reach",
            form=f.REACH,
            default=[],
            roles=_AUTHORITY,
            meaning=(
                "Addresses and networks of the provider that are not public; without it only"
                " public addresses are connected to."
            ),
        ),
        Key(
            path="oidc.ca_file",
            form=f.PATH,
            default=None,
            roles=_AUTHORITY,
            meaning=(
                "PEM file of the authorities that the provider's certificate is checked against;"
                " absent: those of the system."
            ),
        ),
        Key(
            path="oidc.device.pending_errors",
            form=f.PENDING_ERRORS,
            default=[],
            roles=_AUTHORITY,
            meaning=(
                "Texts that an `error_description` of `invalid_grant` may start with while the"
                " person has not signed in yet, for providers that do not say"
                " `authorization_pending`."
            ),
        ),
        Key(
            path="oidc.device.interval",
            form=f.whole(1, 300),
            default=None,
            roles=_AUTHORITY,
            meaning="Least seconds between two polls; it can only raise what the provider says.",
        ),
        Key(
            path="oidc.device.expires_in",
            form=f.whole(1, 3600),
            default=None,
            roles=_AUTHORITY,
            meaning="Most seconds that a device code is polled; it can only shorten them.",
        ),
    )


def _accounts() -> tuple[Key, ...]:
    """Of people who sign in without a provider."""
    return (
        Key(
            path="accounts.password_min",
            form=f.whole(8, 128),
            default=PASSWORD_MIN,
            roles=_AUTHORITY,
            meaning="Least characters of a password.",
        ),
        Key(
            path="accounts.renew_secs",
            form=f.whole(0, 31_536_000),
            default=86_400,
            roles=_AUTHORITY,
            meaning=(
                "How long after a sign-in with a password its certificate is renewed without a new"
                " one; 0: never."
            ),
        ),
        Key(
            path="accounts.hash_threads",
            form=f.whole(1, 16),
            default=2,
            roles=_AUTHORITY,
            meaning=(
                "Passwords that are checked at the same time, but always fewer than there are"
                " processors, unless there is one; each takes 19 MiB meanwhile."
            ),
        ),
        *_passkeys(),
    )


def _passkeys() -> tuple[Key, ...]:
    """Of people who sign in with a passkey, in a browser."""
    return (
        Key(
            path="accounts.passkeys.public_name",
            form=PUBLIC_NAME,
            default=None,
            roles=_AUTHORITY,
            meaning=(
                "The DNS name at which people's browsers reach this Authority, with `:PORT` unless"
                " it is 443; passkeys are made for this name and are of no use under another."
                " Absent: no passkeys."
            ),
        ),
        Key(
            path="accounts.passkeys.listen",
            form=f.LISTEN,
            default="",
            roles=_AUTHORITY,
            meaning="Where the sign-in page of that name is served.",
        ),
        Key(
            path="accounts.passkeys.cert",
            form=f.PATH,
            default=None,
            roles=_AUTHORITY,
            meaning=(
                "PEM file with the certificate of that name and its chain, from an authority that"
                " browsers trust; read again when it changes."
            ),
        ),
        Key(
            path="accounts.passkeys.key",
            form=f.PATH,
            default=None,
            roles=_AUTHORITY,
            meaning="PEM file of its private key, which only the Authority's user can read.",
        ),
    )


def _numbers() -> tuple[Key, ...]:
    a, p, c = _AUTHORITY, _PROXY, _CONNECTOR
    return (
        Key(
            path="identity.node_leaf_secs",
            form=f.whole(2, 31_536_000),
            default=86400,
            roles=a,
            meaning="Lifetime of a node's certificate.",
        ),
        Key(
            path="identity.person_leaf_secs",
            form=f.whole(2, 31_536_000),
            default=43200,
            roles=a,
            meaning="Lifetime of a person's certificate.",
        ),
        Key(
            path="identity.issuing_ca_days",
            form=f.whole(1, 3650),
            default=90,
            roles=a,
            meaning=(
                "Lifetime of the issuing CAs that `svc init` makes; existing ones keep theirs."
            ),
        ),
        Key(
            path="identity.join_token_secs",
            form=f.whole(1, 604_800),
            default=3600,
            roles=a,
            meaning="Lifetime of a join token.",
        ),
        Key(
            path="tunnel.keepalive_secs",
            form=_SECS,
            default=15,
            roles=(*p, "connector", "client"),
            meaning="Seconds between pings.",
        ),
        Key(
            path="tunnel.keepalive_timeout_secs",
            form=_SECS,
            default=10,
            roles=(*p, "connector", "client"),
            meaning="How long a ping's answer may take.",
        ),
        Key(
            path="tunnel.lease_secs",
            form=_SECS,
            default=90,
            roles=(*a, "proxy"),
            meaning="Lifetime of a registration's lease.",
        ),
        Key(
            path="tunnel.lease_renew_secs",
            form=_SECS,
            default=30,
            roles=(*a, "proxy", "connector"),
            meaning=(
                "Seconds between a Connector's renewals of the lease, at most a third of it; "
                "the other roles only check that it is not longer than `tunnel.lease_secs`."
            ),
        ),
        Key(
            path="tunnel.backoff_first_secs",
            form=_SECS,
            default=1,
            roles=c,
            meaning="The first wait before a redial.",
        ),
        Key(
            path="tunnel.backoff_max_secs",
            form=_SECS,
            default=60,
            roles=c,
            meaning="The longest wait before a redial.",
        ),
        Key(
            path="audit.head_every_records",
            form=_COUNT,
            default=256,
            roles=a,
            meaning="How many records without a signed head cause one at once.",
        ),
        Key(
            path="audit.head_after_secs",
            form=_SECS,
            default=1,
            roles=a,
            meaning="Longest time from a record to the signed head that covers it.",
        ),
        Key(
            path="audit.witness",
            form=f.WITNESSES,
            default=[],
            roles=a,
            meaning="Files or HTTPS servers that get a copy of each signed head of the audit log.",
        ),
        Key(
            path="audit.requests",
            form=f.one_of("durable", "buffered"),
            default="durable",
            roles=p,
            meaning=(
                "When the record of a request inside a session is on the Proxy's disk: "
                "`durable`, before the request passes; `buffered`, at most a second after, so "
                "that a crash may lose it."
            ),
        ),
        Key(
            path="snapshot.heartbeat_secs",
            form=_SECS,
            default=5,
            roles=a,
            meaning="Seconds between heartbeats to Proxies.",
        ),
        Key(
            path="snapshot.valid_secs",
            form=_SECS,
            default=60,
            roles=a,
            meaning="Age at which a Proxy's policy is stale and it opens no session.",
        ),
        Key(
            path="snapshot.reload_secs",
            form=_SECS,
            default=10,
            roles=a,
            meaning="Seconds between checks of the stored policy.",
        ),
        Key(
            path="access.max_secs",
            form=_SECS,
            default=28800,
            roles=a,
            meaning="The longest access that a person can ask for and another can approve.",
        ),
        Key(
            path="session.reclaim_secs",
            form=_SECS,
            default=60,
            roles=a,
            meaning="How long a restarted Authority waits for a Proxy to claim its sessions.",
        ),
    )


KEYS: tuple[Key, ...] = (
    *_top(),
    *_endpoints(),
    *_telemetry(),
    *_roles(),
    *_policy(),
    *_client(),
    *_wire(),
    *_limits(),
    *_oidc(),
    *_accounts(),
    *_numbers(),
)
"""Every key, in the order of the reference."""
