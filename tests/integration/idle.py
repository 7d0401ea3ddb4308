"""Registries into which nothing was put, as a forgotten decorator leaves them."""

from gemhooks import Consumers, Functions

consumers = Consumers()
functions = Functions()
