"""What the languages page shows is what lies in examples/, and the shell's part runs."""

import json
import os
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from gemhooks.testing import message
from tests.docs.pages import DOCS, Block, blocks
from tests.examples.languages import line, publish, started
from tests.integration.processes import ROOT

SHOWN = [each for each in blocks("js", "sh", pages=[DOCS / "languages.md"]) if each.title]


@pytest.mark.parametrize("block", SHOWN, ids=str)
def test_the_page_shows_the_file(block: Block) -> None:
    assert (ROOT / block.title).read_text("utf-8") == block.text


def test_amqp_consume_sees_each_answer(
    amqp_url: str, management_url: str, amqp_tools: Path
) -> None:
    given, api = urlsplit(amqp_url), urlsplit(management_url)
    env = {
        **os.environ,
        "PATH": f"{amqp_tools}:{os.environ['PATH']}",
        "RABBITMQ_API": f"http://{given.username}:{given.password}@{api.netloc}/api",
        "RABBITMQ_VHOST": given.path.removeprefix("/"),
    }
    command = [str(ROOT / "examples" / "shell" / "answers.sh")]
    with started(command, amqp_url, "shop.answers.shell", env, ROOT) as child:
        publish(amqp_url, message("interaction.fetched", id="i1", text="hello"))
        publish(amqp_url, message("batch.fetched", id="b1"))  # not asked for
        publish(amqp_url, message("interaction.fetched", id="i2", text="and again"))
        said = [json.loads(line(child)) for _ in range(2)]

    assert [each["data"]["text"] for each in said] == ["hello", "and again"]
