"""Texts that every database can store."""

import hashlib

LONGEST_KEY = 512  # bytes; PostgreSQL's indexes take 2704 a row, of all columns together


def storable(key: str) -> str:
    """*key*, or its digest where PostgreSQL would refuse it: NUL, half a surrogate, too long.

    Refused, it would look like a database that is away, and its message would come back for ever.
    """
    if is_text(key) and len(key.encode()) <= LONGEST_KEY:
        return key
    return digest(key)


def storable_text(text: str) -> str:
    """*text* of any length, for a column without an index; else its digest."""
    return text if is_text(text) else digest(text)


def digest(key: str) -> str:
    return "sha256:" + hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def readable(text: str) -> str:
    """*text* for people, with "?" for what can't be stored."""
    return text.replace("\0", "?").encode("utf-8", "replace").decode()


def is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text
