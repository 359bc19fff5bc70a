"""Every key of the configuration, in one table.

The models that check a file, the reference in ``docs/reference/config.md`` and
the suggestions for misspelled names are all made from it.
"""

from __future__ import annotations

from typing import Any

from attrs import frozen

from svc.config import forms as f

ROLES = ("authority", "proxy", "connector", "all", "client")
NODES = ("authority", "proxy", "connector", "all")
JOINERS = ("proxy", "connector", "all")
"""Whoever joins by its configuration: an Authority is made by ``svc init``, or has its keys."""
_AUTHORITY = ("authority", "all")
_PROXY = ("proxy", "all")
_CONNECTOR = ("connector", "all")
_DECIDING = ("authority", "proxy", "all")

ENVIRONMENT = {
    "SVC_CONFIG": "Path of the configuration where `--config` is not given.",
    "SVC_LOG_FORMAT": "`json`: one JSON object a line; anything else: lines for people.",
    "SVC_CRASH_AT": "A crash point, `name` or `name:N` for the Nth time; in fault tests only.",
    "SVC_REQUIRE_TOOLS": "`1`: a test whose stock tool is missing fails instead of skipping.",
    "SVC_TEST_RUN": "The process that stands for a run of the tests; `make test` sets it.",
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
    """

    path: str
    form: f.Form
    default: Any
    roles: tuple[str, ...]
    meaning: str
    required: tuple[str, ...] = ()
    later: bool = False


_SECS = f.seconds(0.05, 86400)
_COUNT = f.whole(1, 1_000_000)


def _top() -> tuple[Key, ...]:
    return (
        Key(
            "cluster",
            f.CLUSTER,
            None,
            NODES,
            "The cluster's DNS name: the trust domain of every certificate.",
            required=NODES,
        ),
        Key(
            "state_dir",
            f.DIRECTORY,
            None,
            NODES,
            "The role's own directory (0700) for identity, keys, sockets and spools.",
            required=NODES,
        ),
        Key(
            "profile",
            f.PROFILE,
            None,
            ROLES,
            "Deployment label: `profile` on every log line, `deployment` on every series.",
        ),
        Key(
            "store_url",
            f.STORE_URL,
            None,
            _AUTHORITY,
            "The store: `sqlite:///<absolute path>`, or `postgresql://<user>@<host>/<database>` "
            'with `plugins.stores = ["postgresql"]`; a password in it is never shown.',
            required=_AUTHORITY,
        ),
        Key(
            "store_auto_migrate",
            f.YES_NO,
            True,
            _AUTHORITY,
            "Whether the start applies pending migrations; else it waits until they are applied.",
        ),
        Key(
            "store_lease_secs",
            f.seconds(1, 300),
            15,
            _AUTHORITY,
            "On a store that several Authorities share: how long the one that writes may be silent "
            "before another takes over.",
        ),
        Key("license_path", f.PATH, None, _AUTHORITY, "The license file.", later=True),
    )


def _endpoints() -> tuple[Key, ...]:
    return (
        Key(
            "endpoints.public_listen",
            f.LISTEN,
            "",
            _PROXY,
            "Where people and Connectors reach the Proxy.",
            required=_PROXY,
        ),
        Key(
            "endpoints.public_names",
            f.NAMES,
            [],
            _PROXY,
            "The DNS names and IP addresses that people reach the Proxy by. The certificate gets "
            "its names from the join token (`nodes add --public-name`); the log warns of names "
            "that it does not carry.",
        ),
        Key(
            "endpoints.control_listen",
            f.LISTEN,
            "127.0.0.1:7401",
            _AUTHORITY,
            "Where Proxies reach Authority.",
        ),
        Key(
            "endpoints.join_listen",
            f.LISTEN,
            "127.0.0.1:7402",
            _AUTHORITY,
            "Where the join lane ends, and where the first Proxy joins directly.",
        ),
        Key(
            "endpoints.renewal_listen",
            f.LISTEN,
            "127.0.0.1:7403",
            _AUTHORITY,
            "Where the renewal lane ends.",
        ),
        Key(
            "endpoints.admin_listen",
            f.LISTEN,
            "",
            _AUTHORITY,
            "Where the admin lane ends; empty: not listened on.",
            later=True,
        ),
        Key(
            "endpoints.private_listen",
            f.LISTEN,
            "",
            _AUTHORITY,
            "Where the other Authorities on a shared store reach this one; empty: not listened "
            "on. Keep it private.",
        ),
        Key(
            "endpoints.authority",
            f.DIALS,
            [],
            _PROXY,
            "Authority's control addresses, each instance by its own.",
        ),
        Key(
            "endpoints.authority_failover",
            f.DIALS,
            [],
            _PROXY,
            "Further Authority addresses, tried after those.",
        ),
        Key(
            "endpoints.proxy",
            f.DIALS,
            [],
            ("connector", "all", "client"),
            "The Proxies to dial, in order; a Connector keeps `connector.proxy_connection_count` "
            "of them.",
            required=("connector",),
        ),
        Key(
            "endpoints.peer_listen",
            f.LISTEN,
            "",
            _PROXY,
            "Where other Proxies reach this one.",
            later=True,
        ),
        Key(
            "join.token_file",
            f.PATH,
            None,
            JOINERS,
            "File with the one-use join token; ignored once an identity exists.",
        ),
        Key(
            "join.ca_pin",
            f.PIN,
            None,
            JOINERS,
            "SHA-256 of the cluster root; required with a token file.",
        ),
        Key(
            "join.by_key",
            f.YES_NO,
            False,
            JOINERS,
            "Join by the node's own key instead of a token; an operator has named the key's "
            "SHA-256 to `svc authority nodes expect`.",
        ),
        Key(
            "join.authority",
            f.DIAL,
            None,
            JOINERS,
            "Authority's join listener: for the first Proxy, and for a Connector that can reach "
            "it; else a node joins through a Proxy of `endpoints.proxy`.",
        ),
    )


def _telemetry() -> tuple[Key, ...]:
    return (
        Key(
            "telemetry.metrics_listen",
            f.LISTEN,
            "",
            NODES,
            "Plain HTTP listener of /healthz, /readyz and /metrics; empty: none. Keep it private.",
        ),
        Key(
            "telemetry.ready_follows",
            f.YES_NO,
            False,
            _PROXY,
            "Whether a Proxy's `/readyz` turns to 503 while it can open no session (Authority is "
            "not reached, the policy is stale, the audit spool is full), so that a load balancer "
            "goes on to another Proxy. Off: it stays 200, and the body names what is lacking.",
        ),
        Key(
            "telemetry.otel_endpoint",
            f.OTEL_URL,
            None,
            NODES,
            "OTLP/HTTP collector; absent: no trace leaves the process.",
        ),
        Key(
            "doctor.check_interval_secs",
            f.whole(0, 86400),
            0,
            NODES,
            "Seconds between periodic checks; 0: off.",
            later=True,
        ),
    )


def _roles() -> tuple[Key, ...]:
    return (
        Key(
            "authority.name",
            f.NAME,
            None,
            _AUTHORITY,
            "This Authority's name among those on a shared store, under which it holds the lease: "
            "no two have the same. Absent: its node id.",
        ),
        Key(
            "authority.peers",
            f.PEERS,
            {},
            _AUTHORITY,
            "The private address of every Authority on a shared store, this one included, by "
            "`authority.name`; the same table in each.",
        ),
        Key(
            "proxy.public_plaintext",
            f.YES_NO,
            False,
            _PROXY,
            "Serve the public listener without TLS: only health and the join lane answer.",
        ),
        Key(
            "proxy.tls_min_version",
            f.one_of("1.3", "1.2"),
            "1.3",
            _PROXY,
            "The oldest TLS that the public listener takes; `1.2` lets in stock clients and fronts "
            "that have nothing newer. The TLS inside a session is 1.3 whatever this says.",
        ),
        Key(
            "proxy.direct_lane",
            f.YES_NO,
            True,
            _PROXY,
            "Let opaque sessions that carry much leave the tunnel for connections of their own. "
            "Turn it off behind a front that ends TLS or speaks HTTP/2 itself; it is off by itself "
            "where the public listener is plaintext.",
        ),
        Key(
            "proxy.spool_max_bytes",
            f.whole(1 << 24, 1 << 40),
            1 << 28,
            _PROXY,
            "Bytes of the disk that audit rows may fill until Authority has them under a signed "
            "head. One person or Connector fills at most an eighth, and a quarter is kept for the "
            "Proxy's own records. Who needs a record past that is refused (`audit_spool_full`); "
            "raise it to bear longer absences of Authority.",
        ),
        Key(
            "proxy.tls.cert",
            f.PATH,
            None,
            _PROXY,
            "A certificate of your own for the public listener.",
            later=True,
        ),
        Key("proxy.tls.key", f.PATH, None, _PROXY, "Its private key.", later=True),
        Key(
            "connector.reach",
            f.REACH,
            [],
            _CONNECTOR,
            "If any are listed, nothing else is dialed; link-local, metadata and other special "
            "addresses only where they are listed by themselves.",
        ),
        Key(
            "connector.resources",
            f.RESOURCES,
            [],
            _CONNECTOR,
            "The resources served here: `id`, `kind`, `address` and what the kind reads.",
        ),
        Key(
            "connector.proxy_connection_count",
            f.whole(1, 16),
            1,
            _CONNECTOR,
            "How many Proxies of `endpoints.proxy` the Connector keeps a connection to, each to "
            "another Proxy; where one is lost, another address is tried. Two connections to one "
            "Proxy do not count as two.",
        ),
        Key(
            "connector.discovery_sources",
            f.TABLES,
            [],
            _CONNECTOR,
            "Where resources are discovered.",
            later=True,
        ),
        Key(
            "discovery.auto_scopes",
            f.SCOPES,
            [],
            _AUTHORITY,
            "Scopes admitted by themselves; `onward_auth` is required when `kinds` holds ssh.",
            later=True,
        ),
        Key("oidc.issuer", f.TEXT, None, _AUTHORITY, "Identity provider's issuer.", later=True),
        Key("oidc.client_id", f.TEXT, None, _AUTHORITY, "Our client there.", later=True),
        Key(
            "plugins.kinds",
            f.WORDS,
            ["ssh", "tcp"],
            ROLES,
            "The resource kinds in use: installed is not enabled.",
        ),
        Key("plugins.stores", f.WORDS, ["sqlite"], _AUTHORITY, "The stores in use."),
    )


def _client() -> tuple[Key, ...]:
    return (
        Key(
            "client.native_port_offset",
            f.whole(0, 60000),
            10000,
            ("client",),
            "Added to a kind's native port to make the local one.",
        ),
        Key(
            "client.direct_lane_after",
            f.whole(0, 1 << 50),
            1 << 20,
            ("client",),
            "Bytes that an opaque session carries before it asks its Proxy for a direct lane.",
        ),
        Key(
            "client.unprotected_loopback",
            f.YES_NO,
            False,
            ("client",),
            "Open TCP ports although the platform cannot tell whose process connects.",
        ),
    )


def _wire() -> tuple[Key, ...]:
    return (
        Key(
            "limits.max_header_list_bytes",
            f.whole(4096, 65_536),
            16_384,
            ROLES,
            "The longest header list, counted as HTTP/2 counts.",
        ),
        Key(
            "limits.max_nuisances",
            f.whole(50, 1_000_000),
            200,
            ROLES,
            "How many frames of one useless kind (pings, settings, empty data, ...) a connection "
            "bears in 10 s beyond what our own frames ask for.",
        ),
        Key(
            "limits.max_resets",
            f.whole(50, 1_000_000),
            200,
            NODES,
            "How many calls in 10 s may be reset, or broken, unanswered and within a second of "
            "their beginning.",
        ),
        Key(
            "limits.stalled_secs",
            _SECS,
            30,
            ROLES,
            "How long a peer may leave a header block without its end, a call without its first "
            "message, an answer without taking of it; four times as long, bytes unread.",
        ),
        Key(
            "limits.idle_secs",
            _SECS,
            60,
            NODES,
            "How long a connection without a certificate may stand without a call, at least.",
        ),
        Key(
            "limits.least_ping_secs",
            f.seconds(0, 3600),
            5,
            NODES,
            "Least time between pings of a caller who is sent nothing meanwhile; one who pings "
            "sooner a third time is cut off with `too_many_pings`. Keep it below every peer's "
            "`tunnel.keepalive_secs`.",
        ),
    )


def _limits() -> tuple[Key, ...]:
    return (
        Key(
            "limits.anonymous_per_minute",
            _COUNT,
            60,
            _PROXY,
            "Calls one IPv4 address or IPv6 /64 may make in a minute without a certificate; "
            "health checks are not counted.",
        ),
        Key("limits.anonymous_burst", _COUNT, 20, _PROXY, "And how many of them at once."),
        Key("limits.max_sessions_per_person", _COUNT, 256, _PROXY, "Open sessions of one person."),
        Key(
            "limits.opens_per_minute",
            _COUNT,
            3000,
            _DECIDING,
            "Sessions one person may ask for in a minute, at a Proxy and at Authority each; a "
            "list counts as ten. Past it a call is answered RESOURCE_EXHAUSTED with the time to "
            "wait, undecided.",
        ),
        Key("limits.opens_burst", _COUNT, 500, _DECIDING, "And how many of them at once."),
        Key(
            "limits.denials_per_minute",
            _COUNT,
            120,
            _DECIDING,
            "Sessions one person may be refused in a minute, whatever for, before all it asks "
            "for is answered like that.",
        ),
        Key("limits.denials_burst", _COUNT, 200, _DECIDING, "And how many of them at once."),
        Key(
            "limits.node_calls_per_minute",
            _COUNT,
            120,
            _DECIDING,
            "Registrations of one Connector in a minute, and at Authority renewals of one node.",
        ),
        Key("limits.node_calls_burst", _COUNT, 120, _DECIDING, "And how many of each at once."),
        Key(
            "limits.asks_per_proxy",
            f.whole(8, 100_000),
            512,
            _AUTHORITY,
            "Session requests of one Proxy that are in work at once; one person has half as many.",
        ),
        Key(
            "limits.max_streams",
            f.whole(8, 100_000),
            4096,
            NODES,
            "Streams one connection may hold.",
        ),
        Key(
            "limits.max_connections",
            _COUNT,
            8192,
            NODES,
            "Connections one listener holds, half of them kept from peers without a certificate; "
            "a role raises its limit of open files, and warns where it may not be high enough.",
        ),
        Key(
            "limits.max_connections_per_address",
            _COUNT,
            1024,
            _DECIDING,
            "And how many of them from one IPv4 address or IPv6 /64; raise it behind a NAT.",
        ),
        Key(
            "limits.connections_per_minute",
            _COUNT,
            18000,
            _DECIDING,
            "New connections that one of them may make to a listener in a minute; those of ten "
            "seconds may come at once.",
        ),
        Key(
            "limits.max_handshakes",
            f.whole(16, 100_000),
            512,
            NODES,
            "TLS handshakes under way at once on a listener. Past that the oldest of the address "
            "that has the most is broken off; each takes some 60 KiB while it waits.",
        ),
        Key(
            "limits.handshake_secs",
            _SECS,
            8,
            ROLES,
            "How long a TLS handshake may take, here and inside a session. At a listener it counts "
            "from when the system had the connection; half of it is left to whoever waited there.",
        ),
        Key(
            "limits.drain_secs",
            f.seconds(0, 3600),
            30,
            NODES,
            "How long a stopping role waits for open sessions.",
        ),
    )


def _numbers() -> tuple[Key, ...]:
    a, p, c = _AUTHORITY, _PROXY, _CONNECTOR
    return (
        Key(
            "identity.node_leaf_secs",
            f.whole(2, 31_536_000),
            86400,
            a,
            "Life of a node's certificate.",
        ),
        Key(
            "identity.person_leaf_secs",
            f.whole(2, 31_536_000),
            43200,
            a,
            "Life of a person's certificate.",
        ),
        Key(
            "identity.issuing_ca_days",
            f.whole(1, 3650),
            90,
            a,
            "Life of the issuing CAs as `svc init` makes them; those that are there keep theirs.",
        ),
        Key("identity.join_token_secs", f.whole(1, 604_800), 3600, a, "Life of a join token."),
        Key(
            "tunnel.keepalive_secs",
            _SECS,
            15,
            (*p, "connector", "client"),
            "Seconds between pings.",
        ),
        Key(
            "tunnel.keepalive_timeout_secs",
            _SECS,
            10,
            (*p, "connector", "client"),
            "How long a ping's answer may take.",
        ),
        Key("tunnel.lease_secs", _SECS, 90, (*a, "proxy"), "Life of a registration's lease."),
        Key(
            "tunnel.lease_renew_secs",
            _SECS,
            30,
            (*a, "proxy", "connector"),
            "Seconds between a Connector's renewals of the lease, a third of it at most; the other "
            "roles only refuse one that is longer than `tunnel.lease_secs`.",
        ),
        Key("tunnel.backoff_first_secs", _SECS, 1, c, "The first wait before a redial."),
        Key("tunnel.backoff_max_secs", _SECS, 60, c, "The longest wait before a redial."),
        Key(
            "audit.head_every_records",
            _COUNT,
            256,
            a,
            "Records without a signed head that bring one at once.",
        ),
        Key(
            "audit.head_after_secs",
            _SECS,
            1,
            a,
            "How long after a record without a signed head one follows.",
        ),
        Key(
            "audit.witness",
            f.WITNESSES,
            [],
            a,
            "Where each signed head of the audit log is copied to: files or HTTPS servers.",
        ),
        Key(
            "audit.requests",
            f.one_of("durable", "buffered"),
            "durable",
            p,
            "When the record of a request inside a session is on the Proxy's disk: `durable`, "
            "before the request passes; `buffered`, soon after, so that a crash may lose it.",
            later=True,
        ),
        Key("snapshot.heartbeat_secs", _SECS, 5, a, "Seconds between heartbeats to Proxies."),
        Key(
            "snapshot.valid_secs",
            _SECS,
            60,
            a,
            "Age at which a Proxy's policy is stale and every open refused.",
        ),
        Key("snapshot.reload_secs", _SECS, 10, a, "Seconds between looks at the stored policy."),
        Key(
            "session.reclaim_secs",
            _SECS,
            60,
            a,
            "How long a restarted Authority waits for a Proxy to claim its sessions.",
        ),
    )


KEYS: tuple[Key, ...] = (
    *_top(),
    *_endpoints(),
    *_telemetry(),
    *_roles(),
    *_client(),
    *_wire(),
    *_limits(),
    *_numbers(),
)
"""Every key, in the order of the reference."""
