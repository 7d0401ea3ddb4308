"""``gemhooks interactions``: look at one, or watch it happen."""

import sys
from contextlib import closing
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gemhooks import jsontext, logs
from gemhooks.cli.tables import PLAIN, Format, FormatOption
from gemhooks.settings import Settings

app = typer.Typer(help="Look at an interaction, or watch it happen.", no_args_is_help=True)

InteractionId = Annotated[str, typer.Argument(help="v1_...", metavar="ID")]


@app.callback()
def options() -> None:
    """Look at an interaction, or watch it happen."""


@app.command("watch")
def watch(
    interaction_id: InteractionId,
    after: Annotated[str, typer.Option(help="begin behind this event_id")] = "",
    form: FormatOption = Format.TABLE,
) -> None:
    """Show an interaction live: its text as it comes, its steps, and the usage at the end.

    The text goes to stdout, all else to stderr; JSON is one event a line. Ends when it ends.
    """
    from gemhooks import interactions  # noqa: PLC0415 - pydantic models and urllib3, only here

    logs.configure(Settings.from_env().log_format, "warning")  # stdout is the model's alone
    shown = Screen(interactions.Assembly())
    for event in interactions.follow(interaction_id, last_event_id=after):
        if form is Format.JSON:
            typer.echo(jsontext.dumps(event.to_json()).decode())
        else:
            shown.show(event)
    if form is Format.TABLE:
        raise typer.Exit(shown.end())


class As(StrEnum):
    INTERACTION = "interaction"
    MESSAGES = "messages"


@app.command("show")
def show_one(
    interaction_id: InteractionId,
    kind: Annotated[
        As, typer.Option("--as", help="what it was and cost, or what was said")
    ] = As.INTERACTION,
    form: FormatOption = Format.TABLE,
) -> None:
    """Show what an interaction was and cost; JSON is the whole of it, as Gemini sends it.

    With --as messages: what was said, in the conversation format of CX Agent Studio.
    """
    from gemhooks.gemini import Gemini  # noqa: PLC0415 - only where Gemini is asked
    from gemhooks.interactions import summarise  # noqa: PLC0415

    with closing(Gemini.from_settings(Settings.from_env())) as gemini:
        fetched = gemini.interactions.get(interaction_id)
    if kind is As.MESSAGES:
        from gemhooks.cli.conversations import show_messages  # noqa: PLC0415 - only here
        from gemhooks.conversations import to_messages  # noqa: PLC0415

        show_messages(to_messages(fetched.parsed), form)
        return
    if form is Format.JSON:
        typer.echo(fetched.raw.decode("utf-8", "replace"))
        return
    summary = summarise(fetched.parsed)
    Console(highlight=False).print(table_of(summary))
    typer.echo(summary.text.translate(PLAIN))


def table_of(summary: Any) -> Table:
    """A row for each fact; those that there are."""
    facts = summary.model_dump(exclude={"text", "tokens"}, exclude_defaults=True)
    table = Table(show_header=False)
    for name, value in facts.items():
        shown = (
            ", ".join(f"{key} {n}" for key, n in value.items())
            if isinstance(value, dict)
            else value
        )
        table.add_row(name, Text(str(shown).translate(PLAIN)))
    for each in summary.tokens:
        table.add_row(f"{each.kind} tokens, {each.modality}", str(each.tokens))
    return table


class Screen:
    """Shows events to a person."""

    def __init__(self, assembly: Any) -> None:
        self._assembly = assembly
        self._notes = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
        self._in_text = False

    def show(self, event: Any) -> None:
        self._assembly.add(event)
        match event.event_type:
            case "step.start":
                self._note(f"> {event.step.get('type')} {event.step.get('name', '')}".rstrip())
            case "step.delta":
                self._delta(event.delta)
            case "step.stop":
                self._break()
            case "error":
                self._note(f"! {event.error.get('code', '')}: {event.error.get('message', '')}")
            case "interaction.status_update":
                self._note(f"= {event.status}")

    def end(self) -> int:
        """Say how it ended and what it took; the exit code is 0 for a completed one."""
        whole = self._assembly.interaction
        self._note(f"= {whole.get('status', 'unknown')}")
        usage = whole.get("usage") or {}
        counts = {name: value for name, value in usage.items() if isinstance(value, int) and value}
        if counts:
            told = ", ".join(f"{name.removeprefix('total_')} {n}" for name, n in counts.items())
            self._note(f"= {told}")
        return 0 if whole.get("status") == "completed" else 1

    def _delta(self, delta: dict[str, Any]) -> None:
        if delta.get("type") == "text" and isinstance(delta.get("text"), str):
            self._in_text = True
            sys.stdout.write(delta["text"].translate(PLAIN))
            sys.stdout.flush()
        elif delta.get("type") == "arguments_delta":
            pieces = str(delta.get("arguments") or "")
            self._notes.print(pieces.translate(PLAIN), end="", style="dim")

    def _note(self, text: str) -> None:
        self._break()
        self._notes.print(text.translate(PLAIN), style="dim")

    def _break(self) -> None:
        if self._in_text:
            sys.stdout.write("\n")
            sys.stdout.flush()
            self._in_text = False
