"""The built-in consumers: an application that uses gemhooks, never part of its wheel."""
