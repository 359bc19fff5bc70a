"""Random bytes that are drawn ahead."""

from __future__ import annotations

import os
from threading import Thread

from twisted.trial.unittest import SynchronousTestCase

from svc.model.ids import DrawnAhead


class DrawnAheadTests(SynchronousTestCase):
    """What is drawn at once and given piece by piece."""

    def test_pieces(self) -> None:
        """Each byte that was drawn is given once, in pieces of the size."""
        drawn: list[bytes] = []

        def entropy(size: int) -> bytes:
            drawn.append(os.urandom(size))
            return drawn[-1]

        ahead = DrawnAhead(entropy, 16)
        given = [ahead(16) for _ in range(300)]
        self.assertEqual({len(one) for one in given}, {16})
        self.assertEqual(b"".join(given), b"".join(drawn)[: 300 * 16])
        self.assertLess(len(drawn), 10)

    def test_another_size(self) -> None:
        """A piece of another size is drawn by itself."""
        ahead = DrawnAhead(lambda size: b"\x07" * size, 16)
        self.assertEqual([len(ahead(size)) for size in (5, 16, 0)], [5, 16, 0])

    def test_threads(self) -> None:
        """No piece is given to two threads."""
        ahead = DrawnAhead(os.urandom, 16)
        given: list[bytes] = []
        threads = [
            Thread(target=lambda: given.extend([ahead(16) for _ in range(5000)])) for _ in range(4)
        ]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        self.assertEqual(len(set(given)), 20_000)
