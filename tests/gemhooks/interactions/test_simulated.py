"""The stream and its fold, over HTTP, on whatever interaction the simulator can make."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from typer.testing import CliRunner

from gemhooks.cli import app
from gemhooks.gemini import Gemini
from gemhooks.interactions import Failure, Unknown, assemble, follow
from gemhooks.simulator import Call, CallFunctions, Fail, Faults, Say, Script, Simulator, Variants
from gemhooks.simulator.scripts import Show
from tests.services.waiting import wait_until

Json = dict[str, Any]
ODD = ({"event_type": "brand.new", "x": 1}, {"event_type": "step.start", "index": 0})
SCRIPTS = (
    Script(when="say", turns=(Say(text="Twelve words are enough to be cut in many places."),)),
    Script(when="samples", turns=(Show(samples=True),)),
    Script(when="call", turns=(CallFunctions(calls=(Call(name="f", arguments={"n": [1, "ü"]}),)),)),
    Script(when="fail", turns=(Fail(code=13, message="no"),)),
    Script(when="unheard", turns=(Show(status="budget_exceeded", samples=True),)),
    Script(when="odd", turns=(Show(samples=True, events=ODD),)),
)
INPUTS = [script.when for script in SCRIPTS]
SAME = ("id", "status", "model", "usage")


@pytest.fixture(scope="module")
def simulator() -> Iterator[Simulator]:
    with Simulator(delay=0.0, scripts=SCRIPTS) as simulator:
        yield simulator


@pytest.fixture
def gemini(simulator: Simulator) -> Iterator[Gemini]:
    simulator.faults, simulator.variants = Faults(), Variants()
    with closing(Gemini("any", base_url=simulator.url, timeout=60.0)) as gemini:
        yield gemini


def ended(gemini: Gemini, text: str) -> Json:
    """An interaction that has ended, as GET returns it."""
    created = gemini.interactions.create(model="m", input=text, background=True)

    def over() -> bool:
        return bool(gemini.interactions.get(created.id).parsed["status"] != "in_progress")

    wait_until(over, f"the interaction {text}")
    return gemini.interactions.get(created.id).parsed


def model_steps(interaction: Json) -> list[Json]:
    inputs = ("user_input", "function_result")
    return [step for step in interaction["steps"] if step.get("type") not in inputs]


def streamed(gemini: Gemini, interaction_id: str) -> list[Any]:
    return list(follow(interaction_id, gemini=gemini, pause=lambda _: None))


# Four events a connection, or more: a stream cannot be resumed behind those without an id.
@pytest.mark.parametrize("cut_after", [0, 4, 5, 7, 13])
@pytest.mark.parametrize("text", INPUTS)
def test_cut_anywhere_and_resumed_it_folds_to_what_a_get_returns(
    simulator: Simulator, gemini: Gemini, text: str, cut_after: int
) -> None:
    whole = ended(gemini, text)
    uncut = streamed(gemini, whole["id"])
    simulator.faults = Faults(stream_cut_after=cut_after)

    events = streamed(gemini, whole["id"])

    assert events == uncut
    folded = assemble(events)
    assert {name: folded.get(name) for name in SAME} == {name: whole.get(name) for name in SAME}
    assert folded["steps"] == model_steps(whole)


@pytest.mark.parametrize(
    "variants", [Variants(stream_lifecycle="named"), Variants(stream_key="type")]
)
@pytest.mark.parametrize("text", INPUTS)
def test_every_variant_of_the_documents_is_understood(
    simulator: Simulator, gemini: Gemini, text: str, variants: Variants
) -> None:
    simulator.variants = variants
    whole = ended(gemini, text)

    folded = assemble(streamed(gemini, whole["id"]))

    assert folded["status"] == whole["status"]
    assert folded["steps"] == model_steps(whole)


def test_what_is_no_event_is_unknown_and_no_error(gemini: Gemini) -> None:
    whole = ended(gemini, "odd")

    events = streamed(gemini, whole["id"])

    assert sum(type(event) is Unknown for event in events) == len(ODD)
    assert not any(isinstance(event, Failure) for event in events)


def test_garbage_between_the_events_changes_nothing(simulator: Simulator, gemini: Gemini) -> None:
    whole = ended(gemini, "samples")
    simulator.faults = Faults(stream_garbage_every=3)

    assert assemble(streamed(gemini, whole["id"]))["steps"] == model_steps(whole)


def test_an_interaction_is_followed_while_it_happens(simulator: Simulator) -> None:
    with (
        Simulator(delay=0.3, scripts=SCRIPTS) as slow,
        closing(Gemini("any", base_url=slow.url, timeout=60.0)) as gemini,
    ):
        created = gemini.interactions.create(model="m", input="say", background=True)

        folded = assemble(follow(created.id, gemini=gemini))

        assert folded["status"] == "completed"
        assert folded["steps"] == model_steps(gemini.interactions.get(created.id).parsed)


@pytest.fixture
def environment(simulator: Simulator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", "any")
    monkeypatch.setenv("GEMHOOKS_GEMINI_BASE_URL", simulator.url)


@pytest.mark.usefixtures("environment")
def test_watching_shows_the_text_as_it_comes_and_how_it_ended(gemini: Gemini) -> None:
    whole = ended(gemini, "say")

    shown = CliRunner().invoke(app, ["interactions", "watch", whole["id"]])

    assert shown.exit_code == 0
    assert "Twelve words are enough to be cut in many places.\n" in shown.output
    assert "completed" in shown.output
    assert "tokens" in shown.output


@pytest.mark.usefixtures("environment")
def test_a_cut_does_not_show_in_what_the_model_says(simulator: Simulator, gemini: Gemini) -> None:
    whole = ended(gemini, "say")
    simulator.faults = Faults(stream_cut_after=4)

    shown = CliRunner().invoke(app, ["interactions", "watch", whole["id"]])

    assert shown.stdout == "Twelve words are enough to be cut in many places.\n"


@pytest.mark.usefixtures("environment")
def test_watching_one_that_fails_ends_with_a_code(gemini: Gemini) -> None:
    assert CliRunner().invoke(app, ["interactions", "watch", ended(gemini, "fail")["id"]]).exit_code


@pytest.mark.usefixtures("environment")
def test_what_an_interaction_was_and_cost_is_shown(gemini: Gemini) -> None:
    whole = ended(gemini, "say")

    shown = CliRunner().invoke(app, ["interactions", "show", whole["id"]]).output

    assert "completed" in shown
    assert "Twelve words" in shown
    assert "output tokens" in shown
