"""One process that claims messages and marks them done, as a worker's threads do, and nothing else.

Says when it is ready, begins at a line on its standard input, and prints events per second.
"""

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

from gemhooks.ledger import open_ledger
from gemhooks.messages import Ledger

THREADS = 16  # GEMHOOKS_CONCURRENCY


def handle_until(ledger: Ledger, end: float) -> int:
    """How many events one thread has brought through."""
    count = 0
    while time.monotonic() < end:
        key = str(uuid4())
        ledger.claim("bench", key, redelivered=False)
        ledger.done("bench", key)
        count += 1
    return count


def main() -> None:
    url, seconds = sys.argv[1], float(sys.argv[2])
    ledgers = open_ledger(url)
    print("ready", flush=True)  # noqa: T201 - for who started it
    sys.stdin.readline()
    began = time.monotonic()
    with ThreadPoolExecutor(THREADS) as pool:
        counts = pool.map(lambda _: handle_until(ledgers.handled, began + seconds), range(THREADS))
        rate = sum(counts) / (time.monotonic() - began)
    ledgers.close()
    print(rate)  # noqa: T201 - as above


if __name__ == "__main__":
    main()
