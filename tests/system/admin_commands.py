"""Every ``svc authority`` command, as the tests of the admin lane type it.

A command that is added to ``svc authority`` must be added here: a test
compares the two lists.
"""

from __future__ import annotations

from attrs import field, frozen

ADMINISTRATORS = """\
@id("operators-administer")
permit (principal is Operator, action in Action::"administer", resource is Cluster);

@id("people-administer")
permit (principal in Group::"operators", action in Action::"administer", resource is Cluster);

@id("desk-manages-people")
permit (
  principal in Group::"desk",
  action in [Action::"viewStatus", Action::"managePersons"],
  resource is Cluster
);
"""
"""``operators`` administer, as the host's own user does; those of ``desk`` manage people."""


@frozen
class Typed:
    """What is typed after the command's name, and what comes of it through the lane.

    Attributes:
        words: ``{name}`` stands for what an earlier command told; see ``keeps``.
        says: Part of what the Authority answers.
        status: How the command ends.
        keeps: Names a member of the answer's JSON, to be typed by a later command.
    """

    words: str = ""
    says: str = ""
    status: int = 0
    stdin: str = ""
    keeps: str = field(default="", kw_only=True)


_NO_NODE = "(unknown_node)"

REMOTE: dict[str, Typed] = {
    "status": Typed(says="policy version"),
    "nodes add": Typed("c9 --role connector", "svcj1_"),
    "nodes expect": Typed(f"c8 --role connector --key {'ab' * 32} --json", "c8", keeps="id"),
    "nodes expected": Typed(says="c8"),
    "nodes unexpect": Typed("{id}"),
    "nodes list": Typed(says="proxy2"),
    "list-nodes": Typed(says="proxy2"),
    "nodes publication": Typed("c9", _NO_NODE, 1),
    "nodes revoke": Typed("proxy2", "revoked"),
    "groups add": Typed("team"),
    "groups list": Typed(says="team"),
    "persons add": Typed("eve --group team", "svcj1_"),
    "groups members": Typed("team", "eve"),
    "persons list": Typed(says="eve"),
    "persons show": Typed("eve", "team"),
    "persons disable": Typed("eve", "disabled"),
    "persons enable": Typed("eve", "enabled"),
    "persons revoke": Typed("eve", "revoked 0 certificate(s)"),
    "tokens list": Typed("--all", "c9"),
    "tokens revoke": Typed("nosuchtoken", "unknown_token", 1),
    "identities add": Typed("eve --subject s-1 --issuer https://id.example", "eve"),
    "identities list": Typed(says="eve"),
    "identities remove": Typed("nosuch", "(", 1),
    "accounts add": Typed("eve", "\n"),
    "accounts list": Typed(says="eve"),
    "accounts passkeys": Typed("eve"),
    "accounts remove-passkey": Typed("eve nosuch", "there is no such passkey"),
    "accounts reset": Typed("eve", "\n"),
    "accounts remove": Typed("eve", "removed the account of"),
    "agents add": Typed("bot --owner eve", "svcj1_"),
    "agents list": Typed(says="bot"),
    "agents revoke": Typed("bot", "bot"),
    "persons remove": Typed("eve", "removed"),
    "users forget-name": Typed("eve", "forgot the name"),
    "groups remove": Typed("team", "team"),
    "sessions list": Typed(),
    "sessions end": Typed(f"{'ab' * 16}", "unknown_session", 1),
    "resources add": Typed("r1 --kind tcp", "r1"),
    "resources list": Typed(says="r1"),
    "list-resources": Typed(says="r1"),
    "resources set": Typed("r1 --onward-auth certificate", "the kind tcp has none", 1),
    "scopes set": Typed("lab --kinds tcp", "set lab, revision 1"),
    "scopes list": Typed(says="lab"),
    "scopes show": Typed("lab", "no rows"),
    "scopes remove": Typed("lab", "removed lab"),
    "resources assign": Typed("r1 --node c9", _NO_NODE, 1),
    "resources unassign": Typed("r1", "r1"),
    "resources bindings": Typed("r1"),
    "resources move": Typed("--from c9 --to c8", _NO_NODE, 1),
    "resources remove": Typed("r1", "r1"),
    "policy check": Typed("--as bob --action viewStatus", "deny", 2),
    "policy set": Typed("-", "already in force", stdin=ADMINISTRATORS),
    "policy show": Typed(says="people-administer"),
    "policy history": Typed(says="2"),
    "policy diff": Typed("1", "--- version 1"),
    "policy propose": Typed(
        "- --reason try --json", "expires_at", stdin=f"{ADMINISTRATORS}// more", keeps="proposal"
    ),
    "policy review": Typed("{proposal}", "try"),
    "policy approve": Typed("nosuch --yes", "unknown_proposal", 1),
    "policy activate": Typed("nosuch", "unknown_proposal", 1),
    "policy reject": Typed("{proposal} --reason tidy"),
    "policy rollback": Typed("99 --reason tidy", "unknown_version", 1),
    "audit show": Typed("--event policy", "policy.activate"),
    "audit outbox list": Typed(says="no rows"),
    "audit outbox release": Typed("1 --reason tidy", "there is no row 1", 1),
    "audit outbox discard": Typed("1 --reason tidy", "there is no row 1", 1),
    "audit erase": Typed("1.0 actor.id --reason tidy", "(", 1),
    "epochs status": Typed(says="epoch    0"),
    "epochs activate": Typed(says="epoch 0 is in force"),
    "keys sync root status": Typed(says="root epoch              0"),
    "keys sync root prepare": Typed(says="too_few_owners", status=1),
    "keys sync root ack": Typed(says="no_root_prepared", status=1),
    "keys sync root activate": Typed(says="no_root_prepared", status=1),
    "keys sync root cancel": Typed(says="no_root_prepared", status=1),
    "keys sync root withdraw": Typed("nosuch", "nosuch", 1),
    "keys sync root readmit": Typed("nosuch", "nosuch", 1),
    "ca rotation status": Typed(says="rotation  not paused"),
    "ca rotation pause": Typed(says="rotation  paused"),
    "ca rotation resume": Typed(says="rotation  not paused"),
    "recordings list": Typed(says="no rows"),
    "recordings show": Typed("nosuch", "nosuch", 1),
    "recordings play": Typed("nosuch", "nosuch", 1),
    "recordings export": Typed("nosuch --out -", "nosuch", 1),
    "recordings remove": Typed("nosuch --reason tidy", "nosuch", 1),
}
"""By the command's name, in the order in which they are typed."""

ON_THE_HOST: dict[str, str] = {
    "accounts first-administrator": "",
    "audit adopt": "",
    "audit export": "",
    "audit prove": "1",
    "audit verify": "",
    "verify-audit": "",
    "backup create": "--out x --encrypt-to x",
    "backup restore": "x --identity /dev/null",
    "ca export": "onward_ssh",
    "keys renew": "all",
    "policy replay": "- --since 1h",
    "recordings rotate-key": "",
    "preflight": "--artifacts / --pubkey /dev/null --change-id x --out x",
    "state adopt": "",
    "store migrate": "",
    "migrate": "",
}
"""What needs the Authority's files, with the words that it is typed with."""

ANYWHERE = frozenset({"", "audit events", "backup verify"})
"""The role itself; and what needs neither Authority nor configuration."""
