"""Texts that every database can store."""

import hashlib


def storable(key: str) -> str:
    """*key*, or its digest where PostgreSQL would refuse it: a NUL, half a surrogate pair.

    Refused, it would look like a database that is away, and its message would come back for ever.
    """
    if is_storable(key):
        return key
    return "sha256:" + hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def readable(text: str) -> str:
    """*text* for people, with "?" for what can't be stored."""
    return text.replace("\0", "?").encode("utf-8", "replace").decode()


def is_storable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text
