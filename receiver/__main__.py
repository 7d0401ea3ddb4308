"""``python -m receiver``."""

from gemhooks import entry
from receiver.server import main

entry.run(main)
