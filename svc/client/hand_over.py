"""``svc proxy-ssh`` hands its pipes to the running resident, which carries the session.

ssh waits for the start of this command, so this module imports next to nothing: ``_socket`` and
``_signal`` are what the library's ``socket`` and ``signal`` stand on, whose enumerations alone take
longer than all that is done here.  Until the word ``go`` has
been sent no byte of the session has passed: whatever is amiss before it, the command goes on by
itself, as if there were no resident.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import _socket
import os
import stat
import sys

from svc import __version__
from svc.client.places import CLIENT_FILE, CONTROL_SOCKET, RUN_DIRECTORY, config_path, file_mark

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

COMMAND = "proxy-ssh"
CARRY = "carry"
"""What the resident is asked; its answers are lines of one of these words and a text."""

TAKEN, ITSELF, OPEN, SAY, OUT, EXIT = "taken", "itself", "open", "say", "out", "exit"
GO = "go"

_ANSWER_SECS = 5.0
_OPEN_SECS = 70.0
"""Longer than the resident itself waits for all that an opening consists of."""

_MAX_QUESTION = 4000
_MAX_LINE = 65536
_MAX_CONFIG = 1 << 20
_KIND = "ssh"
_NO_SETTINGS = frozenset({"SVC_CONFIG", "SVC_LOG_FORMAT"})
_CREDENTIALS = 12
_INTERRUPTED = 130
_SIGTERM = int(_signal.SIGTERM)


class Wanted:
    """What a command line asks for.

    Attributes:
        config: The path given by ``--config``, or None.
        parameters: ``--user`` is the one named ``login_user``.
    """

    def __init__(self) -> None:
        self.config: str | None = None
        self.resource = ""
        self.kind = ""
        self.parameters: dict[str, str] = {}


def hand_over(words: Sequence[str], environ: Mapping[str, str]) -> int | None:
    """Have the resident carry the session between stdin and stdout; None where it does not.

    Args:
        words: The command line after the name of the program.

    Returns:
        The exit status, of a session that the resident carried or refused.
    """
    wanted = read_words(words)
    if wanted is None or not _is_plain_start(environ):
        return None
    try:
        config = config_path(wanted.config, environ)
        if config is None:
            return None
        question = question_of(wanted, file_mark(config))
        asking = None if question is None else _connected(_run_directory(config))
        if question is None or asking is None:
            return None
        try:
            return _Conversation(asking, wanted.resource).run(question)
        finally:
            asking.close()
    except OSError:
        return None


def read_words(words: Sequence[str]) -> Wanted | None:
    """What a plain command line asks for; None where click is to read it."""
    wanted, left, seen = Wanted(), list(words), False
    user, given = "", list[str]()
    while left:
        word, equals, value = left.pop(0).partition("=")
        if word == COMMAND and not equals and not seen:
            seen = True
            continue
        if not word.startswith("-"):
            if not seen or wanted.resource or not word:
                return None
            wanted.resource = word + equals + value
            continue
        if not equals and left:
            value = left.pop(0)
        if not value or value.startswith("-"):
            return None
        if word == "--config" and wanted.config is None:
            wanted.config = value
        elif word == "--dir" and seen and wanted.config is None:
            wanted.config = os.path.join(value, CLIENT_FILE)
        elif word == "--kind" and seen and not wanted.kind:
            wanted.kind = value
        elif word == "--user" and seen and not user:
            user = value
        elif word == "--parameter" and seen:
            given.append(value)
        else:
            return None
    if user:
        given.append(f"login_user={user}")
    wanted.kind = wanted.kind or _KIND
    return wanted if wanted.resource and _take_parameters(wanted, given) else None


def _take_parameters(wanted: Wanted, given: Sequence[str]) -> bool:
    for pair in given:
        name, equals, value = pair.partition("=")
        if not equals or name in wanted.parameters:
            return False
        wanted.parameters[name] = value
    return True


def question_of(wanted: Wanted, config_mark: str) -> bytes | None:
    """The line that the resident is asked; None where it would need more than plain characters."""
    texts = [__version__, config_mark, wanted.resource, wanted.kind]
    if not all(map(_is_plain, [*texts, *wanted.parameters, *wanted.parameters.values()])):
        return None
    version, mark, resource, kind = texts
    pairs = ",".join(f'"{name}":"{value}"' for name, value in wanted.parameters.items())
    line = (
        f'{{"ask":"{CARRY}","version":"{version}","config":"{mark}","resource":"{resource}",'
        f'"kind":"{kind}","parameters":{{{pairs}}}}}\n'
    )
    return line.encode("ascii") if len(line) <= _MAX_QUESTION else None


def _is_plain(text: str) -> bool:
    """Whether it stands in JSON as it is; the module ``json`` takes longer than all else here."""
    return text.isascii() and text.isprintable() and '"' not in text and "\\" not in text


def _is_plain_start(environ: Mapping[str, str]) -> bool:
    """Whether we stand between two pipes, and no setting comes from the environment.

    A resident that read from a terminal would be stopped by it, and sockets cannot be opened
    again, so that their flags would be shared with whoever else has them.
    """
    if any(name.startswith("SVC_") and name not in _NO_SETTINGS for name in environ):
        return False
    try:
        return all(stat.S_ISFIFO(os.fstat(number).st_mode) for number in (0, 1))
    except OSError:
        return False


def _run_directory(config: str) -> str:
    """Where the resident of this configuration has its sockets."""
    with open(config, "rb") as file:
        data = file.read(_MAX_CONFIG)
    state = ""
    if b"state_dir" in data:
        import tomllib

        try:
            state = tomllib.loads(data.decode("utf-8")).get("state_dir", "")
        except (ValueError, RecursionError):
            state = ""
    if not isinstance(state, str) or not state:
        state = os.path.dirname(os.path.abspath(config))
    return os.path.join(state, RUN_DIRECTORY)


def _connected(directory: str) -> _socket.socket | None:
    """A connection to the resident; None where what lies there is not ours alone."""
    uid = os.geteuid()
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        found = os.fstat(descriptor)
        if found.st_uid != uid or found.st_mode & 0o077:
            return None
        asking = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        asking.settimeout(_ANSWER_SECS)
        try:
            asking.connect(f"/proc/self/fd/{descriptor}/{CONTROL_SOCKET}")
            peer = asking.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, _CREDENTIALS)
        except BaseException:
            asking.close()
            raise
    finally:
        os.close(descriptor)
    if int.from_bytes(peer[4:8], sys.byteorder) != uid:
        asking.close()
        return None
    return asking


class _Conversation:
    """What is said with the resident about one session."""

    def __init__(self, asking: _socket.socket, resource: str) -> None:
        self._asking = asking
        self._resource = resource
        self._went = False
        self._status: int | None = None

    def run(self, question: bytes) -> int | None:
        """Ask, and do as is said until the end; None where nothing of the session has passed."""
        pipes = b"".join(number.to_bytes(4, sys.byteorder) for number in (0, 1))
        rights = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, pipes)
        try:
            before = _signal.signal(_SIGTERM, _signal.default_int_handler)
            try:
                self._asking.sendmsg([question], [rights])
                return self._followed()
            finally:
                _signal.signal(_SIGTERM, before)
        except KeyboardInterrupt:
            _tell("svc: interrupted")
            return _INTERRUPTED

    def _followed(self) -> int | None:
        try:
            for line in self._lines():
                word, _, text = line.partition(" ")
                if word == ITSELF or not self._did(word, text):
                    break
        except OSError:
            pass  # too late, or gone
        if self._status is None and self._went:
            _tell(f"svc: {self._resource}: session ended: svc up, which carried it, has stopped")
            return 1
        return self._status

    def _did(self, word: str, text: str) -> bool:
        """Whether to listen on."""
        if word == TAKEN:
            self._asking.settimeout(_OPEN_SECS)
        elif word == OPEN:
            _tell(text)
            self._asking.sendall(f"{GO}\n".encode("ascii"))
            self._went = True
            self._asking.settimeout(None)
        elif word == SAY:
            _tell(text)
        elif word == OUT:
            _let_go(1)
        elif word == EXIT:
            self._status = 1 if text != "0" else 0
            return False
        return True

    def _lines(self) -> Iterator[str]:
        data = b""
        while len(data) <= _MAX_LINE:
            piece = self._asking.recv(4096)
            if not piece:
                return
            *lines, data = (data + piece).split(b"\n")
            for line in lines:
                yield line.decode("utf-8", "replace")


def _tell(text: str) -> None:
    """For the person's eyes, on stderr; stdout is the session's."""
    try:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
    except (OSError, AttributeError):
        pass  # nobody listens there


def _let_go(number: int) -> None:
    """Give up our copy, so that the pipe can end; the number stays taken."""
    nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    os.dup2(nothing, number)
    os.close(nothing)
