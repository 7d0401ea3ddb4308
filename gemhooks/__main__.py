"""``python -m gemhooks`` is the command ``gemhooks``."""

from gemhooks.cli import main

main()
