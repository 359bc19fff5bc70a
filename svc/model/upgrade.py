"""The plan of an upgrade: the order of roles, what goes before and after, and the rules of a fleet.

Declared once: ``svc upgrade plan`` and ``docs/reference/upgrade.md`` are made from it, and from
the notes of each release (:mod:`svc.model.upgrade_notes`).
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from svc.errors import Fault, SvcError
from svc.model.release import Version, parse_version
from svc.model.upgrade_notes import NOTES, UpgradeNote


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
    (
        "pause rotation of CAs and keys, and prepare no distribution root, until the upgrade is "
        "verified: `svc --config FILE authority ca rotation pause --reason TEXT`, where the "
        "program has it"
    ),
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
            "svc --config FILE authority keys sync root status",
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
    "resume rotation: `svc --config FILE authority ca rotation resume`",
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
