"""How policies speak of SSH hosts: what opens a session, and what the session may then do."""

from __future__ import annotations

from collections.abc import Mapping

from svc.interfaces.kinds import KindTerms, Operation
from svc.kinds.ssh.rights import (
    ACTIONS,
    AGENT,
    EXEC,
    FORWARD_LOCAL,
    FORWARD_REMOTE,
    GUARDED,
    LOGIN_USER,
    PTY,
    SFTP_READ,
    SFTP_WRITE,
    SHELL,
    STREAM_LOCAL,
    X11,
)
from svc.model.session.onward import OnwardLogin
from svc.model.session.parameters import Parameter

NAME = r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,62}"
"""Of an account: nothing that a command line or a file of ssh would take for something else."""

_EXTENSIONS = {
    "permit-pty": frozenset({PTY}),
    "permit-port-forwarding": frozenset({FORWARD_LOCAL, FORWARD_REMOTE, STREAM_LOCAL}),
    "permit-agent-forwarding": frozenset({AGENT}),
    "permit-X11-forwarding": frozenset({X11}),
}


def certified_login(ceiling: Mapping[str, str], rights: frozenset[str]) -> OnwardLogin:
    """What the host is told of a session: no more than its rights.

    Where it may run neither a shell nor a command, the host itself runs nothing but SFTP, or
    nothing at all.
    """
    options: dict[str, str] = {}
    if rights.isdisjoint({SHELL, EXEC}):
        if SFTP_WRITE in rights:
            options["force-command"] = "internal-sftp"
        elif SFTP_READ in rights:
            options["force-command"] = "internal-sftp -R"
        else:
            options["force-command"] = "exit 1"
    return OnwardLogin(
        account=ceiling[LOGIN_USER],
        options=options,
        extensions=tuple(name for name, any_of in _EXTENSIONS.items() if rights & any_of),
    )


TERMS = KindTerms(
    "Server",
    open_action="sshConnect",
    actions={"sshConnect": "connect", **dict.fromkeys(ACTIONS.values(), "connect")},
    parameters={LOGIN_USER: Parameter(form=NAME, fact="personal", enforced=True)},
    protocol="ssh",
    guarded=frozenset(ACTIONS[right] for right in GUARDED),
    rights={right: Operation(action) for right, action in ACTIONS.items()},
    sign_on=certified_login,
)
