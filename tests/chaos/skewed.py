"""Runs a module with a clock that is wrong: ``python -m tests.chaos.skewed SECONDS MODULE ...``."""

import runpy
import sys
import time


def skew(seconds: float) -> None:
    """Let this process believe that it is *seconds* later."""
    right = time.time
    time.time = lambda: right() + seconds


if __name__ == "__main__":
    skew(float(sys.argv[1]))
    module = sys.argv[2]
    sys.argv = sys.argv[2:]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
