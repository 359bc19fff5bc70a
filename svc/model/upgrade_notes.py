"""What each release asks of an upgrade to it, as data: one note for each, oldest first.

``svc upgrade plan`` and ``docs/reference/upgrade.md`` are made from it.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve, frozen

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
                "keep CA rotation paused until all Authorities have loaded the same keys; "
                "upgrading distributes no key by itself"
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
    UpgradeNote(
        parse_version("0.11.0-rc.7"),
        "0.11.0-rc.7",
        (
            "the store gets m0080 to m0085",
            (
                "the first Authority that starts makes keys/recording.key, without which no "
                "recording can be read: copy it to keys/ of the others before they start, and make "
                "a backup that has it: `svc authority backup create`"
            ),
            (
                "for SSH with onward_auth certificate, make the key that signs: `svc authority "
                "keys renew onward-ssh`; copy keys/onward-ssh.key and keys/onward-ssh.pem to the "
                "other Authorities, restart all of them, and give the hosts what `svc authority ca "
                "export onward_ssh` prints; until then such sessions are refused "
                "(onward_unavailable)"
            ),
            (
                "SSH sessions that end at a Connector are recorded, or refused: see that each such "
                "Connector has room for them (recordings.buffer_max_bytes)"
            ),
        ),
    ),
)
"""Oldest first."""
