"""Texts that a model reads: of bounded length, and always valid UTF-8."""


def is_sendable(text: str) -> bool:
    """False for lone surrogates: Python holds them, UTF-8 and so HTTP does not."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def bounded(text: str, limit: int) -> str:
    """At most *limit* characters of *text*, an ellipsis last where some are missing."""
    # Cut first: whoever wrote the text may have written megabytes.
    clean = text[: limit + 1].encode(errors="backslashreplace").decode()
    return clean if len(clean) <= limit else clean[: limit - 1] + "…"


def explain(error: BaseException, limit: int) -> str:
    """Type and message of *error*, without its traceback."""
    try:
        message = str(error)
    except BaseException:  # the author's own __str__ may do anything
        message = ""
    kind = bounded(type(error).__name__, 100)
    return f"{kind}: {bounded(message, limit)}" if message else kind
