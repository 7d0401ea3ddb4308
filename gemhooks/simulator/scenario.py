"""A scenario file: all that a simulator can be told, as YAML."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypedDict

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from gemhooks import signing
from gemhooks.errors import Misconfigured
from gemhooks.simulator.deliveries import Patience
from gemhooks.simulator.faults import Faults
from gemhooks.simulator.plans import BatchPlan, VideoPlan
from gemhooks.simulator.scripts import Script
from gemhooks.simulator.variants import Variants
from gemhooks.simulator.webhooks import SUBSCRIBABLE, Events, WebhookInput

LARGEST_FILE = 1 << 20  # bytes


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


def _decodable(secret: str | None) -> str | None:
    if secret is not None:
        signing.decode_secret(secret)  # Misconfigured, and the secret is not shown
    return secret


class Registered(WebhookInput):
    """A webhook that is there from the start, with a secret that the receiver knows already."""

    subscribed_events: Events = SUBSCRIBABLE
    secret: Annotated[str | None, AfterValidator(_decodable)] = Field(default=None, repr=False)


class Change(_Part):
    """From so many seconds after the start on, these faults instead of the ones before."""

    after: float = Field(ge=0)
    faults: Faults


class Parts(TypedDict, total=False):
    """The fields of a Scenario by name, for `Simulator(...)`; a test keeps the two alike."""

    delay: float
    retry_base: float
    max_attempts: int
    timeout: float
    disable_after: int
    webhooks: Sequence[Registered]
    scripts: Sequence[Script]
    batches: Sequence[BatchPlan]
    videos: Sequence[VideoPlan]
    variants: Variants
    faults: Faults
    changes: Sequence[Change]


class Scenario(_Part):
    """Every part may be left out."""

    delay: float = Field(default=0.05, ge=0)  # seconds that anything takes
    retry_base: float = Field(default=0.5, gt=0)  # seconds before the first retry; then doubling
    max_attempts: int = Field(default=10, ge=1)
    timeout: float = Field(default=5.0, gt=0)  # seconds that a receiver may take
    disable_after: int = Field(default=0, ge=0)  # failures in a row; 0: one delivery's last one
    webhooks: tuple[Registered, ...] = ()
    scripts: tuple[Script, ...] = ()
    batches: tuple[BatchPlan, ...] = ()
    videos: tuple[VideoPlan, ...] = ()
    variants: Variants = Variants()
    faults: Faults = Faults()
    changes: tuple[Change, ...] = ()

    @property
    def patience(self) -> Patience:
        return Patience(self.retry_base, self.max_attempts, self.timeout, self.disable_after)

    def changed(self, parts: Parts) -> "Scenario":
        """The same, with *parts* replaced; raises Misconfigured if one is wrong."""
        if not parts:
            return self
        kept = {name: getattr(self, name) for name in self.model_fields_set}
        return parse({**kept, **parts}, "the simulator")

    def with_seed(self, seed: int) -> "Scenario":
        """The same, with other dice."""

        def seeded(faults: Faults) -> Faults:
            return faults.model_copy(update={"seed": seed})

        changes = tuple(
            change.model_copy(update={"faults": seeded(change.faults)}) for change in self.changes
        )
        return self.model_copy(update={"faults": seeded(self.faults), "changes": changes})


def read(path: Path) -> Scenario:
    """Read a file; raises Misconfigured, which says where it is wrong."""
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise Misconfigured(f"{path} is larger than a scenario may be ({LARGEST_FILE} bytes).")
        given = yaml.safe_load(path.read_text())
    except OSError as error:
        raise Misconfigured(f"{path} cannot be read: {error.strerror}.") from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise Misconfigured(f"{path} is no YAML: {_where(error)}.") from None
    return parse(given if given is not None else {}, str(path))


def parse(given: Any, source: str) -> Scenario:
    """Check what was read; raises Misconfigured with the first thing that is wrong."""
    if not isinstance(given, Mapping):
        raise Misconfigured(f"{source} is no scenario: it must hold names with values.")
    try:
        scenario = Scenario.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise Misconfigured(f"{source}: {place}: {first['msg']}.") from None
    return scenario


def _where(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    return f"line {mark.line + 1}" if mark is not None else type(error).__name__
