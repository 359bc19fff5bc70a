"""A malformed configuration ends the start, says where and what, and never shows a value."""

from __future__ import annotations

import contextlib
import io

from twisted.trial.unittest import SynchronousTestCase

from svc.config import ConfigErrors, SharedStateDir, read_settings
from svc.errors import ConfigError
from tests.config.malformed import CANARY, GOOD, ROWS
from tests.support.proof import proves


def refused(role: str, text: str, environ: dict[str, str] | None = None) -> ConfigError | None:
    """The refusal of a configuration, or None when it is accepted."""
    try:
        read_settings(text, role, environ or {})
    except ConfigError as error:
        return error
    return None


def lines(error: ConfigError | None) -> list[str]:
    """What a person reads."""
    return [] if error is None else error.text.splitlines()


class MalformedTests(SynchronousTestCase):
    """The table of malformed configurations."""

    @proves("G-CFG-01", "G-CFG-04", "G-CFG-07", "G-OPEN-20", "G-OPEN-21", "G-OPEN-54")
    def test_each_row_is_refused_at_its_key(self) -> None:
        """Every malformed configuration is refused by key path, in the words expected."""
        for label, role, text, where, words in ROWS:
            with self.subTest(label=label):
                whole = text[1:] if text.startswith("!") else f"{GOOD[role]}{text}\n"
                found = lines(refused(role, whole))
                wanted = [each for each in found if each.startswith(f"{where}: ")]
                self.assertTrue([each for each in wanted if words in each], f"{label}: {found}")

    @proves("G-OPEN-80")
    def test_no_value_is_shown(self) -> None:
        """No refusal repeats a value of the file, which may be a secret."""
        rows = [row for row in ROWS if CANARY in row[2]]
        self.assertGreater(len(rows), 8)
        for label, role, text, _, _ in rows:
            with self.subTest(label=label):
                whole = text[1:] if text.startswith("!") else f"{GOOD[role]}{text}\n"
                error = refused(role, whole)
                self.assertNotIn(CANARY, str(error))
                self.assertNotIn(CANARY, repr(error.__context__) if error else "")

    def test_nothing_on_stdout(self) -> None:
        """A refusal is for its caller to show; the reading prints nothing."""
        with contextlib.redirect_stdout(io.StringIO()) as out:
            for _, role, text, _, _ in ROWS:
                refused(role, GOOD[role] + text)
        self.assertEqual(out.getvalue(), "")

    def test_all_at_once(self) -> None:
        """Every mistake of a file is told in one go, one line each, without doubles."""
        error = refused("authority", 'zzz = 1\nprofile = 3\n[limits]\ndrain_secs = "x"\n')
        self.assertIsInstance(error, ConfigErrors)
        found = lines(error)
        for path in ("zzz", "profile", "limits.drain_secs", "cluster", "state_dir", "store_url"):
            self.assertEqual(len([each for each in found if each.startswith(f"{path}: ")]), 1)
        self.assertEqual(len(found), 6)
        self.assertEqual(error.exit_code if error else 0, 1)

    def test_strange_names_are_escaped(self) -> None:
        """A key with a terminal escape in its name is shown without its effect."""
        error = refused("client", '"a\\u001b[31m\\u202e" = 1\n')
        self.assertNotIn("\x1b", str(error))
        self.assertNotIn("\u202e", str(error))


class SecretTests(SynchronousTestCase):
    """A secret is in a file of its own or in the environment, never in the configuration."""

    PLUGINS = '[plugins]\nstores = ["sqlite", "postgresql", "ram"]\n'

    def store(self, url: str, environ: dict[str, str] | None = None) -> list[str]:
        """What is said of a configuration that names this store."""
        text = GOOD["authority"].replace("sqlite:////tmp/none/s.db", url)
        return lines(refused("authority", f"{text}{self.PLUGINS}", environ))

    @proves("G-OPEN-80")
    def test_password_in_the_file(self) -> None:
        """A store URL in the file must hold no password; the refusal says where one goes."""
        for url in (
            f"postgresql://svc:{CANARY}@db.example/svc",
            f"postgres://svc:{CANARY}@db.example:5433/svc?sslmode=verify-full",
            f"postgresql://:{CANARY}@a.example,b.example/svc",
            f"postgresql://svc@db.example/svc?password={CANARY}",
            f"postgresql://svc@db.example/svc?sslmode=require&pass%77ord={CANARY}",
            f"postgresql://svc@db.example/svc?sslkey=/key&sslpassword={CANARY}",
            f"postgresql://svc@db.example/svc?oauth_client_secret={CANARY}",
            f"postgresql://svc@db.example/svc?scram_client_key={CANARY}",
            f"postgresql://svc:5432?{CANARY}@db.example/svc",
            f"ram://svc:{CANARY}@db.example/svc",
        ):
            with self.subTest(url=url):
                self.assertEqual(
                    self.store(url),
                    [
                        "store_url: must not hold a password; name libpq's password file with "
                        "?passfile=/its/path, or set the whole URL in SVC_STORE_URL"
                        if url.startswith("postgres")
                        else "store_url: must not hold a password; set the whole URL in "
                        "SVC_STORE_URL"
                    ],
                )

    @proves("G-OPEN-80")
    def test_password_elsewhere(self) -> None:
        """A password file is named, or the environment gives the whole URL; both are taken."""
        named = "postgresql://svc@db.example/svc?passfile=/etc/svc/pgpass"
        for url in (named, "postgresql://svc:@db.example/svc?password=", "sqlite:////a:b@c/s.db"):
            self.assertEqual(self.store(url), [], url)
        secret = f"postgresql://svc:{CANARY}@db.example/svc"
        self.assertEqual(self.store(named, {"SVC_STORE_URL": f'"{secret}"'}), [])

    @proves("G-OPEN-80", "X-39")
    def test_line_that_does_not_parse(self) -> None:
        """A line that is no TOML is told by its number and its key, a wrong type by its key."""
        twice = "config: line 5, key profile: a key or table is defined twice"
        for row, wanted in (
            (f"password {CANARY}", "config: line 4: is not valid TOML"),
            (f"{CANARY} = {CANARY}", "config: line 4: is not valid TOML"),
            (f'profile = "{CANARY}', "config: line 4, key profile: is not valid TOML"),
            (f"limits.drain_secs = {CANARY}", "config: line 4, key drain_secs: is not valid TOML"),
            (f'profile = "a"\nprofile = "{CANARY}"', twice),
            (f'store_auto_migrate = "{CANARY}"', "store_auto_migrate: must be true or false"),
        ):
            with self.subTest(row=row):
                error = refused("authority", f"{GOOD['authority']}{row}\n")
                self.assertEqual(lines(error), [wanted])
                self.assertNotIn(CANARY, repr(error))


class EnvironmentTests(SynchronousTestCase):
    """Variables lie over the file."""

    def test_unknown_variable(self) -> None:
        """A misspelled variable is refused with the nearest known one."""
        error = refused("client", "", {"SVC_TELEMETRY__METRIC_LISTEN": '""'})
        wanted = "unknown variable; did you mean SVC_TELEMETRY__METRICS_LISTEN?"
        self.assertEqual(lines(error), [f"SVC_TELEMETRY__METRIC_LISTEN: {wanted}"])

    def test_value_is_toml(self) -> None:
        """A variable's value has TOML's form, and cannot smuggle in a second key."""
        for value in ("blue", '"a"\nlimits = {}', "", "nan", CANARY):
            with self.subTest(value=value):
                error = refused("client", "", {"SVC_PROFILE": value})
                self.assertIn("SVC_PROFILE", str(error))
                self.assertNotIn(CANARY, str(error))

    def test_refusal_names_the_variable(self) -> None:
        """A wrong value that came from a variable is told with the variable's name."""
        error = refused("client", "", {"SVC_LIMITS__DRAIN_SECS": '"x"'})
        self.assertIn("limits.drain_secs (SVC_LIMITS__DRAIN_SECS): must be", str(error))

    def test_variables_that_are_no_keys(self) -> None:
        """The few variables that are not keys are known."""
        known = (
            "SVC_LOG_FORMAT",
            "SVC_CONFIG",
            "SVC_CRASH_AT",
            "SVC_REQUIRE_TOOLS",
            "SVC_TEST_RUN",
        )
        self.assertIsNone(refused("client", "", dict.fromkeys(known, "x")))


class FormerTests(SynchronousTestCase):
    """Keys of releases long gone."""

    @proves("U-NOTE-36")
    def test_listeners(self) -> None:
        """A listener is no key of its own: it is refused, with the key that it is now."""
        for role, line, wanted in (
            ("proxy", 'public_listen = "0.0.0.0:443"', "endpoints.public_listen"),
            ("authority", 'control_listen = "0.0.0.0:1"', "endpoints.control_listen"),
            ("proxy", 'listen = "0.0.0.0:443"', "endpoints"),
            ("proxy", 'listen_addr = "0.0.0.0:443"', "endpoints"),
            ("proxy", '[listen]\npublic = "0.0.0.0:443"', "endpoints"),
            ("authority", '[authority]\nlisten = "0.0.0.0:1"', "endpoints"),
        ):
            told = str(refused(role, f"{GOOD[role]}{line}\n"))
            self.assertIn("unknown key", told, line)
            self.assertIn(wanted, told, line)


class StateDirectoryTests(SynchronousTestCase):
    """The state directory is one role's alone."""

    def test_shared_directory_of_an_old_unit(self) -> None:
        """A unit that gives the directory of all roles ends the start with 238."""
        error = refused("proxy", GOOD["proxy"], {"STATE_DIRECTORY": "/var/lib/svc"})
        self.assertIsInstance(error, SharedStateDir)
        self.assertEqual(error.exit_code if error else 0, 238)

    def test_other_roles_directory(self) -> None:
        """Under a unit the directory is the one the unit gives."""
        text = GOOD["proxy"].replace("/tmp/none", "/var/lib/svc/authority")
        error = refused("proxy", text, {"STATE_DIRECTORY": "/var/lib/svc/proxy"})
        self.assertIn("state_dir: must be the directory that the systemd unit provides", str(error))
        text = GOOD["proxy"].replace("/tmp/none", "/var/lib/svc/proxy/")
        self.assertIsNone(refused("proxy", text, {"STATE_DIRECTORY": "/var/lib/svc/proxy"}))

    @proves("G-OPEN-70", "X-60")
    def test_unit_with_another_directory(self) -> None:
        """A unit may provide the role's own directory and those below it, and no other."""
        for role in ("authority", "proxy", "connector", "all"):
            own = f"/var/lib/svc/{role}"
            for path, is_good in (
                (own, True),
                (f"{own}/blue", True),
                (f"{own}-2", False),
                ("/var/lib/svc/other", False),
                ("/srv/svc", False),
            ):
                text = GOOD[role].replace('state_dir="/tmp/none"', f'state_dir="{path}"')
                told = str(refused(role, text, {"STATE_DIRECTORY": path}))
                self.assertEqual(told == "None", is_good, (role, path, told))
                if not is_good:
                    self.assertIn(f"must be {own} or a directory below it", told)
                self.assertIsNone(refused(role, text))
