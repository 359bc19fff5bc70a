"""What is logged while a test runs."""

from __future__ import annotations

from typing import Any, cast

from twisted.logger import ILogObserver, LogEvent, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase


def logged(case: SynchronousTestCase) -> list[dict[str, Any]]:
    """The events from now to the end of *case*, in a list that grows."""
    events: list[LogEvent] = []
    observer = cast(ILogObserver, events.append)
    globalLogPublisher.addObserver(observer)
    case.addCleanup(globalLogPublisher.removeObserver, observer)
    return events
