"""What a signal does to a ``svc proxy-ssh`` whose session stands."""

from __future__ import annotations

import signal
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svc.compose.signals import LeavingSignals


class Reactor:
    """Calls at once."""

    def callFromThread(self, call: Any) -> None:
        call()


class LeavingTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.left: list[str] = []
        self.later: list[int] = []
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            before = signal.signal(number, lambda number, _: self.later.append(number))
            self.addCleanup(signal.signal, number, before)
        self.signals = LeavingSignals(reactor=Reactor(), leave=lambda: self.left.append("left"))
        self.addCleanup(self.signals.restore)

    def test_not_yet(self) -> None:
        """Before the session stands a signal does what it always does."""
        signal.raise_signal(signal.SIGINT)
        self.assertEqual((self.left, self.later), ([], [signal.SIGINT]))

    def test_first(self) -> None:
        """The first signal ends the session in order; of SIGHUP alone it is ssh that leaves."""
        for number, is_interrupted in (
            (signal.SIGHUP, False),
            (signal.SIGINT, True),
            (signal.SIGTERM, True),
        ):
            self.left.clear()
            self.signals.heed()
            signal.raise_signal(number)
            self.assertEqual((self.left, self.later), (["left"], []))
            self.assertIs(self.signals.is_interrupted, is_interrupted)
            self.signals.restore()

    def test_second(self) -> None:
        """Whoever interrupts it twice does not wait; an ssh that exits meanwhile ends nothing."""
        self.signals.heed()
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGHUP):
            signal.raise_signal(number)
        self.assertEqual((self.left, self.later), (["left"] * 3, []))
        signal.raise_signal(signal.SIGTERM)
        self.assertEqual(self.later, [signal.SIGTERM])
        self.signals.restore()
        signal.raise_signal(signal.SIGHUP)
        self.assertEqual((len(self.left), self.later), (3, [signal.SIGTERM, signal.SIGHUP]))

    def test_ignored(self) -> None:
        """What whoever started it has it ignore goes on being ignored, as under nohup."""
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        self.signals.heed()
        signal.raise_signal(signal.SIGHUP)
        self.assertEqual((self.left, self.later), ([], []))
