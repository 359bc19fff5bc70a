"""Places that anybody may take."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from svc.ratelimit.places import Places


class PlacesTests(SynchronousTestCase):
    """Six of them."""

    def setUp(self) -> None:
        self.places = Places(6)
        self.lost: list[str] = []

    def take(self, name: str, source: str, now: float = 0.0) -> bool:
        return self.places.take(name, source, lambda: self.lost.append(name), now)

    def test_oldest_of_the_most(self) -> None:
        """Past the limit the oldest of whoever has the most is given up, and nobody else's."""
        self.take("good", "a")
        for number in range(10):
            self.assertTrue(self.take(f"bad{number}", "z"))
        self.assertEqual(self.lost, [f"bad{number}" for number in range(5)])
        self.assertEqual(self.places.count, 6)
        self.assertTrue(self.take("other", "b"))
        self.assertEqual(self.lost[5:], ["bad5"])

    def test_many_sources(self) -> None:
        """Where all have as many, the oldest of all is given up."""
        for number in range(8):
            self.take(str(number), f"source{number}", float(number))
        self.assertEqual(self.lost, ["0", "1"])

    def test_share(self) -> None:
        """A source that has its share gets no more, whoever else has how many."""
        self.places = Places(6, share=2)
        taken = [self.take(str(number), "a") for number in range(4)]
        self.assertEqual((taken, self.lost), ([True, True, False, False], []))
        self.assertTrue(self.take("other", "b"))

    def test_recent(self) -> None:
        """What was taken just now is not given up: nobody would get anything done."""
        self.places = Places(2, least_secs=3.0)
        for name, now, taken in (("a", 0.0, True), ("b", 1.0, True), ("c", 2.0, False)):
            self.assertIs(self.take(name, name, now), taken)
        self.assertTrue(self.take("c", "c", 3.0))
        self.assertEqual(self.lost, ["a"])

    def test_recent_and_most(self) -> None:
        """Whoever has just taken the most keeps nobody's old places for them."""
        self.places = Places(6, least_secs=3.0)
        for name, now in (("a0", 0.0), ("b0", 1.0), ("a1", 2.0)):
            self.take(name, name[0], now)
        for number in range(3):
            self.take(f"busy{number}", "z", 20.0)
        self.assertTrue(self.take("new", "c", 21.0))
        self.assertTrue(self.take("newer", "d", 21.0))
        self.assertEqual(self.lost, ["a0", "b0"])
        self.assertTrue(self.take("newest", "e", 23.0))
        self.assertEqual(self.lost[2:], ["busy0"])

    def test_left(self) -> None:
        """One that is left makes room; saying so again changes nothing."""
        for number in range(6):
            self.take(str(number), "a")
        for _ in range(2):
            self.places.leave("3", "a")
        self.assertEqual(self.places.count, 5)
        self.take("6", "a")
        self.assertEqual(self.lost, [])
        for number in range(7):
            self.places.leave(str(number), "a")
        self.assertEqual(self.places, Places(6))
