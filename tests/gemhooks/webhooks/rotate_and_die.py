"""A rotation that is SIGKILLed at a given moment: ``python rotate_and_die.py MOMENT ID ...``."""

import os
import signal
import sys
from pathlib import Path

from gemhooks.gemini import Gemini
from gemhooks.webhooks.places import SecretPlace
from gemhooks.webhooks.receivers import Receivers
from gemhooks.webhooks.rotation import Moment, Rotation


def main(moment: str, webhook: str, gemini_url: str, place: str, admin: str) -> None:
    def die(now: Moment) -> None:
        if now.name == moment:
            os.kill(os.getpid(), signal.SIGKILL)

    api = Gemini("any", base_url=gemini_url).webhooks
    Rotation(api, SecretPlace(Path(place)), Receivers((admin,)), webhook, tell=die).begin()


main(*sys.argv[1:])
