"""Consumers for tests of whole worker processes: `gemhooks consume handlers:NAME`."""

import ctypes
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from gemhooks import Consumers, events

slow = Consumers()
deadly = Consumers()
blocked = Consumers()
fatal = Consumers()
leaving = Consumers()
forking = Consumers()


def note(line: str) -> None:
    file = os.open(Path(os.environ["NOTES"]), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(file, f"{line}\n".encode())
    os.close(file)


@slow.on(events.BatchFailed, queue="slow")
def work(event: events.BatchFailed) -> None:
    note(f"begin {event.data.id}")
    time.sleep(2)
    note(f"end {event.data.id}")


@deadly.on(events.BatchFailed, queue="deadly")
def die(event: events.BatchFailed) -> None:
    if event.data.id == "poison":
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.3)  # so that neighbours are at work when the process dies
    note(f"end {event.data.id}")


@blocked.on(events.BatchFailed, queue="blocked")
def block(event: events.BatchFailed) -> None:
    note(f"begin {event.data.id}")
    while True:
        time.sleep(1)


@fatal.on(events.BatchFailed, queue="fatal")
def end_thread(event: events.BatchFailed) -> None:
    """Raise in the thread of that name, as soon as it does anything."""
    for thread in threading.enumerate():
        if thread.name == event.data.id and thread.ident is not None:
            raised = ctypes.py_object(SystemExit)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), raised)


@leaving.on(events.BatchFailed, queue="leaving")
def leave(event: events.BatchFailed) -> None:
    """Leave a thread behind that Python waits for."""
    ThreadPoolExecutor().submit(time.sleep, 300)
    note(f"end {event.data.id}")


@forking.on(events.BatchFailed, queue="forking")
def fork(event: events.BatchFailed) -> None:
    note(f"begin {event.data.id}")
    if event.data.id == "child":
        import multiprocessing  # noqa: PLC0415 - test_idle.py sees what an idle consumer has loaded

        child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(300,))
        child.start()
        note(f"pid {child.pid}")
        time.sleep(300)
    if event.data.id == "fork" and os.fork() == 0:
        note("forked")
        return
    note(f"end {event.data.id}")
