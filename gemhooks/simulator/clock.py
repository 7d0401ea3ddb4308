"""Times and ids in the form that Gemini writes them."""

import secrets
import string
import time
from datetime import UTC, datetime

ALPHABET = string.ascii_lowercase + string.digits


def rfc3339() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def unix_time() -> int:
    return int(time.time())


def alphanumeric(length: int) -> str:
    return "".join(secrets.choice(ALPHABET) for _ in range(length))


def webhook_resource_id() -> str:
    return alphanumeric(36)


def interaction_id() -> str:
    return f"v1_{secrets.token_urlsafe(49)}"  # 49 bytes are 66 characters
