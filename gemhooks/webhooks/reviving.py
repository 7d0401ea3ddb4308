"""When a webhook that Gemini gave up on may be enabled again: with back-off, and not for ever."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from pydantic import BaseModel, TypeAdapter, ValidationError

from gemhooks.errors import Misconfigured
from gemhooks.webhooks.places import write_privately

FIRST_PAUSE, LONGEST_PAUSE = 60.0, 6 * 3600.0  # seconds between two revivals
MOST = 10  # revivals that did not last; then a person must look
STABLE = 3600.0  # seconds after which a revival has lasted


class History(BaseModel, frozen=True):
    """How often a webhook was revived lately, and when last (Unix seconds)."""

    times: int = 0
    last: float = 0.0

    def wait(self, now: float) -> float:
        """Seconds until the next revival is due; 0 for now."""
        if not self.times:
            return 0.0
        pause = min(FIRST_PAUSE * 2.0 ** (self.times - 1), LONGEST_PAUSE)
        elapsed = now - self.last if now >= self.last else pause  # the clock went back
        return max(0.0, pause - elapsed)


_FORM = TypeAdapter(dict[str, History])


class Revivals:
    """The histories of all webhooks, in a small file, so that a cron job remembers too."""

    def __init__(self, path: Path, clock: Callable[[], float]) -> None:
        self._path = path
        self._clock = clock

    def refusal(self, webhook: str) -> str:
        """Empty where *webhook* may be revived now, else why not."""
        history = self._read().get(webhook, History())
        if history.times >= MOST:
            return (
                f"it was enabled {MOST} times and Gemini gave up each time: mend the deliveries"
                f" (gemhooks doctor), then `gemhooks webhook enable {webhook}`"
            )
        wait = history.wait(self._clock())
        return f"the next try is due in {wait:.0f} s" if wait else ""

    def revived(self, webhook: str) -> None:
        histories = self._read()
        times = histories.get(webhook, History()).times
        self._write({**histories, webhook: History(times=times + 1, last=self._clock())})

    def seen_enabled(self, webhook: str) -> None:
        """Forget the past of one that has lasted."""
        histories = self._read()
        history = histories.get(webhook)
        if history and self._clock() - history.last >= STABLE:
            self._write({name: each for name, each in histories.items() if name != webhook})

    def _read(self) -> dict[str, History]:
        with suppress(FileNotFoundError, ValidationError):  # damaged: begin anew
            return _FORM.validate_json(self._path.read_bytes())
        return {}

    def _write(self, histories: dict[str, History]) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_privately(self._path, _FORM.dump_json(histories).decode())
        except OSError as error:
            raise Misconfigured(f"{self._path} can't be written: {error.strerror}.") from None
