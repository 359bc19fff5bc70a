"""Writes log lines to stderr: for people, or as one JSON object each.

One observer for the whole process.  The profile is put on here, so no call
site and no library can miss it.  Until filter and profile are known, events
are held.
"""

from __future__ import annotations

import logging
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from enum import Enum

from twisted.logger import (
    ILogObserver,
    LogEvent,
    Logger,
    LogLevel,
    formatEvent,
    globalLogBeginner,
)
from twisted.python.failure import Failure
from twisted.python.reflect import safe_str
from zope.interface import implementer

from svc.telemetry.escape import escaped, json_line, quoted
from svc.telemetry.filter import Level, LogFilter, parse_filter

FORMAT_VARIABLE = "SVC_LOG_FORMAT"
MAX_HELD = 10_000
MAX_TEXT = 16_384
_LEVELS = {
    LogLevel.debug: Level.DEBUG,
    LogLevel.info: Level.INFO,
    LogLevel.warn: Level.WARN,
    LogLevel.error: Level.ERROR,
    LogLevel.critical: Level.ERROR,
}
_LEGACY = frozenset(
    {"time", "system", "isError", "failure", "why", "printed", "message", "format", "legacy"}
)
_TOP = frozenset({"timestamp", "level", "target", "message", "profile", "traceback"})
Write = Callable[[str], object]


@implementer(ILogObserver)
class LogLines:
    """The observer: holds events until :meth:`settle`, then writes what the filter lets by.

    Args:
        write: Takes one line with its line break; must not raise.
        as_json: One JSON object a line instead of lines for people.
    """

    def __init__(self, write: Write, as_json: bool) -> None:
        self._write = write
        self._as_json = as_json
        self._held: deque[LogEvent] | None = deque(maxlen=MAX_HELD)
        self._filter = parse_filter(None)
        self._profile: str | None = None

    def settle(self, log_filter: LogFilter, profile: str | None) -> None:
        """Say what is written and under which profile; the held events come first."""
        self._filter, self._profile = log_filter, profile
        logging.getLogger().setLevel(_STDLIB[log_filter.highest])
        held, self._held = self._held, None
        for event in held or ():
            self(event)

    def __call__(self, event: LogEvent) -> None:
        """Hold or write one event."""
        if self._held is not None:
            self._held.append(event)
            return
        target = str(event.get("log_namespace") or "unknown")
        level = _LEVELS.get(event.get("log_level", LogLevel.info), Level.INFO)
        if not self._filter.allows(target, level):
            return
        line = self._json if self._as_json else self._human
        self._write(line(event, level, target) + "\n")

    def refusal(self, reason: str, text: str, now: float) -> None:
        """Write why the process ends, in this format and whatever the filter says.

        Args:
            text: One or more lines; people get each as a line of its own.
            now: Seconds since the epoch.
        """
        if self._as_json:
            at = _timestamp({"log_time": now})
            record = {"timestamp": at, "level": "ERROR", "target": "svc", "message": "refused"}
            profile = {} if self._profile is None else {"profile": self._profile}
            self._write(json_line({**record, **profile, "reason": reason, "text": text}) + "\n")
            return
        mark = "" if self._profile is None else f" profile={quoted(self._profile)}"
        for line in text.split("\n"):
            self._write(f"svc: {escaped(line)}{mark}\n")

    def _json(self, event: LogEvent, level: Level, target: str) -> str:
        record: dict[str, object] = {
            "timestamp": _timestamp(event),
            "level": level.name,
            "target": target,
            "message": _message(event),
        }
        if self._profile is not None:
            record["profile"] = self._profile
        record.update(_fields(event, target))
        return json_line(record)

    def _human(self, event: LogEvent, level: Level, target: str) -> str:
        parts = [f"{_timestamp(event)} {level.name} {escaped(target)}: {escaped(_message(event))}"]
        parts += [
            f"{escaped(name)}={quoted(_text(value))}" for name, value in _fields(event, target)
        ]
        if self._profile is not None:
            parts.append(f"profile={quoted(self._profile)}")
        return " ".join(parts)


def _timestamp(event: LogEvent) -> str:
    at = datetime.fromtimestamp(float(event.get("log_time", 0.0)), UTC)
    return at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _message(event: LogEvent) -> str:
    text = formatEvent(event)
    if not text and "log_failure" in event:
        text = "unexpected failure"
    return text[:MAX_TEXT]


def _fields(event: LogEvent, target: str) -> Iterator[tuple[str, object]]:
    """The event's own fields; of other people's events only plain values."""
    ours = target.startswith("svc")
    for name, value in event.items():
        if name.startswith("log_") or name in _LEGACY:
            continue
        plain = _plain(value)
        if plain is None and value is not None:
            if not ours:
                continue
            plain = safe_str(value)[:MAX_TEXT]
        yield (f"{name}_" if name in _TOP else name), plain
    failure = event.get("log_failure")
    if isinstance(failure, Failure):
        yield "error", safe_str(failure.value)[:MAX_TEXT]
        yield "traceback", failure.getTraceback()[-MAX_TEXT:]


def _plain(value: object) -> object:
    """A value JSON can hold, or None."""
    if isinstance(value, Enum):
        return _plain(value.value)
    if isinstance(value, str):
        return value[:MAX_TEXT]
    if isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if value - value == 0 else repr(value)
    if isinstance(value, list | tuple | set | frozenset):
        each = sorted(value, key=safe_str) if isinstance(value, set | frozenset) else value
        return [safe_str(one) if (plain := _plain(one)) is None else plain for one in each]
    return None


def _text(value: object) -> str:
    if isinstance(value, list):
        return ",".join(_text(one) for one in value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


_STDLIB = {
    Level.OFF: logging.CRITICAL + 1,
    Level.ERROR: logging.ERROR,
    Level.WARN: logging.WARNING,
    Level.INFO: logging.INFO,
    Level.DEBUG: logging.DEBUG,
    Level.TRACE: logging.NOTSET + 1,
}


_TELLS_HEADERS = ("hpack",)
"""Libraries whose debug lines quote what callers send; never heard, at any level."""


class StdlibBridge(logging.Handler):
    """Hands records of the standard library's ``logging`` to our observer."""

    def emit(self, record: logging.LogRecord) -> None:
        """Pass one record on, under its logger's name."""
        log = Logger(namespace=record.name)
        level = LogLevel.debug
        for ours, least in (
            (LogLevel.info, logging.INFO),
            (LogLevel.warn, logging.WARNING),
            (LogLevel.error, logging.ERROR),
        ):
            if record.levelno >= least:
                level = ours
        failure = None
        if record.exc_info and record.exc_info[1] is not None:
            failure = Failure(record.exc_info[1], record.exc_info[0], record.exc_info[2])
        try:
            text = record.getMessage()
        except (TypeError, ValueError):
            text = safe_str(record.msg)
        more = {} if failure is None else {"log_failure": failure}
        log.emit(level, "{log_text}", log_text=text, **more)


def to_stderr(line: str) -> None:
    """Write to the real stderr; a reader that went away is not an error of ours."""
    stream = sys.__stderr__
    if stream is None:
        return
    try:
        stream.write(line)
        stream.flush()
    except (OSError, ValueError):  # closed, full or never there: nowhere left to say so
        return


def make_lines(environ: Mapping[str, str], write: Write = to_stderr) -> LogLines:
    """The observer, taken into use by nobody yet.

    Under twistd it is set on the application as its ``ILogObserver`` (twistd
    begins the logging itself); a second begin would write every line twice.

    Args:
        environ: Read for ``SVC_LOG_FORMAT``: exactly ``json`` gives JSON lines.
        write: Where lines go.
    """
    return LogLines(write, as_json=environ.get(FORMAT_VARIABLE) == "json")


def begin_logging(environ: Mapping[str, str], write: Write = to_stderr) -> LogLines:
    """Take over this process's logging; called once, by ``svc``, before anything is logged.

    The caller settles the observer once the configuration is read, and also
    when that fails, so that held events are seen.
    """
    lines = make_lines(environ, write)
    globalLogBeginner.beginLoggingTo([lines], redirectStandardIO=False)
    bridge_stdlib()
    return lines


def bridge_stdlib() -> None:
    """Send the standard library's logging and warnings to our observer, and nowhere else."""
    root = logging.getLogger()
    root.handlers[:] = [StdlibBridge()]
    for name in _TELLS_HEADERS:
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.captureWarnings(True)
