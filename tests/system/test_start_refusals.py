"""Whatever is malformed ends the start: a status, one clear line, and nothing left behind."""

from __future__ import annotations

import fcntl
import os
import resource
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from svc.model.cluster.token import make_token
from svc.pki.keyring import create_cluster
from svc.testing.gateway.processes import svc_command
from tests.config.malformed import GOOD, ROWS
from tests.support.proof import proves
from tests.system.starts import CANARY, Start, faults, from_nothing, outcomes, svc_words, tree

RUN_BY = "make fault"

EVERY = 10
"""Of the table in ``tests/config`` every tenth row is run as a process, too."""

PROXY = (
    'cluster = "a.example"\nstate_dir = "{dir}/state"\n'
    'endpoints.public_listen = "127.0.0.1:0"\nendpoints.authority = ["127.0.0.1:1"]\n'
)
CONNECTOR = 'cluster="a.example"\nstate_dir="{dir}/state"\nendpoints.proxy=["127.0.0.1:1"]\n'
AUTHORITY = 'cluster="a.example"\nstate_dir="{dir}/state"\nstore_url="sqlite://{dir}/state/s.db"\n'
PIN = "ab" * 32
JOINING = f'[join]\ntoken_file = "{{dir}}/token"\nca_pin = "{PIN}"\nauthority = "127.0.0.1:1"\n'
TOKEN = "svcj1_aaaaaaaaaaaaaaaa_" + "A" * 43 + "_00000000"
"""Of the right form; its check is not."""


def role(name: str) -> tuple[str, ...]:
    """The command line of a role."""
    return tuple(svc_command("--config", "{dir}/c.toml", name))


def token(text: str, mode: int = 0o600) -> Callable[[Path], None]:
    """Prepares a token file."""

    def prepare(directory: Path) -> None:
        (directory / "token").write_text(text)
        (directory / "token").chmod(mode)

    return prepare


def keys(directory: Path) -> None:
    """Prepares the keys of a cluster."""
    (directory / "state").mkdir(0o700)
    create_cluster(directory / "state" / "keys", "a.example", time.time, os.urandom)


def with_mode(mode: int) -> Callable[[Path], None]:
    """Prepares a configuration of another mode."""
    return lambda directory: (directory / "c.toml").chmod(mode)


def from_table() -> Iterator[Start]:
    """Rows of the table that the reading itself is tested with."""
    for label, name, text, where, words in ROWS[::EVERY]:
        config = text[1:] if text.startswith("!") else f"{GOOD[name]}{text}\n"
        config = config.replace("/tmp/none", "{dir}/state")
        place = "" if where == "config" else f"{where}: "
        yield Start(
            label=label,
            words=role("up" if name == "client" else name),
            config=config,
            says=(place, words),
        )


FILTERS = [
    Start(
        label=f"filter {text[:20]!r}",
        words=role(name),
        config=PROXY,
        says=("RUST_LOG: ", words),
        environ={"RUST_LOG": text},
    )
    for name, text, words in (
        ("proxy", "svc=notalevel", "item 1: unknown level; levels: off, error"),
        ("proxy", "svc=inof", "item 1: unknown level; did you mean info?"),
        ("authority", "warn,a=b=c", "item 2: unknown level"),
        ("connector", "=", "item 1: is not <target>=<level> or a level"),
        ("all", "svc_proxy=", "item 1: unknown level"),
        ("up", "svc=\u00ef", "item 1: unknown level"),
        ("proxy", "svc=info," * 12_000, "is longer than"),
        ("proxy", "svc=info,,warn", "item 2: unknown level"),
    )
]

FILES = [
    Start(
        label="no such file",
        words=role("proxy"),
        config=None,
        says=("c.toml: cannot be read: no such file",),
    ),
    Start(
        label="a directory",
        words=role("proxy"),
        config=None,
        says=("c.toml: is not a regular file",),
        prepare=lambda own: (own / "c.toml").mkdir(),
    ),
    Start(
        label="a symbolic link",
        words=role("proxy"),
        config=None,
        says=("c.toml: is a symbolic link; name the file",),
        prepare=lambda own: (own / "c.toml").symlink_to("/dev/null"),
    ),
    Start(
        label="writable by others",
        words=role("proxy"),
        config=PROXY,
        says=("c.toml: other users can write", "chmod"),
        prepare=with_mode(0o646),
    ),
    Start(
        label="byte order mark",
        words=role("proxy"),
        config="\ufeff" + PROXY,
        says=("c.toml: starts with a byte",),
    ),
    Start(
        label="too large",
        words=role("proxy"),
        config="#" * (1 << 20) + PROXY,
        says=("c.toml: is larger than 1 MiB",),
    ),
    Start(
        label="not UTF-8",
        words=role("proxy"),
        config=PROXY,
        says=("c.toml: line 6: is not UTF-8",),
        prepare=lambda own: (own / "c.toml").open("ab").write(b"\n\xff"),
    ),
    Start(
        label="a password in the store's URL",
        words=role("authority"),
        config=AUTHORITY.replace("sqlite://{dir}/state/s.db", f"postgresql://svc:{CANARY}@db/svc")
        + '[plugins]\nstores = ["postgresql"]\n',
        says=("store_url: must not hold a password; ", "?passfile=", "SVC_STORE_URL"),
    ),
    Start(
        label="a line that does not parse",
        words=role("authority"),
        config=f'{AUTHORITY}profile = "{CANARY}\n',
        says=("c.toml: line 4, key profile: is not valid TOML",),
    ),
    Start(
        label="unclosed table",
        words=role("proxy"),
        config="[telemetry",
        says=("c.toml: ", "is not valid TOML"),
    ),
]

VARIABLES = [
    Start(
        label="unknown variable",
        words=role("proxy"),
        config=PROXY,
        says=(
            "SVC_TELEMETRY__METRIC_LISTEN: unknown variable; did you mean",
            "SVC_TELEMETRY__METRICS_LISTEN?",
        ),
        environ={"SVC_TELEMETRY__METRIC_LISTEN": f'"{CANARY}"'},
    ),
    Start(
        label="not a TOML value",
        words=role("proxy"),
        config=PROXY,
        says=("SVC_PROFILE: must be a TOML value",),
        environ={"SVC_PROFILE": CANARY},
    ),
    Start(
        label="wrong type",
        words=role("proxy"),
        config=PROXY,
        says=("limits.drain_secs (SVC_LIMITS__DRAIN_SECS): must be a number of seconds",),
        environ={"SVC_LIMITS__DRAIN_SECS": f'"{CANARY}"'},
    ),
    Start(
        label="collector",
        words=role("connector"),
        config=CONNECTOR,
        says=("telemetry.otel_endpoint", "user information in the URL is not allowed"),
        environ={"SVC_TELEMETRY__OTEL_ENDPOINT": f'"http://u:{CANARY}@h"'},
    ),
    Start(
        label="the shared directory",
        words=role("proxy"),
        config=PROXY,
        says=("STATE_DIRECTORY: ", "the shared /var/lib/svc", "/var/lib/svc/proxy"),
        status=238,
        environ={"STATE_DIRECTORY": "/var/lib/svc"},
    ),
    Start(
        label="the shared directory, authority",
        words=role("authority"),
        config=AUTHORITY,
        says=("STATE_DIRECTORY: ", "/var/lib/svc/authority"),
        status=238,
        environ={"STATE_DIRECTORY": "/var/lib/svc"},
    ),
    Start(
        label="another directory than the unit's",
        words=role("proxy"),
        config=PROXY,
        says=("state_dir: must be the directory that the systemd unit provides",),
        environ={"STATE_DIRECTORY": "/var/lib/svc/proxy"},
    ),
]

TOKENS = [
    Start(
        label="no identity, no token",
        words=role("proxy"),
        config=PROXY,
        says=(
            "join.token_file: no identity in state_dir yet",
            "`svc authority nodes add` prints the token",
        ),
    ),
    Start(
        label="no token file",
        words=role("proxy"),
        config=PROXY + JOINING,
        says=("join.token_file: ", "/token: no such file"),
    ),
    Start(
        label="empty",
        words=role("connector"),
        config=CONNECTOR + JOINING,
        says=("join.token_file: ", "/token: is empty", "run it again"),
        prepare=token(""),
    ),
    Start(
        label="cut",
        words=role("proxy"),
        config=PROXY + JOINING,
        says=("join.token_file: ", "does not have the form"),
        prepare=token(CANARY),
    ),
    Start(
        label="mistyped",
        words=role("proxy"),
        config=PROXY + JOINING,
        says=("join.token_file: ", "its checksum does not match, so it was cut or mistyped"),
        prepare=token(TOKEN),
    ),
    Start(
        label="far too long",
        words=role("proxy"),
        config=PROXY + JOINING,
        says=("join.token_file: ", "too long"),
        prepare=token(CANARY * 100),
    ),
    Start(
        label="open to others",
        words=role("proxy"),
        config=PROXY + JOINING,
        says=("join.token_file: ", "mode 0644 lets other users read it; run chmod go-rwx"),
        prepare=token(TOKEN, 0o644),
    ),
    Start(
        label="a link",
        words=role("proxy"),
        config=PROXY + JOINING,
        says=("join.token_file: ", "/token: "),
        prepare=lambda own: (own / "token").symlink_to("c.toml"),
    ),
    Start(
        label="nobody to join at",
        words=role("proxy"),
        config=PROXY + JOINING.replace("authority", "#"),
        says=("join.authority: required to join",),
        prepare=token(TOKEN),
    ),
]

MACHINE = [
    Start(
        label="no cluster keys",
        words=role("authority"),
        config=AUTHORITY,
        says=("state_dir: ", "contains no cluster keys; create them with `svc init`"),
    ),
    Start(
        label="directory open to others",
        words=role("proxy"),
        config=PROXY,
        says=("state_dir: ", "accessible to this user only (mode 0700); run chmod 700 "),
        prepare=lambda own: (own / "state").mkdir(0o755),
    ),
    Start(
        label="state is a file",
        words=role("proxy"),
        config=PROXY,
        says=("state_dir: ", "/state: "),
        prepare=lambda own: (own / "state").touch(),
    ),
    Start(
        label="unknown kind",
        words=role("connector"),
        config=CONNECTOR + '[plugins]\nkinds = ["tpc"]',
        says=("kind tpc: no such drop-in; did you mean tcp?",),
    ),
    Start(
        label="unknown store",
        words=role("authority"),
        config=AUTHORITY + '[plugins]\nstores = ["sqlite", "sqlit"]',
        says=("store sqlit: no such drop-in; did you mean sqlite?",),
        prepare=keys,
    ),
]

USAGE = [
    Start(
        label="no configuration",
        words=tuple(svc_command("proxy")),
        config=None,
        says=("svc: running a role requires its configuration: svc --config FILE proxy",),
        status=64,
    ),
    Start(
        label="unknown role",
        words=role("gateway"),
        config=PROXY,
        says=("no command 'gateway'; roles are authority, proxy, connector, all",),
        status=64,
    ),
    Start(
        label="a word after a role",
        words=(*role("proxy"), "now"),
        config=PROXY,
        says=("svc: ", "now"),
        status=64,
    ),
    Start(
        label="a wrong word under authority",
        words=(*role("authority"), "bogus"),
        config=AUTHORITY,
        says=("svc: ", "bogus"),
        status=64,
    ),
    Start(
        label="unknown option",
        words=(*role("proxy"), "--detach"),
        config=PROXY,
        says=("svc: ", "--detach"),
        status=64,
    ),
]


class RefusalTests(SynchronousTestCase):
    """Each start is a real process, one of each table from nothing; each must end by itself."""

    def refused(self, first: Start, *others: Start) -> None:
        """Fail with everything that was not refused as it must be."""
        found = faults([from_nothing(first), *others], Path(self.mktemp()).absolute())
        self.assertEqual(found, [], "\n\n".join(found))

    @proves("G-CFG-01", "G-CFG-04", "G-CLI-26", "G-ERR-04")
    def test_configurations(self) -> None:
        """A malformed configuration names its key and the nearest known one."""
        self.refused(*from_table())

    @proves("G-LOG-09", "X-05", "G-CLI-26", "G-ERR-04")
    def test_filters(self) -> None:
        """A malformed log filter is never ignored, whichever the role."""
        self.refused(*FILTERS)

    @proves("G-CFG-01", "G-OPEN-80")
    def test_files(self) -> None:
        """A configuration file that is not a plain file of ours is not read."""
        self.refused(*FILES)

    @proves("G-ERR-13", "X-59", "G-OPEN-69")
    def test_variables(self) -> None:
        """The environment is checked like the file; the shared state directory is status 238."""
        self.refused(*VARIABLES)

    @proves("G-CFG-01")
    def test_at_once(self) -> None:
        """A malformed file costs less than a second of the machine's time."""
        path = Path(self.mktemp()).absolute()
        path.write_text("[telemetry\n")

        def cost() -> float:
            """CPU seconds of one such start."""
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            done = subprocess.run(
                svc_words("--config", str(path), "proxy"),
                capture_output=True,
                text=True,
                timeout=60,
            )
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn("line 1: is not valid TOML", done.stderr)
            return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime

        # The least of several is the start's own cost: others on the machine only add to it.
        self.assertTrue(any(cost() < 1.0 for _ in range(3)))

    @proves("G-ROLE-12")
    def test_tokens(self) -> None:
        """A join token that cannot be one is refused by its key, and never shown."""
        self.refused(*TOKENS)

    def test_machine(self) -> None:
        """So is what the machine does not have, or lets others reach."""
        self.refused(*MACHINE)

    @proves("G-ROLE-01", "G-CLI-02", "X-34")
    def test_usage(self) -> None:
        """A command line of another form is status 64, and starts nothing."""
        self.refused(*USAGE)

    def test_enough(self) -> None:
        """There are at least forty rows, no two alike."""
        rows = [*from_table(), *FILTERS, *FILES, *VARIABLES, *TOKENS, *MACHINE, *USAGE]
        self.assertGreaterEqual(
            len({(row.words, row.config, str(row.environ)) for row in rows}), 40
        )

    @proves("G-LOG-02", "G-LOG-03", "G-LOG-04", "G-OPEN-23")
    def test_json(self) -> None:
        """With JSON logs the refusal is one JSON object, under the profile where it is known."""
        environ = {"SVC_LOG_FORMAT": "json"}
        early = ('{"timestamp":"', '"level":"ERROR"', '"text":"telemetri: unknown key; did you')
        late = ('"profile":"blue"', '"reason":"config"', '"text":"join.token_file: no')
        self.refused(
            Start(
                label="early",
                words=role("proxy"),
                config=PROXY + "[telemetri]",
                says=early,
                environ=environ,
            ),
            Start(
                label="late",
                words=role("proxy"),
                config='profile = "blue"\n' + PROXY,
                says=late,
                environ=environ,
            ),
            Start(
                label="human",
                words=role("proxy"),
                config='profile = "b"\n' + PROXY,
                says=("svc: join", "profile=b"),
            ),
        )


class OccupiedTests(SynchronousTestCase):
    """What another process holds."""

    def test_address_in_use(self) -> None:
        """An address in use ends the start with 1; key and address are named, nothing is left."""
        with socket.create_server(("127.0.0.1", 0)) as held:
            address = f"127.0.0.1:{held.getsockname()[1]}"
            good = PROXY + JOINING
            starts = [
                Start(
                    label="public",
                    words=role("proxy"),
                    config=good.replace("127.0.0.1:0", address),
                    says=(f"endpoints.public_listen: cannot listen on {address}: ",),
                    prepare=token(good_token()),
                ),
                Start(
                    label="telemetry",
                    words=role("proxy"),
                    config=good + f'[telemetry]\nmetrics_listen = "{address}"\n',
                    says=(f"telemetry.metrics_listen: cannot listen on {address}: ",),
                    prepare=token(good_token()),
                ),
            ]
            found = faults(starts, Path(self.mktemp()).absolute())
        self.assertEqual(found, [], "\n\n".join(found))

    def test_second_process(self) -> None:
        """A second process on one state directory is refused and disturbs nothing."""
        directory = Path(self.mktemp()).absolute()
        state = directory / "held"
        state.mkdir(0o700, parents=True)
        with (state / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            before = tree(state)
            config = PROXY.replace("{dir}/state", str(state))
            says = ("state_dir: ", "/held: another process is using it; stop that one")
            start = Start(label="second", words=role("proxy"), config=config, says=says)
            (outcome,) = outcomes([start], directory / "second")
            self.assertEqual(list(outcome.faults), [])
            self.assertEqual(tree(state), before)


def good_token() -> str:
    """A token that can be read; nobody made it."""
    return make_token(os.urandom).text
