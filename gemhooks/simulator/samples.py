"""One example of every step that Gemini's reference and its client know."""

from collections.abc import Mapping
from typing import Any

Step = Mapping[str, Any]

SIGNATURE = "c2lnbmF0dXJl"
PIXEL = "R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"
SOUND = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA="

ANNOTATIONS: tuple[Mapping[str, Any], ...] = (
    {
        "type": "url_citation",
        "url": "https://example.com/",
        "title": "Example",
        "start_index": 0,
        "end_index": 4,
    },
    {"type": "file_citation", "file_name": "notes.txt", "page_number": 2},
    {"type": "place_citation", "name": "Eiffel Tower", "place_id": "ChIJLU7jZClu5kcR4PcOOO6p3I0"},
    {"type": "word_info", "text": "Here", "start_offset": "0s", "end_offset": "0.5s"},
    {"type": "speech_metadata", "speaker": "A", "style": "calm"},
)

OUTPUT: Step = {
    "type": "model_output",
    "content": [
        {"type": "text", "text": "Here is one of each kind.", "annotations": list(ANNOTATIONS)},
        {"type": "image", "mime_type": "image/gif", "data": PIXEL},
        {"type": "audio", "mime_type": "audio/wav", "data": SOUND, "sample_rate": 8000},
        {"type": "video", "mime_type": "video/mp4", "uri": "https://example.com/film.mp4"},
        {"type": "document", "mime_type": "application/pdf", "uri": "https://example.com/a.pdf"},
    ],
}

STEPS: tuple[Step, ...] = (
    {
        "type": "thought",
        "summary": [{"type": "text", "text": "They want to see everything."}],
        "signature": SIGNATURE,
    },
    {
        "type": "google_search_call",
        "id": "s1",
        "arguments": {"queries": ["webhooks"]},
        "search_type": "web_search",
    },
    {
        "type": "google_search_result",
        "call_id": "s1",
        "result": [{"search_suggestions": "<div>webhooks</div>"}],
        "signature": SIGNATURE,
    },
    {
        "type": "code_execution_call",
        "id": "c1",
        "arguments": {"language": "python", "code": "print(6 * 7)"},
    },
    {"type": "code_execution_result", "call_id": "c1", "result": "42\n", "is_error": False},
    {"type": "url_context_call", "id": "u1", "arguments": {"urls": ["https://example.com/"]}},
    {
        "type": "url_context_result",
        "call_id": "u1",
        "result": [{"url": "https://example.com/", "status": "success"}],
    },
    {"type": "google_maps_call", "id": "m1", "arguments": {"queries": ["Eiffel Tower"]}},
    {
        "type": "google_maps_result",
        "call_id": "m1",
        "result": [{"places": [{"name": "Eiffel Tower", "place_id": "ChIJLU7"}]}],
    },
    {"type": "file_search_call", "id": "f1", "signature": SIGNATURE},
    {"type": "file_search_result", "call_id": "f1", "result": [{"title": "notes.txt"}]},
    {
        "type": "mcp_server_tool_call",
        "id": "t1",
        "server_name": "clock",
        "name": "now",
        "arguments": {"zone": "UTC"},
    },
    {
        "type": "mcp_server_tool_result",
        "call_id": "t1",
        "server_name": "clock",
        "name": "now",
        "result": {"time": "12:00"},
    },
    {
        "type": "retrieval_call",
        "id": "r1",
        "arguments": {"queries": ["webhooks"]},
        "retrieval_type": "rag_store",
    },
    {"type": "retrieval_result", "call_id": "r1", "is_error": False},
    {"type": "tool_search_call", "id": "l1", "arguments": {"query": "clock"}},
    {
        "type": "tool_search_result",
        "call_id": "l1",
        "result": [{"type": "function", "name": "now"}],
    },
    {"type": "processing_call", "id": "p1", "signature": SIGNATURE},
    {"type": "processing_result", "call_id": "p1", "signature": SIGNATURE},
    OUTPUT,
)

UNKNOWN: Step = {"type": "telepathy_call", "id": "x1", "arguments": {"to": "you"}}
