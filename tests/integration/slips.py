"""Mistakes of people who write consumers and functions."""

from gemhooks import Consumers, Functions, events

# Nothing was put into these, as a forgotten decorator leaves them.
consumers = Consumers()
functions = Functions()

# It would take the built-in workers' messages away from them.
clashing = Consumers()
clashing.add(events.BatchFetched, print, queue="batches")
