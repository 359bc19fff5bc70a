"""The whole show: from an empty directory to the last line, and everything put away after it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from attrs import define, field
from twisted.internet.defer import Deferred

from svc.demo.gateway import DemoGateway, Found
from svc.demo.story import Story
from svc.demo.temporary import remove_dead
from svc.errors import SvcError
from svc.runtime.context import Runtime
from svc.telemetry.escape import escaped


@define
class Show:
    """One run of the demo.

    Attributes:
        write_line: Takes one line of what the demo is for.
        found: See :class:`svc.demo.gateway.DemoGateway`.
        program: How ``svc`` is called, as words of the shell.
    """

    runtime: Runtime
    kept: Path | None
    found: Found
    write_line: Callable[[str], object]
    program: str
    is_finished: bool = field(default=False, init=False)
    _failed: SvcError | None = field(default=None, init=False)
    _staying: Deferred[None] | None = field(default=None, init=False)

    async def run(self, *, once: bool) -> None:
        """Tell the story; then stay up until cancelled, unless *once*.

        Whatever ends it, everything is stopped and put away before it returns.

        Raises:
            SvcError: something was not as it should be.
            CancelledError: by whoever cancels it.
        """
        gateway = DemoGateway(
            runtime=self.runtime, kept=self.kept, found=self.found, stopped_by=self._gave_up
        )
        gone = remove_dead()
        if gone:
            self.write_line(f"removed what killed demos had left: {', '.join(map(str, gone))}")
        try:
            await gateway.start()
            await self._run_story(gateway, once)
        finally:
            await gateway.stop()

    async def _run_story(self, gateway: DemoGateway, once: bool) -> None:
        self._introduce(gateway)
        story = Story(
            runtime=self.runtime, gateway=gateway, write_line=self.write_line, program=self.program
        )
        there = await story.tell()
        self.is_finished = True
        if once:
            if self.kept is not None:
                self.write_line("")
                self.write_line("With the gateway stopped, you can still inspect what was kept:")
                for line in story.kept():
                    self.write_line(f"  {line}")
            self._part()
            return
        self.write_line("")
        self.write_line("Try it by hand, in another terminal:")
        for line in story.by_hand(there):
            self.write_line(f"  {line}")
        self._part()
        self.write_line("The demo stays up until you interrupt it (Ctrl-C).")
        await self._stay()

    def _introduce(self, gateway: DemoGateway) -> None:
        where = (
            f"kept in {self.kept}" if self.kept else f"in {gateway.directory}, deleted at the end"
        )
        self.write_line("svc demo: Authority, Proxy, Connector and a person's side, in one process")
        self.write_line(f"          on loopback only; state {where}")
        if not gateway.scene.has_database:
            self.write_line(f"          without a database: {escaped(gateway.database.problem)}")
        self.write_line("")

    def _part(self) -> None:
        self.write_line("")
        self.write_line("To set up a permanent gateway, in one process or in three:")
        self.write_line(f"  {self.program} init my-gateway --all")
        self.write_line(f"  {self.program} init my-gateway")

    async def _stay(self) -> None:
        if self._failed is not None:
            raise self._failed
        self._staying = Deferred()
        try:
            await self._staying
        finally:
            self._staying = None

    def _gave_up(self, refusal: SvcError) -> None:
        """A role ended itself; before the story is told, the story will say so by itself."""
        self._failed = refusal
        if self._staying is not None:
            self._staying.errback(refusal)
