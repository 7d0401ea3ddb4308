"""Our processes, started again whenever they end, as a supervisor does."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from tests.integration.processes import ROOT, answers, clean_env

SKEWS = (0, 0, 0, -240, -120, 120, 240)  # seconds; Gemini's signatures are good for 300
PAUSE = 0.3  # seconds before what died is started again
LOOK_EVERY = 0.5
SHORTEST_WORK = 2.0
LONGEST_RECOVERY = 30.0  # seconds that a fault's successor waits for it to heal


@dataclass(frozen=True)
class Role:
    """What to run, with an admin port of its own."""

    name: str
    module: str
    arguments: tuple[str, ...]
    env: Mapping[str, str]
    admin_port: int


@dataclass
class Member:
    role: Role
    child: subprocess.Popen[bytes]
    told: signal.Signals | None = None  # by which it is to end
    began: float = field(default_factory=time.monotonic)
    ready_at: float | None = None  # first

    @property
    def is_at_work(self) -> bool:
        """It has been ready for as long as it took to become so: a slow machine is hurt less."""
        if self.told is not None or self.ready_at is None:
            return False
        return time.monotonic() - self.ready_at > max(SHORTEST_WORK, self.ready_at - self.began)


class Fleet:
    """Keeps one process of each role running, until it is stopped."""

    def __init__(self, roles: list[Role], folder: Path, chance: random.Random) -> None:
        self._folder = folder
        self._chance = chance
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._members: dict[str, Member] = {}
        self._roles = {role.name: role for role in roles}
        self._threads = [
            threading.Thread(target=self._keep, daemon=True),
            threading.Thread(target=self._watch, daemon=True),
        ]
        self.killed: set[int] = set()  # pids that were given no time
        self.wrongs: Counter[str] = Counter()  # what a process must never do

    def __enter__(self) -> Self:
        for role in self._roles.values():
            self._start(role, 0)
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()
        for member in self._members.values():
            member.child.terminate()
        for member in self._members.values():
            try:
                member.child.wait(30)
            except subprocess.TimeoutExpired:
                self.wrongs[f"{member.role.name} did not end on SIGTERM"] += 1
                member.child.kill()
                member.child.wait()

    def hurt(self, how: signal.Signals, chance: random.Random) -> None:
        """Send a signal to one that works by now; started again, it has time to work, too."""
        with self._lock:
            working = [each for each in self._members.values() if each.is_at_work]
            if not working:
                return
            member = chance.choice(working)
            member.told = how
            if how is signal.SIGKILL:
                self.killed.add(member.child.pid)
            member.child.send_signal(how)

    def is_ready(self) -> bool:
        return all(
            answers(f"http://127.0.0.1:{role.admin_port}/readyz") == 200
            for role in self._roles.values()
        )

    def recover(self) -> None:
        """Wait until all are ready, but not for ever: the next fault may come before that."""
        deadline = time.monotonic() + LONGEST_RECOVERY
        while not self.is_ready() and time.monotonic() < deadline:
            time.sleep(LOOK_EVERY)

    def _start(self, role: Role, skew: float) -> None:
        command = [sys.executable, "-m", "tests.chaos.skewed", str(skew), role.module]
        env = clean_env(**role.env, GEMHOOKS_ADMIN_PORT=str(role.admin_port))
        with (self._folder / f"{role.name}.log").open("ab") as log:
            child = subprocess.Popen(
                [*command, *role.arguments], cwd=ROOT, env=env, stdout=log, stderr=log
            )
        with self._lock:
            self._members[role.name] = Member(role, child)

    def _keep(self) -> None:
        while not self._stopping.wait(PAUSE):
            for member in list(self._members.values()):
                if (code := member.child.poll()) is not None:
                    self._ended(member, code)
                    self._start(member.role, self._chance.choice(SKEWS))

    def _ended(self, member: Member, code: int) -> None:
        """Code 1 is an outage at start: the database was away. All else was asked for."""
        asked = {signal.SIGTERM: 0, signal.SIGKILL: -signal.SIGKILL}
        if code != 1 and (member.told is None or code != asked[member.told]):
            self.wrongs[f"{member.role.name} ended with {code} after {member.told}"] += 1

    def _watch(self) -> None:
        """An outage is no reason to say that one is dead."""
        while not self._stopping.wait(LOOK_EVERY):
            for member in list(self._members.values()):
                url = f"http://127.0.0.1:{member.role.admin_port}/livez"
                status = answers(url)
                if not member.ready_at and answers(url.replace("livez", "readyz")) == 200:
                    member.ready_at = time.monotonic()
                if status not in (0, 200) and member.told is None:
                    self.wrongs[f"{member.role.name} said that it is dead"] += 1


def python_path() -> str:
    return os.pathsep.join((str(ROOT), str(Path(__file__).parent)))
