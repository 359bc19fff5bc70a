"""A reload: what is compared, when it is refused, and that nothing is changed by half."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import TestCase

from svc.compose.reload.keys import ReloadableKeys, changed_keys
from svc.compose.reload.reloading import RECORD_SECS, Reloaded, Reloading
from svc.config import RoleSettings, load_settings
from svc.errors import ConfigError, StoreUnavailable, SvcError, Unavailable
from svc.runtime.threads import inline
from tests.support.logged import logged
from tests.support.proof import proves

BASE = """\
cluster = "c1.example.test"
state_dir = "{directory}"
endpoints.public_listen = "127.0.0.1:7400"
"""
SESSIONS, OPENS = "limits.max_sessions_per_person", "limits.opens_per_minute"


class ReloadTests(TestCase):
    """Of a Proxy's file, without a Proxy."""

    def setUp(self) -> None:
        self.directory = Path(self.mktemp()).absolute()
        self.directory.mkdir(mode=0o700)
        self.path = self.directory / "proxy.toml"
        self.write()
        self.clock = Clock()
        self.keys = ReloadableKeys(self.settings())
        self.reloading = Reloading(keys=self.keys, environ={}, clock=self.clock, in_thread=inline)
        self.applied: list[tuple[int, int]] = []
        self.keys.on(SESSIONS, OPENS, apply=self.apply)

    def write(self, *lines: str) -> None:
        """The file, with these lines at its end."""
        text = BASE.format(directory=self.directory)
        self.path.write_text("".join([text, *(f"{line}\n" for line in lines)]))
        self.path.chmod(0o600)

    def settings(self) -> RoleSettings:
        """What the file says now."""
        return load_settings(str(self.path), "proxy", {})

    def apply(self, settings: RoleSettings) -> None:
        """Note what takes effect."""
        limits = settings.limits
        self.applied.append((limits.max_sessions_per_person, limits.opens_per_minute))

    async def reload(self) -> Reloaded:
        """By somebody at the socket."""
        return await self.reloading.reload(1000)

    async def refused(self, kind: type[SvcError]) -> SvcError:
        """The refusal; and that nothing was changed by it."""
        before, generation = self.keys.settings, self.applied.copy()
        with self.assertRaises(kind) as caught:
            await self.reload()
        self.assertIs(self.keys.settings, before)
        self.assertEqual(self.applied, generation)
        refusal: SvcError = caught.exception
        return refusal

    @proves("G-OPEN-53")
    async def test_changes(self) -> None:
        """Keys that changed are applied together, once; the generation counts such reloads."""
        first = await self.reload()
        self.assertEqual((first.generation, first.changed, self.applied), (1, (), []))
        self.write(f"{SESSIONS} = 3", f"{OPENS} = 7")
        second = await self.reload()
        self.assertEqual((second.generation, second.changed), (2, (SESSIONS, OPENS)))
        self.assertEqual(self.applied, [(3, 7)])
        self.assertNotEqual(first.digest, second.digest)
        self.write(f"{SESSIONS} = 3 # a comment", f"{OPENS} = 7")
        third = await self.reload()
        self.assertEqual((third.generation, third.changed), (2, ()))
        self.assertNotEqual(second.digest, third.digest)

    @proves("G-OPEN-53")
    async def test_all_or_nothing(self) -> None:
        """Where one key needs a restart none takes effect, and those that need one are named."""
        self.write(f"{SESSIONS} = 3", 'profile = "blue"', "tunnel.lease_secs = 95")
        done = await self.reload()
        self.assertEqual(done.restart, ("profile", "tunnel.lease_secs"))
        self.assertEqual((done.generation, done.changed, self.applied), (1, (), []))
        self.write(f"{SESSIONS} = 3")
        self.assertEqual((await self.reload()).changed, (SESSIONS,))

    async def test_keys_of_others(self) -> None:
        """A key that the role does not read changes nothing for it."""
        self.write("store_lease_secs = 20", "connector.proxy_connection_count = 2")
        self.assertEqual(await self.reload(), Reloaded(1, (await self.reload()).digest))

    async def test_refused(self) -> None:
        """A refused file, a part that cannot take it, or that has not begun: nothing changes."""
        self.write(f"{SESSIONS} = 3", "nonsense = 1")
        self.assertIn("nonsense", (await self.refused(ConfigError)).text)
        self.write("limits.anonymous_burst = 3", f"{SESSIONS} = 3")
        self.assertIn("limits.anonymous_burst", (await self.refused(Unavailable)).text)
        self.keys.prepare("limits.anonymous_burst", by=self.cannot)
        self.assertEqual((await self.refused(ConfigError)).reason, "config")

    def cannot(self, settings: RoleSettings) -> Callable[[], object]:
        """Refuse."""
        raise ConfigError("limits.anonymous_burst", "refused for a test")

    async def test_recorded_first(self) -> None:
        """What cannot be recorded does not take effect; what is recorded says who and what."""
        told: list[Any] = []

        async def record(*what: Any) -> None:
            told.append((*what, list(self.applied)))
            if len(told) == 1:
                raise StoreUnavailable("away for a test")

        self.keys.recorded_by(record)
        self.write(f"{SESSIONS} = 3")
        await self.refused(StoreUnavailable)
        done = await self.reload()
        self.assertEqual(told[1], (1000, (SESSIONS,), done.digest, []))
        self.assertEqual(len(self.applied), 1)
        await self.reload()
        self.assertEqual(len(told), 2)

    async def test_record_hangs(self) -> None:
        """A store that does not answer is waited for some seconds; then others have their turn."""

        async def record(*what: Any) -> None:
            await Deferred()

        self.keys.recorded_by(record)
        self.write(f"{SESSIONS} = 3")
        hangs = Deferred.fromCoroutine(self.reload())
        self.clock.advance(RECORD_SECS)
        self.assertEqual(self.failureResultOf(hangs, SvcError).value.reason, "deadline")
        self.write()
        self.assertEqual((await self.reload()).changed, ())

    async def test_cannot_take_effect(self) -> None:
        """Where one part fails all the same, those before it go back to what was in force."""

        def fails(settings: RoleSettings) -> None:
            if settings is not before:
                raise ValueError("failed for a test")

        before = self.keys.settings
        self.keys.on("limits.anonymous_burst", apply=fails)
        self.keys.on("limits.denials_per_minute", apply=self.apply)
        self.write(f"{SESSIONS} = 3", f"{OPENS} = 7", "limits.anonymous_burst = 3")
        with self.assertRaises(SvcError) as caught:
            await self.reload()
        self.assertEqual(caught.exception.reason, "reload_failed")
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 1)
        self.assertIs(self.keys.settings, before)
        limits = before.limits
        self.assertEqual(
            self.applied, [(3, 7), (limits.max_sessions_per_person, limits.opens_per_minute)]
        )
        self.write(f"{SESSIONS} = 3")
        self.assertEqual((await self.reload()).generation, 2)

    async def test_cannot_go_back(self) -> None:
        """A part that cannot go back, either, keeps no other from that."""

        def prepare(settings: RoleSettings) -> Callable[[], object]:
            if settings is before:
                raise ValueError("failed for a test")
            return fails

        def fails() -> None:
            raise ValueError("failed for a test")

        before = self.keys.settings
        self.keys.prepare("limits.anonymous_burst", by=prepare)
        self.write(f"{SESSIONS} = 3", "limits.anonymous_burst = 3")
        with self.assertRaises(SvcError) as caught:
            await self.reload()
        self.assertEqual(caught.exception.reason, "reload_failed")
        self.assertEqual(len(self.flushLoggedErrors(ValueError)), 2)
        self.assertIs(self.keys.settings, before)
        self.assertEqual(self.applied[-1][0], before.limits.max_sessions_per_person)

    async def test_signals(self) -> None:
        """Those that come while one waits for its turn are answered by it."""
        begun: list[Any] = []

        async def record(*what: Any) -> None:
            begun.append(what)
            await Deferred()

        self.keys.recorded_by(record)
        self.write(f"{SESSIONS} = 3")
        for _ in range(50):
            self.reloading.hang_up()
        for _ in range(5):
            self.clock.advance(RECORD_SECS)
        self.assertEqual(len(begun), 2)

    async def test_signal(self) -> None:
        """A signal's reload is refused in the log alone."""
        events = logged(self)
        self.write("nonsense = 1")
        self.reloading.hang_up()
        self.write(f"{SESSIONS} = 3")
        self.reloading.hang_up()
        texts = [one["log_format"] for one in events if "log_format" in one]
        self.assertEqual(texts, ["the configuration was not reloaded", "configuration reloaded"])
        self.assertEqual(self.applied[0][0], 3)

    def test_compared(self) -> None:
        """Settings are compared by each key that the role reads, whatever its table."""
        before = self.settings()
        self.assertEqual(list(changed_keys(before, self.settings())), [])
        self.write('endpoints.public_names = ["g.example"]', "doctor.check_interval_secs = 5")
        self.assertEqual(
            list(changed_keys(before, self.settings())),
            ["endpoints.public_names", "doctor.check_interval_secs"],
        )
