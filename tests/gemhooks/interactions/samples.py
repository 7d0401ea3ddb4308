"""Objects of an interaction's stream, in the shapes of the Interactions API reference."""

from typing import Any

Json = dict[str, Any]

ID = "v1_ChdTMjQ0YWJ5TUF1TzcxZThQdjRpcnFRcxIXUzI0NGFieU1BdU83MWU4UHY0aXJxUXM"
STARTED = {
    "id": ID,
    "object": "interaction",
    "status": "in_progress",
    "created": "2026-11-30T08:00:00Z",
    "updated": "2026-11-30T08:00:00Z",
}
USAGE = {
    "input_tokens_by_modality": [{"modality": "text", "tokens": 11}],
    "total_cached_tokens": 0,
    "total_input_tokens": 11,
    "total_output_tokens": 364,
    "total_thought_tokens": 1120,
    "total_tokens": 1495,
    "total_tool_use_tokens": 0,
}
ENDED = STARTED | {"status": "completed", "updated": "2026-11-30T08:00:09Z", "usage": USAGE}

# The nine of the reference: created and completed by a model and by an agent, and the five others.
EXAMPLES: list[Json] = [
    {
        "event_type": "interaction.created",
        "interaction": STARTED | {"model": "gemini-3.8-flash"},
        "event_id": "123",
    },
    {
        "event_type": "interaction.created",
        "interaction": STARTED | {"agent": "deep-research-pro"},
    },
    {
        "event_type": "interaction.completed",
        "interaction": ENDED | {"model": "gemini-3.8-flash"},
    },
    {
        "event_type": "interaction.completed",
        "interaction": ENDED | {"agent": "deep-research-pro"},
        "event_id": "124",
        "metadata": {"total_usage": USAGE},
    },
    {"event_type": "interaction.status_update", "interaction_id": ID, "status": "in_progress"},
    {
        "event_type": "error",
        "error": {
            "message": "Failed to get completed interaction: Result not found.",
            "code": "not_found",
        },
    },
    {"event_type": "step.start", "index": 0, "step": {"type": "model_output"}},
    {"event_type": "step.delta", "index": 0, "delta": {"type": "text", "text": "Elara's life was"}},
    {"event_type": "step.stop", "index": 0},
]

ANNOTATIONS: list[Json] = [
    {"type": "url_citation", "url": "https://a.test/", "title": "A", "start_index": 0},
    {
        "type": "file_citation",
        "document_uri": "files/a",
        "file_name": "a.pdf",
        "page_number": 3,
        "custom_metadata": {"k": 1},
        "start_index": 0,
        "end_index": 4,
    },
    {"type": "place_citation", "place_id": "p", "name": "P", "url": "https://maps.test/"},
    {"type": "word_info", "text": "hello", "start_offset": "0.1s", "end_offset": "0.4s"},
    {"type": "speech_metadata", "speaker": "Ann", "style": "calm", "start_index": 0},
    {"type": "brand_new_citation", "x": [1]},
]
CONTENTS: list[Json] = [
    {"type": "text", "text": "Hello", "annotations": ANNOTATIONS},
    {"type": "image", "data": "aGk=", "mime_type": "image/png", "resolution": "high"},
    {"type": "audio", "data": "aGk=", "mime_type": "audio/wav", "channels": 1},
    {"type": "video", "uri": "files/v", "mime_type": "video/mp4"},
    {"type": "document", "uri": "files/d", "mime_type": "application/pdf"},
    {"type": "brand_new_content", "x": {"y": 1}},
]
STEPS: list[Json] = [
    {"type": "user_input", "content": [{"type": "text", "text": "Hi"}]},
    {"type": "model_output", "content": CONTENTS},
    {"type": "thought", "signature": "c2ln", "summary": [{"type": "text", "text": "Hm"}]},
    {"type": "function_call", "id": "c1", "name": "f", "arguments": {"a": [1, {"b": None}]}},
    {"type": "function_result", "call_id": "c1", "name": "f", "result": {"x": 1}, "is_error": True},
    {"type": "function_result", "call_id": "c1", "result": [{"type": "text", "text": "x"}]},
    {"type": "function_result", "call_id": "c1", "result": "plain"},
    {
        "type": "code_execution_call",
        "id": "e1",
        "arguments": {"language": "python", "code": "print(1)"},
        "signature": "c2ln",
    },
    {"type": "code_execution_result", "call_id": "e1", "result": "1\n", "is_error": False},
    {"type": "url_context_call", "id": "u1", "arguments": {"urls": ["https://a.test/"]}},
    {
        "type": "url_context_result",
        "call_id": "u1",
        "result": [{"url": "https://a.test/", "status": "success"}],
        "is_error": False,
    },
    {"type": "google_search_call", "id": "g1", "arguments": {"queries": ["a", "b"]}},
    {"type": "google_search_result", "call_id": "g1", "result": [{"search_suggestions": "<p>"}]},
    {"type": "google_maps_call", "id": "m1", "arguments": {"queries": ["pizza"]}},
    {
        "type": "google_maps_result",
        "call_id": "m1",
        "result": [{"places": [{"name": "P", "place_id": "p"}], "widget_context_token": "w"}],
    },
    {"type": "file_search_call", "id": "s1"},
    {"type": "file_search_result", "call_id": "s1", "result": [{"title": "kept"}]},
    {
        "type": "mcp_server_tool_call",
        "id": "t1",
        "name": "look",
        "server_name": "srv",
        "arguments": {"q": 1},
    },
    {"type": "mcp_server_tool_result", "call_id": "t1", "name": "look", "result": "seen"},
    {"type": "tool_search_call", "id": "o1", "arguments": {"function_names": ["f"]}},
    {"type": "tool_search_result", "call_id": "o1", "result": [{"type": "function", "name": "f"}]},
    {"type": "retrieval_call", "id": "r1", "arguments": {"queries": ["q"]}},
    {"type": "retrieval_result", "call_id": "r1", "is_error": True},
    {"type": "processing_call", "id": "p1"},
    {"type": "processing_result", "call_id": "p1", "signature": "c2ln"},
    {"type": "brand_new_step", "x": 1},
]
DELTAS: list[Json] = [
    {"type": "text", "text": "Hello"},
    {"type": "text_annotation_delta", "annotations": ANNOTATIONS},
    {"type": "image", "data": "aGk=", "mime_type": "image/png"},
    {"type": "audio", "data": "aGk=", "mime_type": "audio/wav", "sample_rate": 24000},
    {"type": "video", "uri": "files/v", "mime_type": "video/mp4"},
    {"type": "document", "data": "aGk=", "mime_type": "application/pdf"},
    {"type": "thought_summary", "content": {"type": "text", "text": "Hm"}},
    {"type": "thought_signature", "signature": "c2ln"},
    {"type": "arguments_delta", "arguments": '{"a":'},
    {"type": "code_execution_call", "arguments": {"language": "python", "code": "1"}},
    {"type": "code_execution_result", "result": "1\n", "is_error": False},
    {"type": "url_context_call", "arguments": {"urls": ["https://a.test/"]}},
    {"type": "url_context_result", "result": [{"url": "https://a.test/", "status": "error"}]},
    {"type": "google_search_call", "arguments": {"queries": ["q"]}},
    {"type": "google_search_result", "result": [{"search_suggestions": "<p>"}]},
    {"type": "google_maps_call", "arguments": {"queries": ["q"]}},
    {"type": "google_maps_result", "result": [{"widget_context_token": "w"}]},
    {"type": "file_search_call", "signature": "c2ln"},
    {"type": "file_search_result", "result": [{"title": "kept"}]},
    {"type": "mcp_server_tool_call", "name": "n", "server_name": "s", "arguments": {"a": 1}},
    {"type": "mcp_server_tool_result", "result": "x", "name": "n", "server_name": "s"},
    {"type": "function_result", "result": {"x": 1}, "name": "f", "is_error": False},
    {"type": "tool_search_call", "arguments": {"function_names": ["f"]}},
    {"type": "tool_search_result", "result": [{"type": "function", "name": "f"}]},
    {"type": "retrieval_call", "arguments": {"queries": ["q"]}, "signature": "c2ln"},
    {"type": "retrieval_result", "is_error": False},
    {"type": "processing_call", "signature": "c2ln"},
    {"type": "processing_result", "signature": "c2ln"},
    {"type": "brand_new_delta", "x": 1},
]
