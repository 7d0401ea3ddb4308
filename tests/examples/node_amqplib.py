"""The consumer in Node: ``make test-node``, since npm fetches amqplib from the network."""

import os

from gemhooks.testing import message
from tests.examples.languages import line, publish, started
from tests.integration.processes import ROOT

FOLDER = ROOT / ".work" / "node"  # with amqplib, and nothing of ours


def test_node_sees_each_answer_with_its_headers(amqp_url: str) -> None:
    script = FOLDER / "answers.mjs"
    script.write_bytes((ROOT / "examples" / "node" / "answers.mjs").read_bytes())
    told = [message("interaction.fetched", text=text) for text in ("hello", "and again")]
    with started(["node", str(script)], amqp_url, "shop.answers", os.environ, FOLDER) as child:
        publish(amqp_url, *told)
        said = [line(child).strip() for _ in told]

    assert said == [f"{told[0].id} body hello", f"{told[1].id} body and again"]
