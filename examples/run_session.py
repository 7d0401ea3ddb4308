"""Drive a session of CX Agent Studio; the agent's client functions are answered in process, once.

    export CES_TOKEN=$(gcloud auth print-access-token)
    python examples/run_session.py projects/p/locations/us/apps/a/sessions/s "Refund order 7"

Started again after a crash, a call that was made is answered from the ledger, not made again.
"""

import os
import sys
from typing import Any

import urllib3

from gemhooks import logs
from gemhooks.conversations import ToolCall, respond
from gemhooks.errors import GemhooksError
from gemhooks.functions import Functions
from gemhooks.functions.records import CallLedger
from gemhooks.ledger import open_ledger
from gemhooks.settings import Settings

MOST_TURNS = 20  # an agent that calls functions for ever is stopped
TIMEOUT = 90.0  # seconds; a turn takes as long as its model
OK = 200
functions = Functions()


@functions.function()
def refund(order: str, cents: int) -> dict[str, Any]:
    """Pay *cents* back for *order*."""
    with open("refunds.txt", "a", encoding="utf-8") as book:  # noqa: PTH123 - the effect
        book.write(f"{order} {cents}\n")
    return {"order": order, "refunded": cents}


def converse(session: str, text: str, ledger: CallLedger) -> str:
    """Say *text* in *session* and answer the agent's calls until it has nothing left to ask."""
    inputs: list[dict[str, Any]] = [{"text": text}]
    for _ in range(MOST_TURNS):
        outputs = run_session(session, inputs)
        if not (calls := calls_in(outputs)):
            return "".join(output.get("text", "") for output in outputs)
        responses = respond(calls, functions, ledger, conversation=session)
        answers = [response.to_wire() for response in responses]
        inputs = [{"toolResponses": {"toolResponses": answers}}]
    raise RuntimeError(f"the agent still calls functions after {MOST_TURNS} turns")


def calls_in(outputs: list[dict[str, Any]]) -> list[ToolCall]:
    """The agent's calls; the field's name is doubled on the wire."""
    asked = [output.get("toolCalls", {}).get("toolCalls", []) for output in outputs]
    return [ToolCall.from_wire(call) for calls in asked for call in calls]


def run_session(session: str, inputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One turn of ``sessions.runSession``."""
    base = os.environ.get("CES_BASE_URL", "https://ces.googleapis.com")
    body = {"config": {"session": session}, "inputs": inputs}
    answer = urllib3.request(
        "POST",
        f"{base}/v1/{session}:runSession",
        json=body,
        headers={"authorization": f"Bearer {os.environ['CES_TOKEN']}"},
        timeout=TIMEOUT,
        retries=False,
        redirect=False,  # the token is for nobody else
    )
    if answer.status != OK:
        raise OSError(f"the agent answers {answer.status}")
    outputs: list[dict[str, Any]] = answer.json().get("outputs", [])
    return outputs


def main() -> None:
    session, text = sys.argv[1:]
    logs.configure()  # to stderr: what the agent says is alone on stdout
    ledgers = open_ledger(Settings.from_env().database_url.get_secret_value())
    try:
        print(converse(session, text, ledgers.calls))  # noqa: T201 - that is the example
    except (GemhooksError, OSError, urllib3.exceptions.HTTPError) as error:
        sys.exit(f"{error}. Start it again: no call that was made is made again.")
    finally:
        ledgers.close()


if __name__ == "__main__":
    main()
