"""Drop-ins at the start of a real process: named and sound ones run, nothing else does."""

from __future__ import annotations

import os
import pickle
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from svc.testing.gateway.fork_server import SITE_PACKAGES
from svc.testing.gateway.processes import svc_command
from tests.system.starts import Start, faults

RUN_BY = "make fault"

SOURCES = Path(__file__).resolve().parent.parent.parent
FOUND = (sysconfig.get_paths()["purelib"], str(SOURCES))
LIBRARY = Path("lib") / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
INSTALLED = {SITE_PACKAGES: "{dir}/site-packages"}
PYTHON = "{dir}/env/bin/python"
"""An interpreter of an environment where what lies in ``site-packages`` is installed."""
ALONE = "include-system-site-packages = false\n"
UNSAFE = (PYTHON, "-m", "svc", "--config", "{dir}/c.toml", "connector")
"""The working directory is the first place of modules."""
SVC = (PYTHON, "-P", "-m", "svc")
NAMED = (*SVC, "--config", "{dir}/c.toml", "connector")
TWISTD = (
    *(PYTHON, "-P", "-c", "from twisted.scripts.twistd import run; run()"),
    *("-n", "--pidfile=", "svc-connector", "--config", "{dir}/c.toml"),
)
CONFIG = (
    'cluster = "a.example"\nstate_dir = "{dir}/state"\n'
    'endpoints.proxy = ["127.0.0.1:1"]\nplugins.kinds = ["tcp", "WORD"]\n'
)
SOUND = """\
from svc.interfaces.kinds import Kind
from svc.kinds.opaque import AddressDialer
from svc.kinds.tcp import LOCAL, TERMS
KIND = Kind(name="WORD", terms=":TERMS", dialer=":DIALER", local=":LOCAL")
DIALER = AddressDialer(kind="WORD")
"""
MORE = "MORE = Kind(name='more', terms=':TERMS', dialer=':DIALER', local=':LOCAL')\n"


def sided(**sides: str) -> str:
    """A drop-in whose sides, or some, are elsewhere."""
    told = ", ".join(f'{side}="{where}"' for side, where in sides.items())
    return f"{SOUND}KIND = __import__('attrs').evolve(KIND, {told})\n"


def taking(text: str, name: str = "db") -> str:
    """A drop-in whose kind takes a parameter."""
    made = f"__import__('svc.model.session.parameters', fromlist='x').Parameter({text})"
    return f"{SOUND}TERMS.parameters['{name}'] = {made}\n"


OLD_DIALER = "type('Old', (AddressDialer,), {'endpoint': lambda self, a, b: 1})("
"""Of before there were ceilings."""

ODD_EVENT = "__import__('svc.interfaces.kinds', fromlist='x').KindEvent('odd')"
"""An event that a kind could bring."""


MARK = 'open({path!r}, "w").close()\n'
NO_IDENTITY = ("join.token_file: no identity in state_dir yet",)
"""What a start with sound drop-ins comes to: it is refused after they were loaded."""


class Poison:
    """A pickle that leaves a mark when it is read."""

    def __init__(self, path: Path) -> None:
        self._path = str(path)

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return os.mkdir, (self._path,)


def put(
    text: str, word: str = "extra", mode: int = 0o644, place: str = "site-packages"
) -> Callable[[Path], None]:
    """Prepares a drop-in; ``MARK`` in its text is a line that shows whether it ran."""

    def prepare(own: Path) -> None:
        folder = own / place / "svc" / "plugins"
        folder.mkdir(0o755, parents=True, exist_ok=True)
        path = folder / f"kind_{word}.py"
        mark = MARK.format(path=str(own / "ran"))
        path.write_text(text.replace("MARK", mark).replace("WORD", word))
        path.chmod(mode)

    return prepare


def poisoned(own: Path) -> None:
    """Prepares what ``twisted.plugin`` would unpickle, in every folder in reach."""
    for place in (own, own / "site-packages"):
        for package in ("svc", "twisted"):
            folder = place / package / "plugins"
            folder.mkdir(0o755, parents=True, exist_ok=True)
            if (package, place) != ("twisted", own / "site-packages"):  # Twisted's own to trust
                (folder / "dropin.cache").write_bytes(pickle.dumps(Poison(own / "ran")))


def shadowed(own: Path) -> None:
    """Prepares a package ``svc`` in the working directory."""
    (own / "svc").mkdir(exist_ok=True)
    (own / "svc" / "__init__.py").write_text(MARK.format(path=str(own / "ran")))


def together(*prepares: Callable[[Path], object]) -> Callable[[Path], None]:
    """Prepares all of these; whichever runs leaves the one mark."""

    def prepare(own: Path) -> None:
        for each in prepares:
            each(own)

    return prepare


def start(
    label: str,
    says: str,
    prepare: Callable[[Path], object],
    word: str = "extra",
    words: tuple[str, ...] = (),
) -> Start:
    """A Connector that names one more kind."""
    command = words or tuple(svc_command("--config", "{dir}/c.toml", "connector"))
    wanted = (says,) if says else NO_IDENTITY
    config = CONFIG.replace(', "WORD"', f', "{word}"' if word else "")
    made = Start(
        label=label, words=command, config=config, says=wanted, environ=INSTALLED, prepare=prepare
    )
    return installed(made) if command[0] == PYTHON else made


def installed(start: Start) -> Start:
    """The same by an interpreter of its own, with its drop-ins installed where that looks."""

    def prepare(own: Path) -> None:
        start.prepare(own)
        site = own / "site-packages"
        site.mkdir(exist_ok=True)
        (site / "others.pth").write_text("\n".join(FOUND), "utf-8")
        library = own / "env" / LIBRARY
        library.parent.mkdir(parents=True)
        library.symlink_to(site)
        python = Path(getattr(sys, "_base_executable", sys.executable)).resolve()
        (own / "env" / "pyvenv.cfg").write_text(f"home = {python.parent}\n{ALONE}", "utf-8")
        (own / "env" / "bin").mkdir()
        (own / "env" / "bin" / "python").symlink_to(python)

    words = start.words if start.words[0] == PYTHON else (*SVC, *start.words[len(svc_command()) :])
    return evolve(start, words=words, prepare=prepare, environ={})


ROLES = {
    "authority": 'store_url = "sqlite://{dir}/state/s.db"\n',
    "proxy": 'endpoints.public_listen = "127.0.0.1:0"\n',
    "connector": 'endpoints.proxy = ["127.0.0.1:1"]\n',
    "up": 'endpoints.proxy = ["127.0.0.1:1"]\n',
}
ROLES["all"] = ROLES["authority"] + ROLES["proxy"]


def ungated(role: str, says: str, text: str) -> Start:
    """A start of *role* with a kind whose gate, or whose end of it, is not whole."""
    nodes = "" if role == "up" else 'cluster = "a.example"\nstate_dir = "{dir}/state"\n'
    return Start(
        label=f"{role}, {says}",
        words=tuple(svc_command("--config", "{dir}/c.toml", role)),
        config=f'{nodes}{ROLES[role]}plugins.kinds = ["tcp", "extra"]\n',
        says=(f"extra: {says}",),
        environ=INSTALLED,
        prepare=put(text),
    )


BROKEN = [
    start("missing", "kind extra: no such drop-in", lambda own: None),
    start("two of a name", "kind tcp: found twice: ", put(SOUND, "tcp"), word=""),
    start("nothing in it", "IResourceKind; found none", put("x = 1\n")),
    start("two in it", "found 2 of them", put(SOUND + MORE)),
    start(
        "a different name",
        "kind extra: the object found there has a different name",
        put(SOUND.replace("WORD", "else")),
    ),
    start("raising", "cannot be imported: RuntimeError: boom", put('raise RuntimeError("boom")')),
    start("leaving", "cannot be imported: SystemExit: 0", put("raise SystemExit(0)")),
    start("no Python", "cannot be imported: SyntaxError", put("def")),
    start(
        "writable by others",
        "kind extra: other users can write to ",
        put("MARK" + SOUND, mode=0o666),
    ),
]

NOT_RUN = [
    start("in the working directory", "kind extra: no such drop-in", put("MARK", place="."),
          words=NAMED),
    start("there, by python -m", "kind extra: no such drop-in", put("MARK", place="."),
          words=UNSAFE),
    start("there, under twistd", "kind extra: no such drop-in", put("MARK", place="."),
          words=TWISTD),
    # One start for three traps, since each is an interpreter from nothing; all lie there in full.
    start("a package there, installed but not named, a poisoned cache", "",
          together(shadowed, put("MARK"), poisoned), word="", words=NAMED),
    start("the same under twistd", "",
          together(shadowed, put("MARK"), poisoned), word="", words=TWISTD),
]  # fmt: skip


class DropInTests(SynchronousTestCase):
    """Each start is a real process over folders of its own."""

    def refused(self, *starts: Start) -> None:
        """Fail with every start that ended otherwise, or ran what it must not."""
        found = faults(starts, Path(self.mktemp()).absolute())
        self.assertEqual(found, [], "\n\n".join(found))

    def test_sound(self) -> None:
        """A drop-in that is installed and named is loaded, and makes the mark looked for."""
        sound = installed(start("sound", "", put("MARK" + SOUND)))
        found = faults([sound], Path(self.mktemp()).absolute())
        self.assertEqual(len(found), 1)
        self.assertIn("sound: left behind: ", found[0])
        self.assertIn("/ran'", found[0])

    def test_broken(self) -> None:
        """A named drop-in that is missing, doubled, broken or open to others stops the start."""
        first, *others = BROKEN
        self.refused(installed(first), *others)

    def test_neither_opaque_nor_gated(self) -> None:
        """A kind that names a gate is never served as if it had none, by any role that carries."""
        absent, no_edits = sided(gate=":GATE"), sided(gate=":SERVE")
        serve = "async def SERVE(session): pass\n"
        self.refused(
            ungated("proxy", "':GATE': there is no GATE in", absent),
            ungated("proxy", "gate: must be an async function", "SERVE = print\n" + no_edits),
            ungated("connector", "dialer: its kind has a gate, so it must say", serve + no_edits),
            ungated("up", "local: its kind has a gate, so it must say", serve + no_edits),
        )

    def test_broken_sides(self) -> None:
        """A side that is missing, of another sort, or elsewhere and not installed is refused."""
        first, *others = (
            start(label, says, put(text))
            for label, says, text in (
                ("no such name", "there is no NONE in svc.plugins.kind_", sided(terms=":NONE")),
                ("no reference", "must be written as module:NAME", sided(terms="TERMS")),
                ("another's", "must not be in svc.plugins", sided(dialer="svc.plugins.kind_tcp:D")),
                ("no terms", "is no KindTerms", sided(terms=":LOCAL")),
                ("no dialer", "dialer: The object", sided(dialer=":LOCAL")),
                ("not installed", "no such module is installed", sided(dialer="absent.x:D")),
                (
                    "another request",
                    "action more counts as 'query', which is none of connect, db_connect",
                    SOUND + "TERMS.actions['more'] = 'query'\n",
                ),
                (
                    "opened by a statement",
                    "open_action counts as none of connect, db_connect, kube, web",
                    SOUND + "TERMS.actions['tcpConnect'] = 'db_query'\n",
                ),
                (
                    "an event that is not its own",
                    "terms: event session.odd: does not begin with ",
                    f"{SOUND}TERMS.events['session.odd'] = {ODD_EVENT}\n",
                ),
                (
                    "a dialer without a ceiling",
                    "endpoint(reactor, target, ceiling) is violated",
                    SOUND.replace("AddressDialer(", OLD_DIALER),
                ),
                ("no form", "its form is no regular expression", taking("form='('")),
                (
                    "a default of another form",
                    "its default does not have the form a",
                    taking("form='a', default='b'"),
                ),
                ("another fact", "neither public nor personal", taking("fact='secret'")),
                ("no name", "parameter 'D B': no name of a parameter", taking("", "D B")),
                (
                    "not enforced",
                    "dialer: its `enforces` does not name db",
                    taking("enforced=True, default='x'"),
                ),
            )
        )
        self.refused(installed(first), *others)

    def test_not_run(self) -> None:
        """What the configuration does not name is never run, wherever it lies."""
        self.refused(*NOT_RUN)
