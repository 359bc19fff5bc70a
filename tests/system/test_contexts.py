"""`svc contexts` at a running gateway: two identities of one person, and commands that follow."""

from __future__ import annotations

import shutil

from twisted.trial.unittest import SynchronousTestCase

from tests.support.proof import proves
from tests.system.common import shared


class ContextsTests(SynchronousTestCase):
    """With real identities."""

    @proves("G-CLI-22", "U-PHA-20")
    def test_two_contexts(self) -> None:
        """Both are listed and one is marked; the commands after an upgrade work with either."""
        person = self.person = shared().add_person("tess", "ops")
        work = person.directory / "work"
        work.mkdir(mode=0o700)
        for name in ("identity", "trust"):
            shutil.copytree(person.directory / name, work / name, symlinks=True)
        text = (person.directory / "client.toml").read_text()
        config = work / "client.toml"
        config.write_text(text.replace(str(person.directory), str(work)))
        config.chmod(0o600)
        resident = person.up("echo")
        self.addCleanup(resident.stop)
        self.assertEqual(self.marked("default"), ["default", "work"])
        self.assertIn("echo", person.svc("resources", "list").checked().stdout)
        explained = person.svc("status", "--refresh", "--explain").checked().stdout
        self.assertIn("tess", explained)
        shown = person.svc("contexts", "show", "--json").checked().json
        self.assertEqual((shown["rule"], shown["person_name"]), ("own", "tess"))
        self.assertEqual(shown["directory"], str(person.directory))
        self.assertEqual(shown["addresses"], [shared().public])
        self.assertGreater(shown["certificate"]["seconds_left"], 0)
        person.svc("contexts", "use", "work").checked()
        self.assertEqual(self.marked("work"), ["default", "work"])
        told = person.svc("contexts", "show").checked().stdout
        self.assertIn("`svc contexts use` selected it", told)
        self.assertIn(str(config), told)
        # The resident of the other directory goes on; of this one none runs.
        self.assertFalse(person.svc("status", "--json").checked().json["running"])
        config.write_text("colour = 3\n")
        broken = person.svc("contexts", "list", "--json").checked().json
        self.assertIn("colour", broken[1]["problem"])
        refused = person.svc("contexts", "use", "work")
        self.assertEqual((refused.status, refused.stdout), (1, ""))
        person.svc("contexts", "use", "default").checked()
        self.marked("default")

    def test_another_identity(self) -> None:
        """What a resident knows is not told as of whoever has joined in its place since."""
        person, other = shared().add_person("una", "ops"), shared().add_person("vic", "ops")
        resident = person.up("echo")
        self.addCleanup(resident.stop)
        self.assertIsNone(person.svc("status", "--json").checked().json["resident"])
        shutil.rmtree(person.directory / "identity")
        shutil.copytree(other.directory / "identity", person.directory / "identity", symlinks=True)
        told = person.svc("status", "--json").checked().json
        mine = other.svc("status", "--json").checked().json
        self.assertEqual((told["person"], told["running"]), (mine["person"], False))
        self.assertEqual((told["resident"]["name"], told.get("endpoints")), ("una", None))
        self.assertIn("still runs as una of ", person.svc("status").checked().stdout)
        listed = person.svc("resources", "list").checked()
        self.assertIn("`svc up` still runs as una of ", listed.stderr)
        self.assertNotIn("127.", listed.stdout)
        resident.stop()
        person.up("echo")
        self.assertTrue(person.svc("status", "--json").checked().json["running"])

    def marked(self, name: str) -> list[str]:
        """The names of all contexts; this one is the one that is marked."""
        rows = self.person.svc("contexts", "list", "--json").checked().json
        self.assertEqual([one["name"] for one in rows if one["selected"]], [name])
        lines = self.person.svc("contexts", "list").checked().stdout.splitlines()
        self.assertEqual([line.split()[1] for line in lines if line.startswith("*")], [name])
        return [one["name"] for one in rows]
