"""Witnesses as an Authority wires them: a silent one holds neither a start nor anybody else."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from twisted.internet import reactor as installed
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.logger import capturedLogs
from twisted.trial.unittest import TestCase

from svc.audit.checkpoint.head import to_line
from svc.audit.checkpoint.latest import LatestCheckpoint
from svc.audit.checkpoint.monitor import LogWatch
from svc.audit.checkpoint.witness import ANSWER_SECS
from svc.compose.authority.checkpoints import head_sinks
from tests.audit.logs import MemoryHeads, MemoryLog, heads_over, short_record, verify_head
from tests.support.nothing import none_later, nothing, nothing_later

reactor: Any = installed


class SilentTests(TestCase):
    """Two files on a host that has fallen silent: whoever reads them hangs."""

    timeout = 20

    def setUp(self) -> None:
        self.clock: Any = Clock()
        self.silent = [Path(self.mktemp()), Path(self.mktemp())]
        self.heard = threading.Event()
        self.addCleanup(self.heard.set)

    async def test_start(self) -> None:
        """A start hears those that answer, and passes the others after one wait for all of them."""
        log = MemoryLog()
        log.fill(9, short_record)
        [head] = heads_over(log.log, 9)
        path = Path(self.mktemp())
        path.write_bytes(to_line(head) + b"\n")
        sinks = head_sinks(reactor, [f"file://{one.absolute()}" for one in (*self.silent, path)])
        for sink in sinks[:2]:
            sink.in_thread(self.heard.wait)
        latest_checkpoint = LatestCheckpoint(
            path=Path(self.mktemp()), verify_head=verify_head, cluster="demo.example", log_id="log"
        )
        watch = LogWatch(
            chain=MemoryLog(),
            keeper=MemoryHeads(),
            latest_checkpoint=latest_checkpoint,
            verify_head=verify_head,
            clock=self.clock,
            sources=sinks,
            restorations=tuple,
            others=none_later,
            led_end=nothing_later,
            appended=nothing,
            on_fault=nothing,
            verify=nothing_later,
            keeps=nothing_later,
        )
        asked = Deferred.fromCoroutine(watch.ask_witnesses())
        await sinks[-1].in_thread(lambda: None)
        self.assertNoResult(asked)
        with capturedLogs() as said:
            self.clock.advance(ANSWER_SECS)
            await asked
        texts = [one["text"] for one in said if "text" in one]
        for silent in self.silent:
            self.assertEqual(sum(str(silent) in text for text in texts), 1, texts)
        self.assertEqual(latest_checkpoint.kept and latest_checkpoint.kept.hash, head.hash)
        for sink in sinks:
            sink.close()

    async def test_shared_pool(self) -> None:
        """What hangs is in no thread that others need, and in none that a process waits for."""
        sinks = head_sinks(reactor, [f"file://{one.absolute()}" for one in self.silent])
        began: list[Deferred[threading.Thread]] = []
        for sink in sinks:
            told: Deferred[threading.Thread] = Deferred()
            began.append(told)

            def tell(told: Any = told) -> None:
                reactor.callFromThread(told.callback, threading.current_thread())

            sink.in_thread(tell)
            sink.in_thread(self.heard.wait)
            Deferred.fromCoroutine(sink.newest()).addErrback(lambda _: None)
            sink.close()
        threads = [await one for one in began]
        self.assertEqual([one.daemon for one in threads], [True, True])
        self.assertNotIn(threads[0], reactor.getThreadPool().threads)
        self.assertIsNot(*threads)
