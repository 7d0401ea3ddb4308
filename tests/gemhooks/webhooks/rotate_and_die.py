"""Rotations that are SIGKILLed at a given moment, each in a fork: their arguments, a line each."""

import json
import os
import signal
import sys
from pathlib import Path

from google import genai  # imported once, for all forks

from gemhooks.gemini import Gemini
from gemhooks.gemini.webhooks import Revocation
from gemhooks.webhooks.places import SecretPlace
from gemhooks.webhooks.receivers import Receivers
from gemhooks.webhooks.rotation import Moment, Rotation


def rotate(*, moment: str, webhook: str, url: str, place: str, admin: str, how: str) -> None:
    def die(now: Moment) -> None:
        if now.name == moment:
            os.kill(os.getpid(), signal.SIGKILL)

    api = Gemini("any", base_url=url).webhooks
    rotation = Rotation(api, SecretPlace(Path(place)), Receivers((admin,)), webhook, tell=die)
    rotation.begin(Revocation(how))


def main() -> None:
    say(genai.__name__)  # ready
    for line in sys.stdin:
        child = os.fork()
        if not child:
            rotate(**json.loads(line))
            os._exit(0)
        say(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


def say(word: object) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


main()
