"""What every outside copy of signed heads keeps.  Mix into a trial TestCase and make your sink.

::

    class FileTests(HeadSinkContract, TestCase):
        def make(self):
            return FileSink(Path(self.mktemp()))
"""

from __future__ import annotations

from typing import Any

from zope.interface.verify import verifyObject

from svc.interfaces.audit import IHeadSink, IHeadSource

LINES = (b'{"head":1}', b'{"head":"' + b"x" * 20_000 + b'"}', b'{"head":3}')


class HeadSinkContract:
    """The contract."""

    def make(self: Any) -> Any:
        """A sink that holds nothing yet."""
        raise self.failureException("a contract test makes its own sink")

    async def held(self: Any, sink: Any) -> list[bytes]:
        """The lines that the sink holds now, without their ends."""
        raise self.failureException("a contract test says what its sink holds")

    async def test_keeps_the_interface(self: Any) -> None:
        """The sink has every member of IHeadSink, and has a name that holds no password."""
        sink = self.make()
        verifyObject(IHeadSink, sink)
        self.assertTrue(sink.name)
        self.assertNotIn("@", sink.name)

    async def test_each_line_is_there(self: Any) -> None:
        """A line is there, whole, when the sink has returned; one that comes twice does no harm."""
        sink = self.make()
        for count, line in enumerate((*LINES, LINES[-1]), 1):
            await sink.put(line)
            self.assertEqual((await self.held(sink))[: min(count, 3)], list(LINES[: min(count, 3)]))

    async def test_read_back(self: Any) -> None:
        """A sink that can be read has no head before the first one."""
        sink = self.make()
        if IHeadSource.providedBy(sink):
            verifyObject(IHeadSource, sink)
            self.assertIsNone(await sink.newest())
