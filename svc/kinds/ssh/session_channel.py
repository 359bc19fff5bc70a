"""A client's channel of type ``session``: each of its requests is held to the session's rights."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from twisted.conch.ssh.connection import OPEN_RESOURCE_SHORTAGE
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from svc.errors import Malformed, SvcError
from svc.interfaces.kinds import Use
from svc.kinds.ssh.channels import FROM_TARGET, JoinedChannel, Requested
from svc.kinds.ssh.conch import NS, getNS
from svc.kinds.ssh.connection import no, yes
from svc.kinds.ssh.recorded.channel import ChannelRecording
from svc.kinds.ssh.recorded.session import RecordedSession, refusal_of
from svc.kinds.ssh.rights import (
    AGENT,
    ENV,
    EXEC,
    PTY,
    SFTP_READ,
    SFTP_WRITE,
    SHELL,
    X11,
    SessionRights,
)
from svc.kinds.ssh.sftp import SftpGuard

_ENVIRONMENT = re.compile(rb"LANG|LANGUAGE|LC_[A-Z]{1,20}|COLORTERM|NO_COLOR|TZ")
"""Names that a target is told; what a shell or a linker would obey is not among them."""

_MOST_ENVIRONMENT = 1024
_ALWAYS = frozenset({b"window-change", b"signal", b"break", b"eow@openssh.com"})
"""Of what runs already."""

_SWITCHES = {
    b"pty-req": PTY,
    b"auth-agent-req@openssh.com": AGENT,
    b"x11-req": X11,
}
_STDERR = 1
_log = Logger(namespace="svc_connector")
_FAILED = (1).to_bytes(4, "big")


class SessionChannel(JoinedChannel):
    """The client's side.

    Args:
        recorded: Records the session.

    Attributes:
        notices: Said on stderr as it begins: what was denied where there was no such place.
    """

    notices: Sequence[str] = ()

    def __init__(self, rights: SessionRights, use: Use, recorded: RecordedSession) -> None:
        super().__init__(b"session")
        self._recorded = recorded
        self._recording: ChannelRecording | None = None
        self._rights = rights
        self._use = use
        self._runs = False
        self._sftp: SftpGuard | None = None
        self._owes_window = False
        self._held: set[Callable[[], object]] = set()

    def open_onward(
        self, confirmed: Callable[[], object], failed: Callable[[str, int], object]
    ) -> None:
        """See JoinedChannel; nothing is opened before it is known to be recorded, if it has to."""

        async def begin() -> None:
            try:
                self._recording = await self._recorded.begin()
            except SvcError as refusal:
                if self.conn.transport is not None:
                    failed(refusal_of(refusal.text), OPEN_RESOURCE_SHORTAGE)
                return
            if self.conn.transport is None or self.other.conn.transport is None:
                self.closed()
                return
            super(SessionChannel, self).open_onward(confirmed, refused)

        def refused(text: str, reason: int) -> None:
            self._end_recording()
            failed(text, reason)

        begun = Deferred.fromCoroutine(begin())
        begun.addErrback(lambda failure: _log.failure("a channel did not begin", failure))

    def began(self) -> None:
        """See JoinedChannel."""
        for text in self.notices:
            self._say(text)

    def dataReceived(self, data: bytes) -> None:
        """Pass on what is for something that runs."""
        if self._runs and self._recording is not None:
            self._recording.typed(data)
        if self._sftp is not None:
            self._sftp_received(self._sftp, data)
        elif self._runs:
            super().dataReceived(data)
        else:
            self.conn.reopen(self)

    def give(self, data: bytes) -> None:
        """See JoinedChannel; between packets of SFTP there may be answers of ours."""
        if self._recording is not None:
            self._recording.printed(data)
        super().give(data if self._sftp is None else self._sftp.from_target(data))

    def writeExtended(self, dataType: int, data: bytes) -> None:
        """See SSHChannel."""
        if self._recording is not None:
            self._recording.printed(data, "err")
        super().writeExtended(dataType, data)

    def closeReceived(self) -> None:
        """See JoinedChannel; what runs still tells its status, and then it is closed here too.

        OpenSSH closes once both ends of the bytes were said, which may be before the status.
        """
        self._end_recording()  # what is printed from now on is dropped
        self.buf.clear()
        self.extBuf.clear()
        other = self.other
        if other in other.conn.channelsToRemoteChannel and other.conn.transport is not None:
            other.loseConnection()
        else:
            self.conn.sendClose(self)

    def closed(self) -> None:
        """See JoinedChannel."""
        self._end_recording()
        super().closed()

    def _end_recording(self) -> None:
        recording, self._recording = self._recording, None
        if recording is not None:
            recording.end()

    def take_more(self) -> None:
        """See JoinedChannel; whoever does not read our answers asks nothing more.

        Nor does anybody while the disk is behind: what is asked may be recorded.
        """
        if self._is_held(self.take_more):
            return
        self._owes_window = self._sftp is not None and bool(self.buf or self.extBuf)
        if not self._owes_window:
            super().take_more()

    def flowed(self) -> None:
        """See JoinedChannel; a disk that is slow holds up what is printed."""
        if self._is_held(self.flowed):
            return
        super().flowed()
        if self._owes_window and not self.buf and not self.extBuf:
            self._owes_window = False
            super().take_more()

    def _is_held(self, go_on: Callable[[], object]) -> bool:
        """Whether the disk is behind, and this is called once it is not."""
        if self._recording is None or not self._recording.is_behind:
            return False
        if go_on not in self._held:
            self._held.add(go_on)
            self._recording.live.once_ahead(lambda: self._released(go_on))
        return True

    def _released(self, go_on: Callable[[], object]) -> None:
        self._held.discard(go_on)
        go_on()

    def eofReceived(self) -> None:
        """See JoinedChannel; where nothing runs at the target, the end is ours to say."""
        if self._sftp is not None and not self._rights.has(SFTP_READ, SFTP_WRITE):
            self._finish()
        else:
            super().eofReceived()

    def _sftp_received(self, sftp: SftpGuard, data: bytes) -> None:
        try:
            onward = sftp.from_client(data)
        except Malformed as fault:
            self.deny(f"svc: {fault.text}")
            return
        answers = sftp.answers()
        if answers and not self.localClosed:
            self.write(answers)
        if onward:
            self.other.give(onward)
        else:
            self.other.flowed()

    def requested(self, kind: bytes, data: bytes, wants_answer: bool) -> Requested:
        """See JoinedChannel."""
        right = _SWITCHES.get(kind)
        if kind in _ALWAYS:
            if kind == b"window-change" and self._recording is not None:
                self._recording.resized(data)
            return self.pass_request(kind, data, wants_answer), None
        if right is not None:
            return self._switch(right, kind, data, wants_answer)
        if kind == b"env":
            return self._environment(data, wants_answer)
        if kind in (b"shell", b"exec", b"subsystem") and not self._runs:
            return self._run(kind, data, wants_answer)
        return no(), None

    def _switch(self, right: str, kind: bytes, data: bytes, wants_answer: bool) -> Requested:
        if self._runs:
            return no(), None
        if not self._allowed(right):
            self._say(self._rights.refusal(right))
            return no(), None
        self.other.conn.awaited.add(right)
        if kind == b"pty-req" and self._recording is not None:
            self._recording.terminal(data)
        return self.pass_request(kind, data, wants_answer), None

    def _environment(self, data: bytes, wants_answer: bool) -> Requested:
        name, rest = getNS(data)
        is_known = _ENVIRONMENT.fullmatch(name) and len(rest) <= _MOST_ENVIRONMENT
        if self._runs or not is_known or not self._allowed(ENV):
            return no(), None
        return self.pass_request(b"env", data, wants_answer), None

    def _run(self, kind: bytes, data: bytes, wants_answer: bool) -> Requested:
        right = {b"shell": SHELL, b"exec": EXEC}.get(kind)
        if right is None:
            return self._subsystem(data, wants_answer)
        if self._recording is not None:
            self._recording.begun(getNS(data)[0] if kind == b"exec" else b"")
        if not self._allowed(right):
            return yes(), lambda: self.deny(self._rights.refusal(right))
        self._runs = True
        return self.pass_request(kind, data, wants_answer), None

    def _subsystem(self, data: bytes, wants_answer: bool) -> Requested:
        if getNS(data)[0] != b"sftp":
            return yes(), lambda: self.deny("svc: no subsystem but sftp passes the gateway")
        for right in (SFTP_READ, SFTP_WRITE):
            if self._rights.has(right):
                self._use(right, True)
        self._runs = True
        self._sftp = SftpGuard(self._rights, self._tell_denied)
        if self._recording is not None:
            self._recording.files_begun()
            self._sftp.asked = self._recording.file
        if not self._rights.has(SFTP_READ, SFTP_WRITE):
            return yes(), None
        return self.pass_request(b"subsystem", NS(b"sftp"), wants_answer), None

    def _tell_denied(self, right: str) -> None:
        self._use(right, False)
        self._say(self._rights.refusal(right))

    def _allowed(self, right: str) -> bool:
        is_allowed = self._rights.has(right)
        self._use(right, is_allowed)
        return is_allowed

    def deny(self, text: str) -> None:
        """Say why on stderr, and end with status 1; nothing runs at the target."""
        if self.localClosed:
            return
        self._say(text)
        self._finish()

    def _say(self, text: str) -> None:
        if not self.localClosed:
            self.writeExtended(_STDERR, f"{text}\r\n".encode())

    def _finish(self) -> None:
        self._close_other()
        self.conn.sendRequest(self, b"exit-status", _FAILED)
        self.end()
        self.loseConnection()


def target_session() -> JoinedChannel:
    """The target's side."""
    return JoinedChannel(b"session", FROM_TARGET)
