"""A local Gemini: the API, signed deliveries, and misbehaviour on request."""

from gemhooks.simulator.faults import Faults, Rule
from gemhooks.simulator.plans import BatchPlan, VideoPlan
from gemhooks.simulator.scenario import Scenario, read
from gemhooks.simulator.scripts import Call, CallFunctions, Fail, Say, Script, Show
from gemhooks.simulator.server import Simulator, serve
from gemhooks.simulator.variants import Variants

__all__ = [
    "BatchPlan",
    "Call",
    "CallFunctions",
    "Fail",
    "Faults",
    "Rule",
    "Say",
    "Scenario",
    "Script",
    "Show",
    "Simulator",
    "Variants",
    "VideoPlan",
    "read",
    "serve",
]
