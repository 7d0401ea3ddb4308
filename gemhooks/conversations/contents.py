"""A part of a step's content as a chunk, and back."""

from typing import Any, get_args

from gemhooks.conversations.leftovers import Kept, keep, keep_rest
from gemhooks.conversations.messages import Blob, Chunk, Image
from gemhooks.conversations.values import decoded, encoded

IMAGES = frozenset(get_args(Image.model_fields["mime_type"].annotation))
_OF_FAMILY = {"audio": "audio", "video": "video", "image": "image"}
_MEDIA = frozenset({"image", "audio", "video", "document"})


def to_chunks(part: dict[str, Any]) -> list[Chunk]:
    """The chunk that shows *part*, and a payload for what it can't show."""
    if part.get("type") == "text" and isinstance(part.get("text"), str):
        return [_text(part), *keep_rest(Kept.FIELDS, part, ("type", "text"))]
    media = _media(part)
    if media is None:
        return [keep(Kept.CONTENT, part)]
    return [media, *keep_rest(Kept.FIELDS, part, ("type", "mime_type", "data"))]


def to_part(chunk: Chunk) -> dict[str, Any] | None:
    """The part of a content that *chunk* is; None where it is none."""
    for text in (chunk.text, chunk.transcript):
        if text is not None:
            return {"type": "text", "text": text}
    media = chunk.image or chunk.blob
    if media is None:
        return None
    return {
        "type": _type_of(media.mime_type),
        "mime_type": media.mime_type,
        "data": encoded(media.data),
    }


def _text(part: dict[str, Any]) -> Chunk:
    return Chunk(transcript=part["text"]) if _is_spoken(part) else Chunk(text=part["text"])


def _is_spoken(part: dict[str, Any]) -> bool:
    """True for the words of an audio: Gemini marks who speaks them."""
    notes = part.get("annotations")
    return isinstance(notes, list) and any(
        isinstance(each, dict) and each.get("type") == "speech_metadata" for each in notes
    )


def _media(part: dict[str, Any]) -> Chunk | None:
    """An image or a blob, where *part* has its bytes in it and says what they are."""
    mime_type, data = part.get("mime_type"), part.get("data")
    if not (isinstance(mime_type, str) and isinstance(data, str) and part.get("type") in _MEDIA):
        return None
    if part["type"] != _type_of(mime_type):  # it would come back as something else
        return None
    try:
        raw = decoded(data)
    except ValueError:
        return None
    if mime_type in IMAGES:
        return Chunk(image=Image.model_validate({"mime_type": mime_type, "data": raw}))
    return Chunk(blob=Blob(mime_type=mime_type, data=raw))


def _type_of(mime_type: str) -> str:
    return _OF_FAMILY.get(mime_type.partition("/")[0], "document")
