"""The Gemini API as we use it: the only package that imports google.genai, a file per resource.

The client takes a second to import and is therefore built at the first call, or by `preload()`.
"""

from functools import cached_property
from threading import Thread
from typing import TYPE_CHECKING, Self

from gemhooks.gemini.client import Connection, official_client
from gemhooks.gemini.errors import Asked, unheard
from gemhooks.gemini.files import Files
from gemhooks.gemini.interactions import FetchedInteraction, Interactions
from gemhooks.gemini.operations import Operations
from gemhooks.gemini.rest import Rest
from gemhooks.gemini.starting import Starts
from gemhooks.gemini.stream import Streams
from gemhooks.settings import Settings

if TYPE_CHECKING:
    from gemhooks.gemini.webhooks import Webhooks

__all__ = ["FetchedInteraction", "Gemini", "Interactions", "official_client"]


class Gemini:
    """One project's access to the Gemini API. Safe to share between threads.

    Raises Misconfigured for a key that cannot be one.
    """

    def __init__(
        self,
        api_key: str,
        *,
        base_url: str | None = None,
        timeout: float = 30.0,
        hosts: tuple[str, ...] = (),
        asked: Asked = unheard,
    ) -> None:
        """*asked* hears the status of each answer, 401 for any refused key, None for no answer."""
        self._connection = Connection(api_key, base_url=base_url, timeout=timeout, asked=asked)
        self._rest = Rest(
            api_key.strip(), base_url=base_url, timeout=timeout, hosts=hosts, asked=asked
        )
        self.interactions = Interactions(self._connection)
        self.starts = Starts(self._connection, self._rest)
        self.files = Files(self._rest)
        self.operations = Operations(self._rest)
        self.streams = Streams(self._rest)

    @cached_property
    def webhooks(self) -> "Webhooks":
        """Gemini's list of them; its models are loaded here, since workers seldom ask."""
        from gemhooks.gemini.webhooks import Webhooks  # noqa: PLC0415

        return Webhooks(self._connection)

    @classmethod
    def from_settings(cls, settings: Settings, *, asked: Asked = unheard) -> Self:
        """As the environment says; Misconfigured where the key is missing."""
        return cls(
            settings.gemini_api_key.get_secret_value(),
            base_url=settings.gemini_base_url,
            timeout=settings.gemini_timeout,
            hosts=settings.fetch_hosts,
            asked=asked,
        )

    def preload(self) -> None:
        """Load Google's client now, in the background, so that no first call waits for it."""
        Thread(target=self._connection.prepare, name="gemini-preload", daemon=True).start()

    def close(self) -> None:
        """Close the connections; a later call opens new ones."""
        self._connection.close()
        self._rest.close()
