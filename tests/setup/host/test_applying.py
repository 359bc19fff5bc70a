"""A setup plan: its digest, who may carry it out, and what is left when it is refused."""

from __future__ import annotations

import fcntl
import json
import os
import pwd
from pathlib import Path
from typing import Any
from unittest import SkipTest

from attrs import evolve

from contrib.reference.json_names import unknown
from svc.cli.setup_plan import plan_result
from svc.errors import ConfigError, SvcError, UsageError
from svc.setup.host.applying import LOCK, AppliedSetup, apply
from svc.setup.host.planning import SetupInputs, prepared
from svc.setup.host.steps import SetupPlan
from svc.setup.units.machine import acting_as
from tests.cli.terminal import terminal
from tests.setup.units.pieces import (
    ACCOUNT,
    CONFIGURATIONS,
    PLACES,
    PROGRAM,
    SERVERS,
    UnitCase,
    text_for,
)
from tests.support.proof import proves

STATE = "var/lib/svc/proxy"
UNIT = "etc/systemd/system/svc-proxy.service"


class SetupCase(UnitCase):
    """Root of a machine of its own, with a systemctl that is recorded."""

    def setUp(self) -> None:
        super().setUp()
        if os.geteuid() != 0:
            raise SkipTest("only root can give files to an account")
        (self.root / "var/lib").mkdir(parents=True)

    def inputs(self, role: str = "proxy", text: str | None = None, **more: Any) -> SetupInputs:
        """What the command would give."""
        made = SetupInputs(
            machine=self.machine,
            wanted=self.wanted(role, text),
            program=PROGRAM,
            found=PLACES,
            has_unit=True,
        )
        return evolve(made, **more)

    def plan(self, inputs: SetupInputs) -> SetupPlan:
        """What a dry run shows."""
        return prepared(inputs).plan

    def approved(self, inputs: SetupInputs) -> AppliedSetup:
        """Carry out what a dry run has shown."""
        return apply(inputs, self.plan(inputs).digest)

    def everything(self) -> dict[str, tuple[int, int, int]]:
        """Owner, group and mode of each file and directory."""
        return {
            str(path.relative_to(self.root)): (found.st_uid, found.st_gid, found.st_mode)
            for path in sorted(self.root.rglob("*"))
            for found in [path.lstat()]
            if str(path.relative_to(self.root)) != LOCK
        }

    def refused(self, inputs: SetupInputs, approved: str) -> str:
        """The reason; and that nothing was changed."""
        before = self.everything(), self.tree(), list(self.systemctl.calls)
        with self.assertRaises(SvcError) as caught:
            apply(inputs, approved)
        after = self.tree()
        after.pop(LOCK, None)
        before[1].pop(LOCK, None)
        self.assertEqual((self.everything(), after, self.systemctl.calls), before)
        return str(caught.exception.reason)


class ApplyTests(SetupCase):
    """As root."""

    @proves("G-CLI-19", "G-OPEN-71")
    def test_dry_run(self) -> None:
        """A plan changes nothing; made twice it has one digest, over its canonical JSON."""
        for role in SERVERS:
            inputs = self.inputs(role)
            before = self.everything(), self.tree()
            first, second = self.plan(inputs), self.plan(inputs)
            self.assertEqual((self.everything(), self.tree()), before)
            self.assertEqual(first.digest, second.digest)
            self.assertRegex(first.digest, r"\Asha256:[0-9a-f]{64}\Z")
            kinds = [step.form()["step"] for step in first.steps]
            self.assertEqual(kinds, ["directory", "directory", "file", "unit"])
            self.assertEqual(list(unknown(plan_result(first, ()))), [])

    @proves("G-CLI-19", "G-CLI-20", "U-NOTE-29")
    def test_approved(self) -> None:
        """With the right digest all of it is done; a second time nothing is changed."""
        for role in SERVERS:
            inputs = self.inputs(role)
            self.systemctl.calls.clear()
            done = self.approved(inputs)
            self.assertTrue(done.changed[-1])
            name = f"svc-{role}.service"
            self.assertEqual(self.systemctl.calls, [["daemon-reload"], ["enable", name]])
            account = pwd.getpwnam(ACCOUNT)
            found = self.everything()
            self.assertEqual(
                found[f"var/lib/svc/{role}"], (account.pw_uid, account.pw_gid, 0o40700)
            )
            self.assertEqual(found[f"etc/svc/{role}.toml"], (0, account.pw_gid, 0o100640))
            again = self.approved(inputs)
            self.assertEqual(again.plan.digest, done.plan.digest)
            self.assertEqual(set(again.changed), {False})
            self.assertEqual(self.everything(), found)
            self.assertEqual(list(unknown(plan_result(done.plan, done.changed))), [])

    def test_the_unit_is_refused(self) -> None:
        """Where the unit is refused, what was done before it is not denied."""
        inputs = self.inputs()
        self.systemctl.fails = "enable"
        with self.assertRaises(SvcError) as caught:
            self.approved(inputs)
        text = caught.exception.text
        self.assertIn("failed; the steps before it are done, and may be repeated", text)
        self.assertNotIn("nothing was changed", text)
        self.assertTrue((self.root / STATE).is_dir())
        self.systemctl.fails = ""
        self.assertEqual(self.approved(inputs).changed[-1], True)

    @proves("G-CLI-20", "U-NOTE-29", "G-OPEN-71")
    def test_not_approved(self) -> None:
        """Without a digest, or with that of another input, root changes nothing."""
        inputs = self.inputs()
        digest = self.plan(inputs).digest
        self.assertEqual(self.refused(inputs, ""), "plan_not_approved")
        self.assertEqual(self.refused(inputs, f"sha256:{'0' * 64}"), "plan_differs")
        changed = evolve(inputs, program=evolve(PROGRAM, words=("/opt/svc2/bin/svc",)))
        self.assertEqual(self.refused(changed, digest), "plan_differs")
        self.assertEqual(self.refused(evolve(inputs, has_unit=False), digest), "plan_differs")
        other = self.inputs(text=text_for("proxy") + "# a comment\n")
        self.assertEqual(self.refused(other, digest), "plan_differs")

    def test_cannot_run(self) -> None:
        """What could not run afterwards is refused before anything is done."""
        elsewhere = self.inputs(text=text_for("proxy").replace("/svc/proxy", "/svc/authority"))
        with self.assertRaises(ConfigError):
            self.plan(elsewhere)
        inputs = self.inputs()
        state = self.root / STATE
        state.mkdir(parents=True)
        digest = self.plan(inputs).digest
        self.assertEqual(self.refused(inputs, digest), "setup_owner")
        state.rmdir()
        state.symlink_to(self.root / "etc")
        self.assertEqual(self.refused(inputs, digest), "setup_path")

    def test_no_link_is_followed(self) -> None:
        """A directory that the account replaced by a link leads nowhere else."""
        text = text_for("proxy").replace("/svc/proxy", "/svc/proxy/a/b")
        inputs = self.inputs(text=text)
        account = pwd.getpwnam(ACCOUNT)
        (self.root / "var/lib/svc").mkdir()
        own = self.root / STATE
        own.mkdir()
        os.chown(own, account.pw_uid, account.pw_gid)
        target = self.root / "secrets"
        target.mkdir()
        os.chown(target, account.pw_uid, account.pw_gid)
        digest = self.plan(inputs).digest
        (own / "a").symlink_to(target)
        self.assertEqual(self.refused(inputs, digest), "setup_path")
        self.assertEqual(list(target.iterdir()), [])

    @proves("G-OPEN-71")
    def test_person(self) -> None:
        """Somebody who is not root needs no approval for their own files; a given one must fit."""
        state = self.root / "home/state"
        state.parent.mkdir()
        text = text_for("proxy").replace("/var/lib/svc/proxy", str(state))
        account = pwd.getpwnam(ACCOUNT)
        self.machine = evolve(self.machine, uid=account.pw_uid)
        inputs = self.inputs(text=text, has_unit=False)
        config = Path(inputs.wanted.config)
        for path in (config, state.parent):
            os.chown(path, account.pw_uid, account.pw_gid)
        with acting_as(account):
            self.assertEqual(self.refused(inputs, f"sha256:{'0' * 64}"), "plan_differs")
            self.assertEqual(apply(inputs, "").changed, (True, True))
            self.assertEqual(apply(inputs, "").changed, (False, False))
        for path, mode in ((state, 0o40700), (config, 0o100600)):
            found = path.stat()
            self.assertEqual((found.st_uid, found.st_mode), (account.pw_uid, mode), path)
        self.assertFalse((self.root / LOCK).exists())

    def test_locked(self) -> None:
        """While another setup is under way none begins."""
        inputs = self.inputs()
        with (self.root / LOCK).open("w") as other:
            fcntl.flock(other, fcntl.LOCK_EX)
            self.assertEqual(self.refused(inputs, self.plan(inputs).digest), "setup_locked")
        self.assertTrue(all(self.approved(inputs).changed))

    def test_without_a_service(self) -> None:
        """Without a unit the rest is done all the same; of a client nothing would be left."""
        done = self.approved(self.inputs(has_unit=False))
        self.assertEqual(done.changed, (True, True, True))
        self.assertFalse((self.root / UNIT).exists())
        self.assertEqual(self.systemctl.calls, [])
        client = self.inputs("client", has_unit=False)
        with self.assertRaises(UsageError):
            self.plan(client)

    def test_changed_meanwhile(self) -> None:
        """A file that is changed after the plan was made under the lock is not handed over."""
        inputs = self.inputs(has_unit=False)
        digest = self.plan(inputs).digest
        config = Path(inputs.wanted.config)
        config.write_text(CONFIGURATIONS["proxy"].replace("{role}", "proxy") + "# later\n")
        self.assertEqual(self.refused(inputs, digest), "plan_differs")


class CommandTests(SetupCase):
    """The command itself."""

    def test_usage(self) -> None:
        """What is missing or does not go together is a usage error."""
        config = self.config("proxy")
        digest = f"sha256:{'0' * 64}"
        for words, said in (
            (("setup", "apply"), "needs a configuration"),
            (("--config", config, "setup", "apply", "--approve-plan", "0" * 64), "must be sha256:"),
            (
                ("--config", config, "setup", "apply", "--dry-run", "--approve-plan", digest),
                "give only one",
            ),
        ):
            outcome = terminal(*words)
            self.assertEqual((outcome.status, outcome.stdout), (64, ""), words)
            self.assertIn(said, outcome.stderr)

    @proves("G-CLI-19", "G-CLI-20", "U-NOTE-29")
    def test_as_root(self) -> None:
        """A dry run prints the digest last; without one, and with a wrong one, the status is 1."""
        config = self.config("proxy")
        command = ("--config", config, "setup", "apply", "--account", ACCOUNT, "--no-service")
        shown = terminal(*command, "--dry-run")
        self.assertEqual((shown.status, shown.stderr), (0, ""))
        *steps, digest = shown.stdout.splitlines()
        self.assertEqual(len(steps), 3)
        self.assertEqual(steps[1], f"directory  /{STATE}  {ACCOUNT}:{ACCOUNT}  0700")
        document = json.loads(terminal(*command, "--dry-run", "--json").stdout)
        self.assertEqual(document["plan_digest"], digest)
        before = self.everything()
        for wrong in ((), ("--approve-plan", f"sha256:{'0' * 64}")):
            refused = terminal(*command, *wrong)
            self.assertEqual((refused.status, refused.stdout), (1, ""))
            self.assertIn("--dry-run", refused.stderr)
        self.assertEqual(self.everything(), before)
