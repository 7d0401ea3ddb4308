"""Long-running operations, batches among them, as Gemini sends them.

Raw, since Google's client loses a batch's error and refuses one with an odd row.
"""

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

from gemhooks.errors import Retry
from gemhooks.gemini.client import segment
from gemhooks.gemini.errors import MALFORMED
from gemhooks.gemini.rest import Rest
from gemhooks.heads import bare_id

PAGE = 100  # operations an answer
MOST_PAGES = 50
BATCH = "batches/"
INLINE = ": start the batch again with an input file, and its results come as a file of any size"


class Operations:
    """Anything that has a name and is done at some time."""

    def __init__(self, rest: Rest) -> None:
        self._rest = rest

    def get(self, name: str) -> dict[str, Any]:
        """The operation *name*, for instance ``batches/b1`` or ``models/veo/operations/o1``.

        Raises NotYet("not_found") for a 404, Gone, Retry where another attempt may help, else
        Refused.
        """
        path = "/".join(segment(each) for each in name.split("/"))
        advice = INLINE if name.startswith(BATCH) else ""
        _, found = self._rest.json(path, advice=advice)
        told = found.get("name") if isinstance(found, dict) else None
        if not isinstance(told, str) or bare_id(told) != bare_id(name):
            raise Retry(MALFORMED)
        return dict(found)

    def list(self, collection: str) -> Iterator[dict[str, Any]]:
        """All of a collection, ``batches`` for instance, page by page and not for ever."""
        query = {"pageSize": str(PAGE)}
        for _ in range(MOST_PAGES):
            _, page = self._rest.json(f"{collection}?{urlencode(query)}")
            if not isinstance(page, dict):
                raise Retry(MALFORMED)
            found = page.get("operations")
            found = found if isinstance(found, list) else ()
            yield from (each for each in found if isinstance(each, dict))
            token = page.get("nextPageToken")
            if not isinstance(token, str) or token in ("", query.get("pageToken")):
                return
            query["pageToken"] = token
