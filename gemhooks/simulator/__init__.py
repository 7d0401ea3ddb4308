"""A local Gemini: the API, signed deliveries, and misbehaviour on request."""

from gemhooks.simulator.faults import Faults
from gemhooks.simulator.scripts import Call, CallFunctions, Fail, Say, Script
from gemhooks.simulator.server import Simulator, serve

__all__ = ["Call", "CallFunctions", "Fail", "Faults", "Say", "Script", "Simulator", "serve"]
