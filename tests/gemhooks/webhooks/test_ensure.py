"""``gemhooks webhook ensure`` makes webhooks as declared, and keeps them so."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import Any
from uuid import uuid4

import pytest
import urllib3
from prometheus_client import CollectorRegistry

from gemhooks.admin import AdminServer
from gemhooks.errors import Misconfigured
from gemhooks.gemini import Gemini
from gemhooks.gemini.webhooks import FAILED, Webhooks
from gemhooks.keys import SigningSecrets
from gemhooks.simulator import Simulator
from gemhooks.webhooks import desired
from gemhooks.webhooks.places import SecretPlace
from gemhooks.webhooks.reviving import MOST, STABLE, Revivals
from gemhooks.webhooks.wishes import SUBSCRIBABLE
from tests.gemhooks.webhooks.conftest import Run
from tests.gemhooks.webhooks.helpers import receiver
from tests.integration.processes import process
from tests.services.ports import free_port
from tests.services.waiting import eventually

URI = "https://example.com/webhooks/gemini"


@dataclass
class Admin:
    """A receiver's admin port, ready or not as the test says."""

    url: str = ""
    is_ready: bool = True


@pytest.fixture
def admin() -> Iterator[Admin]:
    admin = Admin()
    server = AdminServer("127.0.0.1", 0, CollectorRegistry(), lambda: True, lambda: admin.is_ready)
    server.start()
    admin.url = f"http://127.0.0.1:{server.port}"
    yield admin
    server.stop()


@pytest.fixture
def ensure(run: Run, admin: Admin, tmp_path: Path) -> Callable[..., tuple[int, Any]]:
    """The exit code, and what is said of the one webhook."""

    def ensure(*arguments: str) -> tuple[int, Any]:
        memory = ("--memory", str(tmp_path / "memory.json"), "--receiver", admin.url)
        place = ("--save-to", f"{tmp_path}/secrets/")
        result = run("ensure", *arguments, *place, *memory, "--format", "json")
        assert not isinstance(result.exception, Exception), result.exception
        (said,) = json.loads(result.stdout)
        return result.exit_code, said

    return ensure


def test_what_is_missing_is_created_once_and_its_secret_saved(
    ensure: Callable[..., tuple[int, Any]], api: Webhooks, tmp_path: Path
) -> None:
    first, second = ensure("--uri", URI), ensure("--uri", URI)

    assert (first[0], second[0]) == (0, 0)
    assert first[1]["done"].startswith("created")
    assert second[1]["done"] == second[1]["left"] == ""
    (hook,) = api.list()
    assert len(SigningSecrets(path=tmp_path / "secrets").secrets) == 1
    assert hook.uri == URI


def test_what_differs_is_mended_in_one_update(
    ensure: Callable[..., tuple[int, Any]], api: Webhooks
) -> None:
    ensure("--uri", URI, "--name", "mine")
    (hook,) = api.list()
    api.update(hook.id, uri=f"{URI}/old", subscribed_events=["batch.failed"], state="disabled")

    code, said = ensure("--uri", URI, "--name", "mine")

    assert code == 0
    assert {each["kind"] for each in said["drift"]} == {"uri", "events", "disabled"}
    mended = api.get(hook.id)
    assert (mended.uri, len(mended.subscribed_events), mended.state) == (URI, 7, "enabled")


def test_a_check_changes_nothing_and_exits_with_1(
    ensure: Callable[..., tuple[int, Any]], api: Webhooks
) -> None:
    assert ensure("--uri", URI, "--check")[0] == 1
    assert api.list() == ()
    ensure("--uri", URI)
    (hook,) = api.list()
    assert ensure("--uri", URI, "--check")[0] == 0
    api.update(hook.id, state="disabled")

    code, said = ensure("--uri", URI, "--check")

    assert (code, api.get(hook.id).state) == (1, "disabled")
    assert "it is disabled" in said["left"]


def test_a_webhook_that_should_be_disabled_is(
    ensure: Callable[..., tuple[int, Any]], api: Webhooks
) -> None:
    ensure("--uri", URI)

    ensure("--uri", URI, "--disabled")

    assert api.list()[0].state == "disabled"


def test_what_gemini_gave_up_on_is_enabled_only_while_the_receiver_is_ready(
    ensure: Callable[..., tuple[int, Any]], api: Webhooks, admin: Admin
) -> None:
    ensure("--uri", URI)
    (hook,) = api.list()
    api.update(hook.id, state=FAILED)
    admin.is_ready = False

    code, said = ensure("--uri", URI)

    assert (code, api.get(hook.id).state) == (1, FAILED)
    assert "not ready" in said["left"]
    admin.is_ready = True
    assert ensure("--uri", URI)[0] == 0
    assert api.get(hook.id).state == "enabled"


def test_a_second_revival_waits_also_across_runs(
    ensure: Callable[..., tuple[int, Any]], api: Webhooks
) -> None:
    ensure("--uri", URI)
    (hook,) = api.list()
    api.update(hook.id, state=FAILED)
    ensure("--uri", URI)
    api.update(hook.id, state=FAILED)

    code, said = ensure("--uri", URI)

    assert (code, api.get(hook.id).state) == (1, FAILED)
    assert "due in" in said["left"]


def test_a_secret_that_gemini_has_and_we_have_not_is_drift(
    ensure: Callable[..., tuple[int, Any]], api: Webhooks
) -> None:
    ensure("--uri", URI)
    (hook,) = api.list()
    api.rotate(hook.id)  # by somebody else

    code, said = ensure("--uri", URI, "--check")

    assert code == 1
    assert f"webhook rotate {hook.id}" in said["left"]


def test_every_so_many_seconds_it_looks_again(
    api: Webhooks, admin: Admin, tmp_path: Path, gemini: Simulator
) -> None:
    env = {
        "GEMINI_API_KEY": "k",
        "GEMHOOKS_GEMINI_BASE_URL": gemini.url,
        "GEMHOOKS_RECEIVERS": admin.url,
    }
    arguments = ("--uri", URI, "--save-to", f"{tmp_path}/secrets/", "--every", "1")
    memory = ("--memory", str(tmp_path / "memory.json"))
    with process(
        "gemhooks", "webhook", "ensure", *arguments, *memory, log=tmp_path / "log", env=env
    ) as running:
        eventually(lambda: len(api.list()) == 1, why="it is created")
        (hook,) = api.list()
        api.update(hook.id, state="disabled")
        eventually(lambda: api.get(hook.id).state == "enabled", why="it is enabled again")
        running.terminate()
        assert running.wait(60) == 0
    log = (tmp_path / "log").read_text()
    assert "webhook_ensured" in log
    assert "whsec_" not in log.replace("whsec_...", "")


def test_after_an_outage_of_ours_the_traffic_flows_again(tmp_path: Path) -> None:
    """Gemini gives up while we are away, and is not asked again before we are back."""
    ports = free_port(), free_port()
    uri, place = f"http://127.0.0.1:{ports[0]}/webhooks/gemini", tmp_path / "secret"
    with Simulator(delay=0.01, retry_base=0.05, disable_after=5) as simulator:
        gemini = Gemini("any", base_url=simulator.url)
        hook = gemini.webhooks.create(uri=uri, events=SUBSCRIBABLE)
        assert hook.new_signing_secret
        SecretPlace(place).save(hook.new_signing_secret.get_secret_value(), hook.id)
        env = {
            "GEMINI_API_KEY": "k",
            "GEMHOOKS_GEMINI_BASE_URL": simulator.url,
            "GEMINI_WEBHOOK_SECRET_FILE": str(place),
            "GEMHOOKS_RECEIVERS": f"http://127.0.0.1:{ports[1]}",
        }
        watch = free_port()
        options = ("--uri", uri, "--every", "1", "--admin-port", str(watch))
        memory = ("--memory", str(tmp_path / "memory.json"))
        log = tmp_path / "ensure.log"
        command = ("gemhooks", "webhook", "ensure", *options, *memory)

        def state() -> str:
            return gemini.webhooks.get(hook.id).state

        with process(*command, log=log, env=env), events_from(simulator) as accepted:
            eventually(lambda: state() == FAILED, why="Gemini gives up")
            told = log.read_text().count("not ready")
            eventually(lambda: log.read_text().count("not ready") > told + 1, why="it waits")
            assert state() == FAILED
            assert 'kind="gave_up",webhook=' in metrics_at(watch)
            with receiver(tmp_path, place, ports=ports):
                eventually(lambda: state() == "enabled", why="it is enabled again")
                before = accepted()
                eventually(lambda: accepted() > before, why="events are accepted")
                eventually(lambda: f'enabled{{webhook="{uri}"}} 1.0' in metrics_at(watch))
        gemini.close()


@contextmanager
def events_from(simulator: Simulator) -> Iterator[Callable[[], int]]:
    """Ten events a second meanwhile; gives how many deliveries were accepted so far."""
    stop = Event()

    def send() -> None:
        with urllib3.PoolManager() as http:
            while not stop.wait(0.1):
                event = {"type": "interaction.completed", "data": {"id": f"v1_{uuid4().hex}"}}
                http.request("POST", f"{simulator.url}/control/events", json=event)

    sender = Thread(target=send)
    sender.start()
    try:
        yield lambda: sum(each.status == 204 for each in simulator.attempts)
    finally:
        stop.set()
        sender.join()


def metrics_at(port: int) -> str:
    with urllib3.PoolManager() as http:
        answer = http.request("GET", f"http://127.0.0.1:{port}/metrics")
        return answer.data.decode()


class Clock:
    now = 1e9

    def __call__(self) -> float:
        return self.now


def test_revivals_come_ever_later_and_end(tmp_path: Path) -> None:
    clock, waits = Clock(), []
    revivals = Revivals(tmp_path / "memory.json", clock)
    for _ in range(MOST):
        began = clock.now
        while revivals.refusal("a"):
            clock.now += 30
        waits.append(clock.now - began)
        revivals.revived("a")
    clock.now += 1e9

    assert waits == sorted(waits)
    assert (waits[0], waits[1], waits[-1]) == (0, 60, 60 * 2**8)
    assert "mend the deliveries" in revivals.refusal("a")
    assert not revivals.refusal("b")


def test_a_revival_that_lasted_is_forgotten(tmp_path: Path) -> None:
    clock = Clock()
    revivals = Revivals(tmp_path / "memory.json", clock)
    revivals.revived("a")
    revivals.seen_enabled("a")
    assert revivals.refusal("a")
    clock.now += STABLE
    revivals.seen_enabled("a")

    revivals.revived("a")
    clock.now += 60

    assert not revivals.refusal("a")


def test_a_damaged_memory_is_begun_anew(tmp_path: Path) -> None:
    (tmp_path / "memory.json").write_text("{")

    assert not Revivals(tmp_path / "memory.json", Clock()).refusal("a")


DECLARED = {
    "webhooks.toml": f'[[webhooks]]\nuri = "{URI}"\nevents = ["batch.failed"]\nenabled = false\n',
    "webhooks.yaml": f"webhooks:\n- uri: {URI}\n  events: batch.failed\n  enabled: false\n",
}


@pytest.mark.parametrize("name", DECLARED)
def test_a_file_declares_them_in_toml_or_yaml(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(DECLARED[name])

    (found,) = desired.read(tmp_path / name)

    assert (found.uri, found.events, found.enabled) == (URI, ("batch.failed",), False)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[webhooks]]\nurl = 'https://x.y'", "webhooks.0.uri: field required"),
        (f"[[webhooks]]\nuri = '{URI}'\nevent = ['all']", "webhooks.0.event: extra inputs"),
        (f"[[webhooks]]\nuri = '{URI}'\nevents = ['batch.faild']", "Did you mean batch.failed"),
        ("[[webhooks]]\nuri = 'http://x.y'", "https only"),
        ("webhooks", "not TOML"),
        ("", "webhooks: field required"),
    ],
)
def test_a_wrong_declaration_is_one_sentence(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "webhooks.toml"
    file.write_text(text)

    with pytest.raises(Misconfigured, match=str(file)) as raised:
        desired.read(file)
    assert said in str(raised.value)


def test_two_webhooks_with_one_uri_need_an_id(
    api: Webhooks, refusal: Callable[..., str], ensure: Callable[..., tuple[int, Any]]
) -> None:
    hooks = [api.create(uri=URI, events=SUBSCRIBABLE) for _ in range(2)]

    assert all(hook.id in refusal("ensure", "--uri", URI) for hook in hooks)
    assert ensure("--uri", URI, "--id", hooks[1].id)[1]["id"] == hooks[1].id
