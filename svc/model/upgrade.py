"""What an upgrade asks for, by the version that it starts from: the table of notes, as data.

Declared once: ``svc upgrade plan`` and ``docs/reference/upgrade.md`` are made from it.  Each row
is kept oldest first, which is the order in which they are applied.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve, frozen

from svc.errors import Fault, SvcError
from svc.model.release import Channel, Version, parse_version


@frozen
class UpgradeNote:
    """What is to be done by whoever starts from an earlier version than this one.

    Attributes:
        before: Whoever starts from a version before it applies the row.
        name: The release, or the line of releases that an upgrade starts from.
    """

    before: Version
    name: str
    actions: tuple[str, ...]

    def is_for(self, start: Version) -> bool:
        """Whether an upgrade from *start* applies it.

        A final release applies the rows of its own candidates, too: none of them undoes
        anything, and which candidates a final release came after is in no record.
        """
        candidate = self.before.channel is Channel.RC
        base = evolve(self.before, channel=Channel.RELEASE, serial=0)
        return start < self.before or (candidate and start == base)


@frozen
class FleetRule:
    """An order between roles of different versions.

    Attributes:
        before: Whoever starts from a version before it heeds the rule; None: everybody.
    """

    situation: str
    rule: str
    before: Version | None = None


@frozen
class RoleStep:
    """One role in the order of the start.

    Attributes:
        actions: What to do with each node, in words.
        checks: Commands that have to succeed before the next role is started.
    """

    role: str
    actions: tuple[str, ...]
    checks: tuple[str, ...]


@frozen
class UpgradePlan:
    """The plan from one version to this one."""

    start: Version
    notes: tuple[UpgradeNote, ...]
    rules: tuple[FleetRule, ...]


class NoUpgrade(SvcError):
    """There is no upgrade from that version to this one."""

    fault = Fault.PRECONDITION
    reason = "no_upgrade"


def _line(major: int, minor: int) -> Version:
    """The version that ends a line of releases: the first one of the next."""
    return Version(major, minor + 1, 0, channel=Channel.ALPHA, serial=1)


NOTES: Sequence[UpgradeNote] = (
    UpgradeNote(
        _line(0, 1),
        "from 0.1.x",
        (
            "rehearse a restore of store and keys in isolation first",
            (
                "before a production client connects, verify version, store, policy, audit log and "
                "readiness: `svc authority status`, `svc authority store migrate --check`, "
                "`svc authority policy show`, `svc authority audit verify`, GET /readyz"
            ),
        ),
    ),
    UpgradeNote(
        _line(0, 2),
        "from 0.2.x",
        (
            "treat it as a migration of identities and data: keep the store and the keys",
            "validate the policy: `svc authority policy check FILE`",
            "use the current command names",
            "do not copy former listener defaults; compare them with the table [endpoints]",
        ),
    ),
    UpgradeNote(
        _line(0, 3),
        "from 0.3.x",
        (
            (
                "review changes of endpoints and of joining; let a node join again only if its "
                "identity cannot be renewed"
            ),
            (
                "after the first start, confirm the fingerprints of the transport CA "
                "(`svc doctor`) and what the catalog declares (`svc authority resources list`)"
            ),
        ),
    ),
    UpgradeNote(
        _line(0, 6),
        "from 0.6.x",
        (
            "back up the store and its keys together: `svc authority backup create`",
            "validate the policy: `svc authority policy check FILE`",
            "check what is pending: `svc authority store migrate --check`",
            "install exactly the planned release",
            (
                "verify that the audit log continues (`svc authority audit verify`) and that "
                "Connectors connect again (`svc authority status`)"
            ),
            "keep a way to restore that was tried",
        ),
    ),
    UpgradeNote(
        parse_version("0.9.0-rc.11"),
        "0.9.0-rc.11",
        (
            (
                'before the new Authority starts, add onward_auth (such as ["certificate"]) to '
                "each entry of discovery.auto_scopes whose kinds contain ssh"
            ),
            (
                "upgrade Proxies together with the Authority: an older Proxy drops new fields, and "
                "`svc authority agents list` shows - under seen"
            ),
            "remove svc-identity headers from scripts that send web requests",
        ),
    ),
    UpgradeNote(
        parse_version("0.10.0-rc.6"),
        "0.10.0-rc.6",
        (
            (
                "give each role a state directory of its own below /var/lib/svc; paths outside of "
                "it, or /var/lib/svc itself, are refused"
            ),
            (
                "run `svc service install ROLE` for every role on the host; a unit that still has "
                "the shared StateDirectory line ends with status 238"
            ),
            "give each Connector a state_dir of its own below /var/lib/svc/connector",
            "give `svc setup apply` as root --approve-plan DIGEST",
            (
                "upgrade Authority and Proxies together: only new Proxies forward "
                "`svc authority users forget-name`"
            ),
        ),
    ),
    UpgradeNote(
        parse_version("0.10.0-rc.7"),
        "0.10.0-rc.7",
        (
            "the store gets m0075 to m0077",
            "require an empty audit queue: svc_audit_outbox_depth is 0 on every Authority",
            "let CA rotations that were asked for finish, and begin none",
            "upgrade all Authorities and Proxies in one window, and Connectors after them",
            "afterwards verify the audit log, and that svc_audit_outbox_depth stays 0",
        ),
    ),
    UpgradeNote(
        parse_version("0.10.0-rc.9"),
        "0.10.0-rc.9",
        (
            "the store gets m0078 and m0079",
            (
                "stop older Proxies and Authorities; upgrade all Authorities in one window, and "
                "migrate with the first"
            ),
            (
                "give each Authority a name of its own (authority.name) and the private addresses "
                "of all others (authority.peers)"
            ),
            "let the TCP load balancer admit followers that are ready",
            "set connector.proxy_connection_count = 2 for a pool of several Proxies",
            "remove affinity by source address from the pool that Connectors dial",
            "run all roles of the pool in the same version",
            "expect open sessions to end: streams do not move to another process",
        ),
    ),
    UpgradeNote(
        parse_version("0.10.0-rc.10"),
        "0.10.0-rc.10",
        (
            (
                "begin no CA rotation until all Authorities have loaded the same keys; upgrading "
                "distributes no key by itself"
            ),
            (
                "clients run `svc --config client.toml up`; native ports move by the default "
                "offset (22 becomes 10022)"
            ),
        ),
    ),
    UpgradeNote(
        parse_version("0.10.0-rc.13"),
        "0.10.0-rc.13",
        (
            "the store gets no migration",
            (
                "upgrade all Authorities before any change of the distribution root is prepared; "
                "never copy a receiver.key from one Authority to another"
            ),
            "check GET /healthz and GET /readyz of each Authority",
            (
                "before a Connector with connector.discovery_sources goes back to an earlier "
                "program, restore the configuration that fits it"
            ),
        ),
    ),
)
"""Oldest first."""

RULES: Sequence[FleetRule] = (
    FleetRule(
        "Proxies older than 0.8.19",
        "upgrade every Proxy before any Authority; otherwise the Authority refuses every "
        "Connector that registers through an old Proxy, until that Proxy is upgraded",
        parse_version("0.8.19"),
    ),
    FleetRule(
        "several Authorities on one store, at 0.10.0-rc.6 or earlier",
        "upgrade only while svc_audit_outbox_depth is 0 on every Authority, or doctor reports "
        "0 rows waiting; otherwise rows that wait are held as unsigned",
        parse_version("0.10.0-rc.7"),
    ),
    FleetRule(
        "an SSH gate that is on",
        "upgrade Connectors before the Authority; otherwise their SSH resources are withheld "
        "(gate_not_offered) until they are upgraded and register again",
    ),
)

BEFORE: Sequence[str] = (
    (
        "note the version, programs, configurations, store and state directories of every node, "
        "and stage the same verified build for all of them: "
        "`svc --config FILE authority preflight --artifacts DIR --pubkey FILE --change-id ID "
        "--out FILE`"
    ),
    "begin no rotation of CAs or keys until the upgrade is verified",
    "close traffic; stop residents, Connectors, Proxies, and then all Authorities",
    (
        "back up the store and its keys together, and the files of every node: "
        "`svc --config FILE authority backup create --out DIR --encrypt-to RECIPIENT`"
    ),
    "replace each program by renaming the new file over it, and compare its checksum",
    (
        "migrate each store once: `svc --config FILE authority store migrate --check`, "
        "`svc --config FILE authority store migrate`, "
        "`svc --config FILE authority store migrate --check`"
    ),
    (
        "on hosts with systemd, write the unit of each role again: "
        "`svc --config FILE service install ROLE`"
    ),
)
"""Before anything is started, in this order."""

ORDER: Sequence[RoleStep] = (
    RoleStep(
        "authority",
        ("one at a time",),
        (
            "svc --config FILE doctor --role authority --json",
            "svc --config FILE authority store migrate --check",
            "svc --config FILE authority audit verify",
            "GET /healthz and GET /readyz: 200",
            "svc --config FILE authority status --json",
        ),
    ),
    RoleStep(
        "proxy",
        ("all of them",),
        ("svc --config FILE doctor --role proxy --json", "GET /healthz and GET /readyz: 200"),
    ),
    RoleStep(
        "connector",
        (
            (
                "all of them; not_in_catalog means that a resource is not declared or not "
                "assigned, and not that the Connector has to join again"
            ),
        ),
        (
            "svc --config FILE doctor --role connector --json",
            "svc --config FILE authority resources list",
        ),
    ),
    RoleStep(
        "client",
        ("restart `svc up`",),
        (
            "svc contexts list",
            "svc contexts show NAME",
            "svc status --refresh --explain",
            "svc resources list",
        ),
    ),
)
"""Who is started in which order; each is checked before the next."""

AFTER: Sequence[str] = (
    "compare `svc --config FILE authority status --json` with what it was before",
    (
        "try a session that is allowed and one that is denied, and look for both in the audit log: "
        "`svc --config FILE authority audit show --last 10`"
    ),
    "verify the audit log: `svc --config FILE authority audit verify`",
    "open traffic",
)
"""Once all is started."""


def plan_from(start: Version, to: Version) -> UpgradePlan:
    """The rows and rules for an upgrade from *start* to *to*, oldest first.

    Raises:
        NoUpgrade: *start* is not before *to*.
    """
    if start >= to:
        what = "is this version" if start == to else f"is newer than this version, {to}"
        raise NoUpgrade(
            f"{start}: {what}; ask the program of the release that you upgrade to, and to go back "
            "restore the backup that was made before the upgrade"
        )
    return UpgradePlan(
        start=start,
        notes=tuple(note for note in NOTES if note.is_for(start)),
        rules=tuple(rule for rule in RULES if rule.before is None or start < rule.before),
    )
