"""What a session of a gated SSH host may do: a closed list, each item an action of its own."""

from __future__ import annotations

from attrs import frozen

LOGIN_USER = "login_user"

SHELL, EXEC, PTY, ENV = "shell", "exec", "pty", "env"
SFTP_READ, SFTP_WRITE = "sftp_read", "sftp_write"
FORWARD_LOCAL, FORWARD_REMOTE, STREAM_LOCAL = "forward_local", "forward_remote", "streamlocal"
AGENT, X11 = "agent", "x11"
UNRECORDED = "unrecorded"

ACTIONS = {
    SHELL: "sshShell",
    EXEC: "sshExec",
    PTY: "sshPty",
    ENV: "sshEnv",
    SFTP_READ: "sshSftpRead",
    SFTP_WRITE: "sshSftpWrite",
    FORWARD_LOCAL: "sshForwardLocal",
    FORWARD_REMOTE: "sshForwardRemote",
    STREAM_LOCAL: "sshForwardStreamLocal",
    AGENT: "sshForwardAgent",
    X11: "sshForwardX11",
    UNRECORDED: "sshUnrecorded",
}
"""The Cedar action of each right."""

GUARDED = frozenset({FORWARD_LOCAL, FORWARD_REMOTE, STREAM_LOCAL, AGENT, X11, UNRECORDED})
"""What leads out of the session, or out of sight.

A policy that permits the group ``use`` does not permit it.
"""


@frozen
class SessionRights:
    """The rights of one session.

    Attributes:
        login_user: The one account that it may log in to.
        allowed: Of :data:`ACTIONS`, by name.
        decision_id: Of the decision that opened the session; empty from an older Authority.
    """

    login_user: str
    allowed: frozenset[str]
    decision_id: str = ""

    def has(self, *rights: str) -> bool:
        """Whether one of these is allowed."""
        return not self.allowed.isdisjoint(rights)

    def refusal(self, right: str) -> str:
        """What a person is told who lacks *right*: one line."""
        why = f"; svc why {self.decision_id}" if self.decision_id else ""
        return f"svc: {right} is not allowed in this session by policy ({ACTIONS[right]}){why}"
