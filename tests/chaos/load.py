"""Work for the system: interactions on the simulator, which calls back."""

import random
import threading
import time

import urllib3

from gemhooks.simulator import Call, CallFunctions, Fail, Say, Script, Simulator

SCRIPTS = (
    Script(
        when="charge",
        turns=(
            CallFunctions(calls=(Call(name="charge", arguments={"order": "o1"}),)),
            Say(text=""),
        ),
    ),
    Script(when="fail", turns=(Fail(),)),
)
KINDS = ("say", "charge", "fail", "nonsense")
WEIGHTS = (84, 12, 3, 1)
LONGEST_REQUEST = 30.0  # seconds


class Load(threading.Thread):
    """Creates *rate* interactions a second, and now and then an event that nobody can read."""

    def __init__(self, simulator: Simulator, rate: float, chance: random.Random) -> None:
        super().__init__(daemon=True)
        self._simulator, self._rate, self._chance = simulator, rate, chance
        self._over = threading.Event()
        self._http = urllib3.PoolManager(maxsize=2)
        self.nonsense: set[str] = set()  # webhook-ids

    def run(self) -> None:
        due = time.monotonic()  # by its own clock: a slow answer makes it late, not slower
        while not self._over.wait(max(0.0, due - time.monotonic())):
            due += self._chance.expovariate(self._rate)
            (kind,) = self._chance.choices(KINDS, WEIGHTS)
            if kind == "nonsense":
                self._send_nonsense()
            else:
                self._create(kind)

    def stop(self) -> None:
        self._over.set()
        self.join()
        self._http.clear()

    def _create(self, text: str) -> None:
        tools = [{"type": "function", "name": "charge", "parameters": {"type": "object"}}]
        self._post(
            "/v1/interactions",
            {"model": "gemini-3.8-flash", "input": text, "background": True, "tools": tools},
        )

    def _send_nonsense(self) -> None:
        said = self._post("/control/events", {"type": "interaction.completed", "data": {}})
        self.nonsense.update(said["ids"])

    def _post(self, path: str, body: object) -> dict[str, list[str]]:
        answer = self._http.request(
            "POST",
            self._simulator.url + path,
            json=body,
            headers={"x-goog-api-key": "chaos"},
            timeout=LONGEST_REQUEST,
        )
        said: dict[str, list[str]] = answer.json()
        assert answer.status == 200, said
        return said
