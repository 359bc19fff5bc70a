"""The trace collector is not trusted: its answers cost little and lead nowhere."""

from __future__ import annotations

import io

from requests import PreparedRequest, Response
from requests.adapters import HTTPAdapter
from twisted.python.threadpool import ThreadPool
from twisted.trial.unittest import SynchronousTestCase
from urllib3 import HTTPResponse

from svc.telemetry.collector import MAX_ANSWER, collector_session
from svc.telemetry.tracing import EXPORT_SECS, make_tracer
from tests.telemetry.test_tracing import Kept, Reactor


class Answers(HTTPAdapter):
    """Answers every request in memory, with a large body and a way elsewhere."""

    def __init__(self, status: int) -> None:
        super().__init__()
        self.status = status
        self.asked: list[str | None] = []

    def send(self, request: PreparedRequest, **kwargs: object) -> Response:  # type: ignore[override]
        """One answer, not read yet."""
        self.asked.append(request.url)
        raw = HTTPResponse(
            body=io.BytesIO(b"x" * (4 * MAX_ANSWER)),
            status=self.status,
            headers={"Location": "http://169.254.169.254/"},
            preload_content=False,
        )
        return self.build_response(request, raw)


class StuckPool(ThreadPool):
    """A pool whose work never ends."""

    def callInThreadWithCallback(self, onResult, func, *args, **kw):  # type: ignore[no-untyped-def]
        """Take it and say nothing."""


class StuckReactor(Reactor):
    """A reactor in memory with that pool."""

    def getThreadPool(self) -> ThreadPool:
        """The stuck pool."""
        return StuckPool()


class CollectorTests(SynchronousTestCase):
    """What a collector may answer."""

    def test_large_answers_and_redirects(self) -> None:
        """A large answer is cut, and no redirect is followed."""
        for status in (200, 302, 307, 500):
            session, answers = collector_session(), Answers(status)
            session.mount("http://", answers)
            answer = session.post("http://c/v1/traces", data=b"spans", timeout=2)
            self.assertEqual((answer.status_code, len(answer.content)), (status, MAX_ANSWER))
            self.assertEqual(answers.asked, ["http://c/v1/traces"])

    def test_environment_is_not_asked(self) -> None:
        """No proxy variable and no .netrc reaches the collector's session."""
        self.assertFalse(collector_session().trust_env)

    def test_stop_is_bounded(self) -> None:
        """A collector that hangs holds back a stop for two seconds and no longer."""
        reactor = StuckReactor()
        tracing = make_tracer(reactor, "proxy", None, "http://c", exporter=lambda url: Kept())
        self.addCleanup(tracing._shutdown or (lambda: None))
        tracing.startService()
        stopped = tracing.stopService()
        reactor.advance(EXPORT_SECS - 0.1)
        self.assertNoResult(stopped)
        reactor.advance(0.1)
        self.successResultOf(stopped)
        self.assertEqual(reactor.getDelayedCalls(), [])
