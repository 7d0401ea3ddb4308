"""Where Gemini's own documents, live reports and other people's code disagree: choose one.

Every default is what the newest official page or a live check says.
"""

from typing import Literal

from pydantic import BaseModel, ConfigDict

GOOGLE = "https://generativelanguage.googleapis.com"


class Variants(BaseModel):
    """The shapes that the simulator sends; all documented or seen somewhere."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    # Signatures: of a `webhook_config`'s uris, and of webhooks with several secrets.
    dynamic_scheme: Literal["v1a", "jwt", "v1"] = "v1a"
    jwt_audience: str = ""  # "" is the uri that is called
    jwt_claims: Literal["bare", "event", "body_hash"] = "bare"
    jwks_kids: bool = True
    signed_with: Literal["all", "newest", "oldest"] = "all"

    # Webhooks.
    rotation_grace: float = 86_400.0  # seconds; the 24 hours, compressible
    update_mask: Literal["ignored", "applied"] = "ignored"
    ping_type: str = "ping"  # nobody documents it; one that is no event's name is honest
    webhook_times: bool = False  # create_time and update_time

    # The envelope of an event.
    type_key: Literal["type", "event_type"] = "type"
    id_at: Literal[
        "data.id", "data.name", "data.interaction_id", "data.interaction.id", "interaction.id"
    ] = "data.id"
    user_metadata_at: Literal["data", "top", "interaction", "absent"] = "data"
    error_code: Literal["int", "str", "absent"] = "int"

    # The stream of an interaction.
    stream_lifecycle: Literal["status_update", "named"] = "status_update"
    stream_key: Literal["event_type", "type"] = "event_type"

    # Batches.
    batch_id: Literal["prefixed", "bare", "operation"] = "prefixed"
    batch_succeeded: Literal["batch.succeeded", "batch.completed"] = "batch.succeeded"
    batch_output_uri: Literal["files", "https", "download", "gs", "absent"] = "files"
    batch_state: Literal["BATCH_STATE", "JOB_STATE"] = "BATCH_STATE"
    batch_state_at: Literal["metadata", "top", "both"] = "metadata"
    batch_results_at: Literal["both", "metadata", "response", "top"] = "both"

    # Videos.
    video_id: Literal["operation", "bare"] = "operation"
    video_fields: Literal[
        "output_file_uri+file_name",
        "output_file_uri",
        "video_uri",
        "uri",
        "file_name",
        "file_uri",
        "absent",
    ] = "output_file_uri+file_name"

    # Files.
    base_uri: str = ""  # of the URIs that it shows; "" is where it listens itself
    missing_file: Literal[403, 404, 410] = 404  # Gemini: 403, it tells no one what exists
