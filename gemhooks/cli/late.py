"""Commands that are imported when they are asked for: one need not wait for all the others."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup


class LateCommands(Mapping[str, Any]):
    """Commands by name; *places* says where each is, as ``module:function`` or ``module:app``."""

    def __init__(self, places: Mapping[str, str]) -> None:
        self._places = places

    def __getitem__(self, name: str) -> Any:
        return _command(name, self._places[name])

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def late_group(places: Mapping[str, str]) -> type[TyperGroup]:
    """The class of a group whose commands lie at *places*."""

    class LateGroup(TyperGroup):
        def __init__(self, **given: Any) -> None:
            super().__init__(**{**given, "commands": LateCommands(places)})

    return LateGroup


def _command(name: str, place: str) -> Any:
    module, _, attribute = place.partition(":")
    found = getattr(import_module(module), attribute)
    one = typer.Typer()
    if isinstance(found, typer.Typer):
        one.add_typer(found, name=name)
    else:
        one.command(name)(found)
    one.callback()(_nothing)
    group: Any = typer.main.get_group(one)
    return group.commands[name]


def _nothing() -> None:
    """What a group does by itself; without one, a single command would be no group."""
