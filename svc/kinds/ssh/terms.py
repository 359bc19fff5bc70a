"""How policies speak of SSH hosts: what opens a session, and what the session may then do."""

from __future__ import annotations

from svc.interfaces.kinds import KindTerms, Operation
from svc.kinds.ssh.rights import ACTIONS, GUARDED, LOGIN_USER
from svc.model.session.parameters import Parameter

NAME = r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,62}"
"""Of an account: nothing that a command line or a file of ssh would take for something else."""

TERMS = KindTerms(
    "Server",
    open_action="sshConnect",
    actions={"sshConnect": "connect", **dict.fromkeys(ACTIONS.values(), "connect")},
    parameters={LOGIN_USER: Parameter(form=NAME, fact="personal", enforced=True)},
    protocol="ssh",
    guarded=frozenset(ACTIONS[right] for right in GUARDED),
    rights={right: Operation(action) for right, action in ACTIONS.items()},
)
