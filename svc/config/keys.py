"""Every key of the configuration, in one table.

The models that check a file, the reference in ``docs/reference/config.md`` and
the suggestions for misspelled names are all made from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from attrs import field, frozen

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

REFUSED_STATUS = "SVC_REFUSED_STATUS"
ENVIRONMENT = {
    "SVC_CONFIG": "Path of the configuration where `--config` is not given.",
    "SVC_ID_TOKEN": "An ID token for this cluster, for `svc login` of a machine.",
    "SVC_LOG_FORMAT": "`json`: one JSON object a line; anything else: lines for people.",
    REFUSED_STATUS: "The status with which a role or `svc up` ends if its configuration is "
    "refused, in place of 1; the units of `svc service install` set 78, and do not try it again.",
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
        meaning: One sentence for the reference.
        roles: Who reads it.
        default: The TOML value that its absence means; None for no value.
        required: The roles that do not start without it.
        later: This build checks its form and refuses any value but the default.
        defaults: The roles for which its absence means something else.
        reloads: A running role takes a new value without a restart.
    """

    path: str
    form: f.Form
    meaning: str
    roles: tuple[str, ...] = field(kw_only=True)
    default: Any = field(kw_only=True, default=None)
    required: tuple[str, ...] = ()
    later: bool = False
    defaults: Mapping[str, Any] = MappingProxyType({})
    reloads: bool = False


_SECS = f.seconds(0.05, 86400)
_COUNT = f.whole(1, 1_000_000)


def _top() -> tuple[Key, ...]:
    return (
        Key(
            "cluster",
            f.CLUSTER,
            "The cluster's DNS name: the trust domain of every certificate.",
            roles=NODES,
            required=NODES,
        ),
        Key(
            "state_dir",
            f.DIRECTORY,
            "The role's own directory (0700) for identity, keys, sockets and spools.",
            roles=NODES,
            required=NODES,
        ),
        Key(
            "profile",
            f.PROFILE,
            "Deployment label: `profile` on every log line, `deployment` on every series.",
            roles=ROLES,
        ),
        Key(
            "store_url",
            f.STORE_URL,
            "The store: `sqlite:///<absolute path>`, or "
            "`postgresql://<user>@<host>/<database>` with `plugins.stores = "
            '["postgresql"]`. A password is not written here: `passfile` in the URL names its '
            "file, or `SVC_STORE_URL` in the environment gives the whole URL.",
            roles=_AUTHORITY,
            required=_AUTHORITY,
        ),
        Key(
            "store_auto_migrate",
            f.YES_NO,
            "If true, the start applies pending migrations; otherwise it waits until they "
            "are applied.",
            default=True,
            roles=_AUTHORITY,
        ),
        Key(
            "store_lease_secs",
            f.seconds(1, 300),
            "On a store that several Authorities share: how long the leader may be silent "
            "before a standby takes over.",
            default=15,
            roles=_AUTHORITY,
        ),
        Key(
            "license_path",
            f.PATH,
            "The license file, read at start. Nothing depends on there being one: without it, "
            "or with one that is invalid or expired, everything works, and `svc doctor` warns of "
            "the latter two.",
            roles=_AUTHORITY,
        ),
    )


def _endpoints() -> tuple[Key, ...]:
    return (
        Key(
            "endpoints.public_listen",
            f.LISTEN,
            "Where people and Connectors reach the Proxy.",
            default="",
            roles=_PROXY,
            required=_PROXY,
        ),
        Key(
            "endpoints.public_names",
            f.NAMES,
            "The DNS names and IP addresses that people reach the Proxy by. The "
            "certificate gets its names from the join token (`nodes add --public-name`); "
            "the log warns of names that are missing from it.",
            default=[],
            roles=_PROXY,
        ),
        Key(
            "endpoints.control_listen",
            f.LISTEN,
            "Where Proxies reach Authority.",
            default="127.0.0.1:7401",
            roles=_AUTHORITY,
        ),
        Key(
            "endpoints.join_listen",
            f.LISTEN,
            "Where the join lane ends, and where the first Proxy joins directly.",
            default="127.0.0.1:7402",
            roles=_AUTHORITY,
        ),
        Key(
            "endpoints.renewal_listen",
            f.LISTEN,
            "Where the renewal lane ends.",
            default="127.0.0.1:7403",
            roles=_AUTHORITY,
        ),
        Key(
            "endpoints.admin_listen",
            f.LISTEN,
            "Where the admin lane ends, through which people administer the gateway from "
            "anywhere; empty: no listener.",
            default="",
            roles=_AUTHORITY,
        ),
        Key(
            "page.listen",
            f.LISTEN,
            "A loopback address where a Connector on this machine finds the browser page;"
            " empty: no page.",
            default="",
            roles=_AUTHORITY,
        ),
        Key(
            "page.resource",
            f.NAME,
            "The id of the `web` resource that the page is.",
            default="svc-page",
            roles=_AUTHORITY,
        ),
        Key(
            "endpoints.private_listen",
            f.LISTEN,
            "Where the other Authorities on a shared store reach this one; empty: no "
            "listener. Keep it private.",
            default="",
            roles=_AUTHORITY,
        ),
        Key(
            "endpoints.authority",
            f.DIALS,
            "Authority's control addresses, one for each instance.",
            default=[],
            roles=_PROXY,
        ),
        Key(
            "endpoints.authority_failover",
            f.DIALS,
            "Further Authority addresses, tried after those.",
            default=[],
            roles=_PROXY,
        ),
        Key(
            "endpoints.proxy",
            f.DIALS,
            "The Proxies to dial, in order; a Connector keeps "
            "`connector.proxy_connection_count` of them.",
            default=[],
            roles=("connector", "all", "client"),
            required=("connector",),
        ),
        Key(
            "endpoints.peer_listen",
            f.LISTEN,
            "Experimental: a private address where other Proxies reach this one, so that sessions "
            "can be relayed between them; empty: no listener, and none are.",
            default="",
            roles=_PROXY,
        ),
        Key(
            "endpoints.peer_address",
            f.DIAL,
            "What other Proxies dial to reach `endpoints.peer_listen`; absent: that address.",
            roles=_PROXY,
        ),
        Key(
            "join.token_file",
            f.PATH,
            "File with the one-use join token; ignored once an identity exists.",
            roles=JOINERS,
        ),
        Key(
            "join.ca_pin",
            f.PIN,
            "SHA-256 of the cluster root; required with a token file.",
            roles=JOINERS,
        ),
        Key(
            "join.by_key",
            f.YES_NO,
            "Join by the node's own key instead of a token; an operator first registers the "
            "key's SHA-256 with `svc authority nodes expect`.",
            default=False,
            roles=JOINERS,
        ),
        Key(
            "join.authority",
            f.DIAL,
            "Authority's join listener: for the first Proxy, and for a Connector that can"
            " reach it; other nodes join through a Proxy of `endpoints.proxy`.",
            roles=JOINERS,
        ),
    )


def _telemetry() -> tuple[Key, ...]:
    return (
        Key(
            "telemetry.metrics_listen",
            f.LISTEN,
            "Plain HTTP listener of /healthz, /readyz and /metrics, and of /jwks.json on an "
            "Authority; empty: none. Keep it private.",
            default="",
            roles=NODES,
        ),
        Key(
            "telemetry.ready_follows",
            f.YES_NO,
            "If true, a Proxy's `/readyz` answers 503 while no session can open (Authority "
            "cannot be reached, the policy is stale, the audit spool is full), so that a "
            "load balancer uses another Proxy; otherwise it answers 200. The body names what "
            "is missing in either case.",
            default=False,
            roles=_PROXY,
            reloads=True,
        ),
        Key(
            "telemetry.otel_endpoint",
            f.OTEL_URL,
            "OTLP/HTTP collector; absent: no trace leaves the process.",
            roles=NODES,
        ),
        Key(
            "doctor.check_interval_secs",
            f.whole(0, 86400),
            "Seconds between periodic runs of the checks of `svc doctor`, which set the series "
            "`svc_doctor_...`; 0: off.",
            default=0,
            roles=NODES,
            reloads=True,
        ),
    )


def _roles() -> tuple[Key, ...]:
    return (
        Key(
            "authority.name",
            f.NAME,
            "This Authority's unique name among those on a shared store; it holds the lease "
            "under this name. Absent: its node id.",
            roles=_AUTHORITY,
        ),
        Key(
            "authority.peers",
            f.PEERS,
            "The private address of every Authority on a shared store, this one included,"
            " by `authority.name`; the same table in each.",
            default={},
            roles=_AUTHORITY,
        ),
        Key(
            "proxy.public_plaintext",
            f.YES_NO,
            "Serve the public listener without TLS: health and the join lane only.",
            default=False,
            roles=_PROXY,
        ),
        Key(
            "proxy.tls_min_version",
            f.one_of("1.3", "1.2"),
            "The oldest TLS version that the public listener accepts; `1.2` accepts clients "
            "and load balancers that have nothing newer. The TLS inside a session is "
            "always 1.3.",
            default="1.3",
            roles=_PROXY,
        ),
        Key(
            "proxy.direct_lane",
            f.YES_NO,
            "Let opaque sessions that carry much data move from the tunnel to connections of "
            "their own. Turn it off behind a load balancer that terminates TLS or HTTP/2; "
            "it is off where the public listener is plaintext.",
            default=True,
            roles=_PROXY,
        ),
        Key(
            "proxy.spool_max_bytes",
            f.whole(1 << 24, 1 << 40),
            "Disk space in bytes for audit rows that no signed head covers yet. One person or "
            "Connector may use an eighth, and a quarter is reserved for the Proxy's own "
            "records. A session that does not fit is refused (`audit_spool_full`); raise it "
            "to work longer without Authority.",
            default=1 << 28,
            roles=_PROXY,
        ),
        Key(
            "proxy.tls.cert",
            f.PATH,
            "Reserved for a certificate of your own: the public listener shows the Proxy's, which "
            "everybody who calls checks against the cluster's root.",
            roles=_PROXY,
            later=True,
        ),
        Key("proxy.tls.key", f.PATH, "Its private key.", roles=_PROXY, later=True),
        Key(
            "connector.reach",
            f.REACH,
            "If any are listed, nothing else is dialed; link-local, metadata and other "
            "special addresses are dialed only if listed explicitly.",
            default=[],
            roles=_CONNECTOR,
            reloads=True,
        ),
        Key(
            "connector.resources",
            f.RESOURCES,
            "The resources served here: `id`, `kind`, `address` and the keys of the kind.",
            default=[],
            roles=_CONNECTOR,
        ),
        Key(
            "connector.proxy_connection_count",
            f.whole(1, 16),
            "How many different Proxies of `endpoints.proxy` the Connector stays connected "
            "to; when a connection is lost, another address is tried. Two connections to one "
            "Proxy count once.",
            default=1,
            roles=_CONNECTOR,
        ),
        Key(
            "connector.discovery_sources",
            f.SOURCES,
            "Where resources are discovered: `name`, `source` (a drop-in of `plugins.sources`), "
            "`every_secs` (how often it is looked at) and the keys of the source.",
            default=[],
            roles=_CONNECTOR,
        ),
        Key(
            "discovery.auto_scopes",
            f.SCOPES,
            "Which of what Connectors discover enters the catalog by itself: `name`, `kinds`, "
            "`onward_auth` (required when `kinds` holds ssh), `connectors`, `id_prefix`, "
            "`match_labels`, `labels`.",
            default=[],
            roles=_AUTHORITY,
        ),
        Key(
            "discovery.lease_secs",
            _SECS,
            "For how long what a Connector published holds; the Connector renews it three times "
            "as often. After another Authority began to lead, 15 seconds longer.",
            default=90,
            roles=_AUTHORITY,
        ),
        Key(
            "plugins.kinds",
            f.WORDS,
            "The resource kinds in use: a drop-in that is installed is not enabled before it "
            "is named here.",
            default=["ssh", "tcp"],
            roles=ROLES,
            defaults={"client": list(BUILT_IN_KINDS)},
        ),
        Key("plugins.stores", f.WORDS, "The stores in use.", default=["sqlite"], roles=_AUTHORITY),
        Key(
            "plugins.sources",
            f.WORDS,
            "The discovery sources in use.",
            default=["file"],
            roles=_CONNECTOR,
        ),
        Key(
            "plugins.checks",
            f.WORDS,
            "Drop-ins whose checks `svc doctor` makes besides its own.",
            default=[],
            roles=ROLES,
        ),
    )


def _policy() -> tuple[Key, ...]:
    return (
        Key(
            "policy.approvals",
            f.whole(0, 2),
            "How many people other than the proposer approve a policy before it can be "
            "activated; 0: `policy set` activates at once. With 1 or 2, a security-sensitive "
            "change needs 2, and one that an operator of the control socket proposes needs "
            "one more.",
            default=0,
            roles=_AUTHORITY,
        ),
        Key(
            "policy.break_glass",
            f.Form("a list of ids of people and local:<uid>", list[str], principals),
            "Who may read and set policies even if the policy lets nobody: ids of people, and "
            "`local:<uid>` for users of the control socket. Each use is recorded.",
            default=[],
            roles=_AUTHORITY,
        ),
    )


def _client() -> tuple[Key, ...]:
    return (
        Key(
            "client.native_port_offset",
            f.whole(0, 60000),
            "Added to a kind's native port to make the local one; 0: it is the native port, of "
            "which one below 1024 needs a privilege.",
            default=10000,
            roles=("client",),
        ),
        Key(
            "client.direct_lane_after",
            f.whole(0, 1 << 50),
            "Bytes that an opaque session carries before it asks its Proxy for a direct lane; "
            "it asks sooner if it has carried 64 messages; 0: with its first bytes.",
            default=1 << 20,
            roles=("client",),
        ),
        Key(
            "client.unprotected_loopback",
            f.YES_NO,
            "Open TCP ports even if the platform cannot tell which user connects.",
            default=False,
            roles=("client",),
        ),
    )


def _wire() -> tuple[Key, ...]:
    return (
        Key(
            "limits.max_header_list_bytes",
            f.whole(4096, 65_536),
            "The longest header list, counted as HTTP/2 counts.",
            default=16_384,
            roles=ROLES,
        ),
        Key(
            "limits.max_nuisances",
            f.whole(50, 1_000_000),
            "How many frames of one kind that does no work (pings, settings, empty data, "
            "...) a connection accepts in 10 s beyond the answers to its own frames.",
            default=200,
            roles=ROLES,
        ),
        Key(
            "limits.max_resets",
            f.whole(50, 1_000_000),
            "How many calls in 10 s a peer may reset, or break, unanswered and within a "
            "second of their start.",
            default=200,
            roles=NODES,
        ),
        Key(
            "limits.stalled_secs",
            _SECS,
            "How long a peer may leave a header block unfinished, a call without its first "
            "message, or an answer unread; it may leave bytes unread four times as long.",
            default=30,
            roles=ROLES,
        ),
        Key(
            "limits.idle_secs",
            _SECS,
            "Minimum time that a connection without a certificate may stay open without a call.",
            default=60,
            roles=NODES,
        ),
        Key(
            "limits.least_ping_secs",
            f.seconds(0, 3600),
            "Minimum time between pings of a caller to whom nothing is sent; the third ping "
            "that comes too early closes the connection with `too_many_pings`. Keep it below "
            "every peer's `tunnel.keepalive_secs`; 0: any time.",
            default=5,
            roles=NODES,
        ),
    )


def _limits() -> tuple[Key, ...]:
    return (
        Key(
            "limits.anonymous_per_minute",
            _COUNT,
            "Calls one IPv4 address or IPv6 /64 may make in a minute without a "
            "certificate; health checks are not counted.",
            default=60,
            roles=_PROXY,
            reloads=True,
        ),
        Key(
            "limits.anonymous_burst",
            _COUNT,
            "And how many of them at once.",
            default=20,
            roles=_PROXY,
            reloads=True,
        ),
        Key(
            "limits.max_sessions_per_person",
            _COUNT,
            "Open sessions of one person.",
            default=256,
            roles=_PROXY,
            reloads=True,
        ),
        Key(
            "limits.opens_per_minute",
            _COUNT,
            "Sessions one person may request in a minute, counted at a Proxy and at "
            "Authority separately; a list counts as ten. Above it a call is answered "
            "RESOURCE_EXHAUSTED with the time to wait, without a decision.",
            default=3000,
            roles=_DECIDING,
            reloads=True,
        ),
        Key(
            "limits.opens_burst",
            _COUNT,
            "And how many of them at once.",
            default=500,
            roles=_DECIDING,
            reloads=True,
        ),
        Key(
            "limits.denials_per_minute",
            _COUNT,
            "Refused sessions of one person in a minute, for any reason; above it every "
            "request is answered the same way.",
            default=120,
            roles=_DECIDING,
            reloads=True,
        ),
        Key(
            "limits.denials_burst",
            _COUNT,
            "And how many of them at once.",
            default=200,
            roles=_DECIDING,
            reloads=True,
        ),
        Key(
            "limits.requests_per_minute",
            _COUNT,
            "Requests inside one person's sessions in a minute, such as statements; above it "
            "each is denied in its protocol's form, undecided and without a record.",
            default=600_000,
            roles=_PROXY,
            reloads=True,
        ),
        Key(
            "limits.requests_burst",
            _COUNT,
            "And how many of them at once.",
            default=60_000,
            roles=_PROXY,
            reloads=True,
        ),
        Key(
            "limits.node_calls_per_minute",
            _COUNT,
            "Registrations of one Connector in a minute, and at Authority renewals of one node.",
            default=120,
            roles=_DECIDING,
            reloads=True,
        ),
        Key(
            "limits.node_calls_burst",
            _COUNT,
            "And how many of each at once.",
            default=120,
            roles=_DECIDING,
            reloads=True,
        ),
        Key(
            "limits.asks_per_proxy",
            f.whole(8, 100_000),
            "Session requests of one Proxy that are in progress at once; one person may have "
            "half as many.",
            default=512,
            roles=_AUTHORITY,
            reloads=True,
        ),
        Key(
            "limits.max_streams",
            f.whole(8, 100_000),
            "Streams one connection may hold.",
            default=4096,
            roles=NODES,
        ),
        Key(
            "limits.max_connections",
            _COUNT,
            "Connections of one listener; peers without a certificate may use half of them. "
            "A role raises its limit of open files, and warns if that may be too low.",
            default=8192,
            roles=NODES,
        ),
        Key(
            "limits.max_connections_per_address",
            _COUNT,
            "And how many of them from one IPv4 address or IPv6 /64; raise it behind a NAT.",
            default=1024,
            roles=_DECIDING,
        ),
        Key(
            "limits.connections_per_minute",
            _COUNT,
            "New connections that one such address may make to a listener in a minute; a "
            "sixth of them may come at once.",
            default=18000,
            roles=_DECIDING,
        ),
        Key(
            "limits.max_handshakes",
            f.whole(16, 100_000),
            "TLS handshakes in progress at once on a listener. Above that the oldest one of "
            "the address with the most is aborted; each uses about 60 KiB.",
            default=512,
            roles=NODES,
        ),
        Key(
            "limits.handshake_secs",
            _SECS,
            "How long a TLS handshake may take, here and inside a session. At a listener the "
            "time in the system's accept queue counts; a peer always has at least half.",
            default=8,
            roles=ROLES,
        ),
        Key(
            "limits.drain_secs",
            f.seconds(0, 3600),
            "How long a stopping role waits for open sessions; 0: not at all.",
            default=30,
            roles=NODES,
        ),
    )


def _oidc() -> tuple[Key, ...]:
    """How people sign in; the names of the keys are recommended by U-OPEN-15."""
    return (
        Key(
            "oidc.issuer",
            f.ISSUER,
            "The identity provider that people sign in at, exactly as it names itself; with"
            " `oidc.client_id`, or neither.",
            roles=_AUTHORITY,
        ),
        Key(
            "oidc.client_id",
            f.TOKEN,
            "The name of this cluster's public client at the provider.",
            roles=_AUTHORITY,
        ),
        Key(
            "oidc.flows",
            f.OIDC_FLOWS,
            "How people may sign in: `code`, in a browser on their machine; `device`, with a"
            " code that is typed on another device, as whoever phishes may ask for; `token`,"
            " with the ID token of a machine.",
            default=["code"],
            roles=_AUTHORITY,
        ),
        Key(
            "oidc.scopes",
            f.OIDC_SCOPES,
            "The scopes to ask for; `openid` is one of them. Without `offline_access` most"
            " providers give no refresh token, and certificates are then not renewed.",
            default=["openid", "profile", "email", "offline_access"],
            roles=_AUTHORITY,
        ),
        Key(
            "oidc.extra_params",
            f.OIDC_PARAMS,
            "More parameters of the request for sign-in, such as `prompt`; never a"
            " credential, nor a parameter that the protocol sets.",
            default={},
            roles=_AUTHORITY,
        ),
        Key(
            "oidc.groups_claim",
            f.TOKEN,
            "The claim of the ID token that lists a person's groups: at each sign-in and"
            " renewal the person is in those of them that exist here, and in no other."
            " Absent: operators alone decide who is in a group.",
            roles=_AUTHORITY,
        ),
        Key(
            "oidc.create_persons",
            f.YES_NO,
            "If true, the first sign-in of an account that is nobody's here adds a person;"
            " otherwise it is refused.",
            default=False,
            roles=_AUTHORITY,
        ),
        Key(
            "oidc.name_claim",
            f.TOKEN,
            "The claim that a person who is added is named by; an `email` counts only if the"
            " provider has verified it.",
            default="email",
            roles=_AUTHORITY,
        ),
        Key(
            "oidc.renew_secs",
            f.whole(0, 31_536_000),
            "How long after a sign-in its certificate is renewed without a new one; 0: never.",
            default=604_800,
            roles=_AUTHORITY,
        ),
        Key(
            "oidc.reach",
            f.REACH,
            "Addresses and networks of the provider that are not public; without it only"
            " public addresses are connected to.",
            default=[],
            roles=_AUTHORITY,
        ),
        Key(
            "oidc.ca_file",
            f.PATH,
            "PEM file of the authorities that the provider's certificate is checked against;"
            " absent: those of the system.",
            roles=_AUTHORITY,
        ),
        Key(
            "oidc.device.pending_errors",
            f.PENDING_ERRORS,
            "Texts that an `error_description` of `invalid_grant` may start with while the"
            " person has not signed in yet, for providers that do not say"
            " `authorization_pending`.",
            default=[],
            roles=_AUTHORITY,
        ),
        Key(
            "oidc.device.interval",
            f.whole(1, 300),
            "Least seconds between two polls; it can only raise what the provider says.",
            roles=_AUTHORITY,
        ),
        Key(
            "oidc.device.expires_in",
            f.whole(1, 3600),
            "Most seconds that a device code is polled; it can only shorten them.",
            roles=_AUTHORITY,
        ),
    )


def _accounts() -> tuple[Key, ...]:
    """Of people who sign in without a provider."""
    return (
        Key(
            "accounts.password_min",
            f.whole(8, 128),
            "Least characters of a password.",
            default=PASSWORD_MIN,
            roles=_AUTHORITY,
        ),
        Key(
            "accounts.renew_secs",
            f.whole(0, 31_536_000),
            "How long after a sign-in with a password its certificate is renewed without a new"
            " one; 0: never.",
            default=86_400,
            roles=_AUTHORITY,
        ),
        Key(
            "accounts.hash_threads",
            f.whole(1, 16),
            "Passwords that are checked at the same time, but always fewer than there are"
            " processors, unless there is one; each takes 19 MiB meanwhile.",
            default=2,
            roles=_AUTHORITY,
        ),
        *_passkeys(),
    )


def _passkeys() -> tuple[Key, ...]:
    """Of people who sign in with a passkey, in a browser."""
    return (
        Key(
            "accounts.passkeys.public_name",
            PUBLIC_NAME,
            "The DNS name at which people's browsers reach this Authority, with `:PORT` unless"
            " it is 443; passkeys are made for this name and are of no use under another."
            " Absent: no passkeys.",
            roles=_AUTHORITY,
        ),
        Key(
            "accounts.passkeys.listen",
            f.LISTEN,
            "Where the sign-in page of that name is served.",
            default="",
            roles=_AUTHORITY,
        ),
        Key(
            "accounts.passkeys.cert",
            f.PATH,
            "PEM file with the certificate of that name and its chain, from an authority that"
            " browsers trust; read again when it changes.",
            roles=_AUTHORITY,
        ),
        Key(
            "accounts.passkeys.key",
            f.PATH,
            "PEM file of its private key, which only the Authority's user can read.",
            roles=_AUTHORITY,
        ),
    )


def _of_keys() -> tuple[Key, ...]:
    return (
        Key(
            "keys.automatic_distribution",
            f.YES_NO,
            "Distribute the files of `keys/` to the other Authorities, and take them from there, "
            "sealed under the distribution root in force. Off: an operator copies them.",
            default=False,
            roles=_AUTHORITY,
        ),
    )


def _recordings() -> tuple[Key, ...]:
    return (
        Key(
            "recordings.buffer_max_bytes",
            f.whole(1 << 20, 1 << 40),
            "Disk space in bytes for recordings that Authority does not have yet. A session that "
            "has to be recorded does not open, or ends, when it is used up.",
            default=1 << 30,
            roles=_CONNECTOR,
            reloads=True,
        ),
        Key(
            "recordings.session_max_bytes",
            f.whole(1 << 12, 1 << 34),
            "How much one session may record, in bytes; one that has to be recorded then ends.",
            default=1 << 28,
            roles=_CONNECTOR,
            reloads=True,
        ),
        Key(
            "recordings.command_max_bytes",
            f.whole(0, 1 << 34),
            "How much of the output of one command without a terminal is recorded, in bytes; the "
            "rest passes and is only counted; 0: nothing of it is recorded.",
            default=1 << 20,
            roles=_CONNECTOR,
            reloads=True,
        ),
        Key(
            "recordings.directory",
            f.PATH,
            "Where recordings are kept, sealed. Absent: `recordings` in `state_dir`. Several "
            "Authorities need one directory that all of them reach.",
            roles=_AUTHORITY,
        ),
        Key(
            "recordings.max_bytes",
            f.whole(1 << 20, 1 << 50),
            "Disk space in bytes for all recordings; beyond it they wait at their Connectors.",
            default=1 << 36,
            roles=_AUTHORITY,
        ),
        Key(
            "recordings.lost_after_secs",
            f.seconds(1, 31_536_000),
            "A recording of which nothing has arrived for so long is on record as lost.",
            default=604_800,
            roles=_AUTHORITY,
        ),
        Key(
            "recordings.keep_days",
            f.whole(0, 36_500),
            "A recording is removed so many days after its session; 0: never.",
            default=0,
            roles=_AUTHORITY,
        ),
    )


def _numbers() -> tuple[Key, ...]:
    a, p, c = _AUTHORITY, _PROXY, _CONNECTOR
    return (
        Key(
            "identity.node_leaf_secs",
            f.whole(2, 31_536_000),
            "Lifetime of a node's certificate.",
            default=86400,
            roles=a,
        ),
        Key(
            "identity.person_leaf_secs",
            f.whole(2, 31_536_000),
            "Lifetime of a person's certificate.",
            default=43200,
            roles=a,
        ),
        Key(
            "identity.issuing_ca_days",
            f.whole(1, 3650),
            "Lifetime of the issuing CAs that `svc init` makes; existing ones keep theirs.",
            default=90,
            roles=a,
        ),
        Key(
            "identity.join_token_secs",
            f.whole(1, 604_800),
            "Lifetime of a join token.",
            default=3600,
            roles=a,
        ),
        Key(
            "tunnel.keepalive_secs",
            _SECS,
            "Seconds of silence before a ping.  Where both ends ask, the one that dialed pings "
            "a tenth sooner, and the other hears that and does not.",
            default=15,
            roles=(*p, "connector", "client"),
        ),
        Key(
            "tunnel.keepalive_timeout_secs",
            _SECS,
            "How long a ping's answer may take.",
            default=10,
            roles=(*p, "connector", "client"),
        ),
        Key(
            "tunnel.lease_secs",
            _SECS,
            "Lifetime of a registration's lease.",
            default=90,
            roles=(*a, "proxy"),
        ),
        Key(
            "tunnel.lease_renew_secs",
            _SECS,
            "Longest time between a Connector's renewals of the lease, and at most a third of it "
            "(they come a little earlier, in place of a keepalive ping); "
            "the other roles only check that it is not longer than `tunnel.lease_secs`.",
            default=30,
            roles=(*a, "proxy", "connector"),
        ),
        Key(
            "tunnel.backoff_first_secs",
            _SECS,
            "The first wait before a redial.",
            default=1,
            roles=c,
        ),
        Key(
            "tunnel.backoff_max_secs",
            _SECS,
            "The longest wait before a redial.",
            default=60,
            roles=c,
        ),
        Key(
            "audit.head_every_records",
            _COUNT,
            "How many records without a signed head cause one at once.",
            default=256,
            roles=a,
        ),
        Key(
            "audit.head_after_secs",
            _SECS,
            "Longest time from a record to the signed head that covers it.",
            default=1,
            roles=a,
        ),
        Key(
            "audit.witness",
            f.WITNESSES,
            "Files or HTTPS servers that get a copy of each signed head of the audit log.",
            default=[],
            roles=a,
        ),
        Key(
            "audit.requests",
            f.one_of("durable", "buffered"),
            "When the record of a request inside a session is on the Proxy's disk: "
            "`durable`, before the request passes; `buffered`, at most a second after, so "
            "that a crash may lose it.",
            default="durable",
            roles=p,
        ),
        Key(
            "snapshot.heartbeat_secs",
            _SECS,
            "Seconds between heartbeats to Proxies.",
            default=5,
            roles=a,
        ),
        Key(
            "snapshot.valid_secs",
            _SECS,
            "Age at which a Proxy's policy is stale and it opens no session.",
            default=60,
            roles=a,
        ),
        Key(
            "snapshot.reload_secs",
            _SECS,
            "Seconds between checks of the stored policy.",
            default=10,
            roles=a,
        ),
        Key(
            "access.max_secs",
            _SECS,
            "The longest access that a person can ask for and another can approve.",
            default=28800,
            roles=a,
        ),
        Key(
            "session.reclaim_secs",
            _SECS,
            "How long a Proxy that is away may come back and claim its sessions before they are "
            "recorded as abandoned; after a restart of the Authority, too.",
            default=60,
            roles=a,
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
    *_recordings(),
    *_of_keys(),
    *_numbers(),
)
"""Every key, in the order of the reference."""
