"""The routes of /files, /upload and /download."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

from flask import Blueprint, Response, jsonify, request
from pydantic import BaseModel, ConfigDict
from werkzeug.datastructures import Range

from gemhooks.simulator.contents import PIECE
from gemhooks.simulator.files import GENERATED, LONGEST_ID, File, Files, Upload, Wanted
from gemhooks.simulator.paging import page
from gemhooks.simulator.refusals import Refusal, invalid
from gemhooks.simulator.variants import Variants


class StartRequest(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    file: Wanted = Wanted()


MISSING = "You do not have permission to access the File {} or it may not exist."


class FileRoutes:
    def __init__(self, files: Files, variants: Callable[[], Variants]) -> None:
        self._files = files
        self._variants = variants

    def register(self, api: Blueprint) -> None:
        one = "/files/<file_id>"
        api.add_url_rule("/files", view_func=self.list_files, methods=["GET"])
        api.add_url_rule(one, view_func=self.get_file, methods=["GET"])
        api.add_url_rule(one, view_func=self.delete_file, methods=["DELETE"])
        api.add_url_rule(f"{one}:download", view_func=self.download_file, methods=["GET"])

    def register_uploads(self, api: Blueprint) -> None:
        api.add_url_rule("/files", view_func=self.upload_file, methods=["POST"])

    def register_downloads(self, api: Blueprint) -> None:
        one = "/files/<file_id>:download"
        api.add_url_rule(one, view_func=self.download_file, methods=["GET"])

    def list_files(self) -> dict[str, Any]:
        answer, token = page("files", self._files.values(), self._resource)
        return answer | ({"nextPageToken": token} if token else {})

    def get_file(self, file_id: str) -> dict[str, Any]:
        if len(file_id) > LONGEST_ID:  # as seen live: the output of a batch can't be looked at
            raise invalid(f"A file's id has at most {LONGEST_ID} characters.")
        return self._resource(self._file(file_id))

    def delete_file(self, file_id: str) -> dict[str, Any]:
        self.get_file(file_id)
        self._files.remove(file_id)
        return {}

    def download_file(self, file_id: str) -> Response:
        file = self._file(file_id)
        if file.source != GENERATED:
            raise invalid("Only generated files can be downloaded.")
        if request.args.get("alt") != "media":
            return jsonify(self._resource(file))
        return _send(file)

    def upload_file(self) -> Response:
        """The resumable protocol: start, then upload or query, and finalize."""
        request.max_content_length = None  # a piece may be as large as the file
        commands = request.headers.get("X-Goog-Upload-Command", "").replace(" ", "").split(",")
        if "start" in commands:
            return self._start()
        upload = self._files.upload(request.args.get("upload_id", ""))
        if "upload" in commands:
            offset = _offset(request.headers.get("X-Goog-Upload-Offset", ""))
            upload = self._files.receive(upload.id, offset, _pieces())
        if "finalize" in commands:
            return self._finalize(upload)
        if commands in (["upload"], ["query"]):
            return _progress({}, "active", upload)
        raise invalid("X-Goog-Upload-Command is none of start, upload, query and finalize.")

    def _start(self) -> Response:
        kind = request.headers.get("X-Goog-Upload-Header-Content-Type")
        asked = StartRequest.model_validate(request.get_json(silent=True) or {}).file
        if kind and not asked.mime_type:
            asked = asked.model_copy(update={"mime_type": kind})
        upload = self._files.begin(asked)
        response = _progress({}, "active", upload)
        url = f"{request.base_url}?upload_id={upload.id}&upload_protocol=resumable"
        response.headers["X-Goog-Upload-URL"] = url
        return response

    def _finalize(self, upload: Upload) -> Response:
        file = self._files.finish(upload)
        return _progress({"file": self._resource(file)}, "final", upload)

    def _file(self, file_id: str) -> File:
        if file := self._files.find(file_id):
            return file
        raise Refusal(self._variants().missing_file, MISSING.format(file_id))

    def _resource(self, file: File) -> dict[str, Any]:
        uri = f"{self._variants().base_uri or request.host_url.rstrip('/')}/v1beta/{file.name}"
        answer = {
            "name": file.name,
            "displayName": file.display_name,
            "mimeType": file.mime_type,
            "sizeBytes": str(file.content.size),
            "createTime": file.created,
            "updateTime": file.created,
            "expirationTime": datetime.fromtimestamp(file.expires, UTC).isoformat(),
            "sha256Hash": file.sha256,
            "uri": uri,
            "downloadUri": f"{uri}:download?alt=media" if file.source == GENERATED else None,
            "state": "ACTIVE",
            "source": file.source,
        }
        return {name: value for name, value in answer.items() if value is not None}


def _send(file: File) -> Response:
    size = file.content.size
    start, stop = 0, size
    wanted = request.range
    if wanted is not None and _is_current(file):
        start, stop = _part(wanted, size)
    headers = {
        "Accept-Ranges": "bytes",
        "ETag": f'"{file.id}"',
        "Content-Length": str(stop - start),
    }
    body = () if request.method == "HEAD" else file.content.read(start, stop)
    response = Response(body, 200, headers, content_type=file.mime_type)
    if (start, stop) != (0, size):
        response.status_code = 206
        response.headers["Content-Range"] = f"bytes {start}-{stop - 1}/{size}"
    return response


def _is_current(file: File) -> bool:
    """Whether a part fits to the parts that the client has already."""
    expected = request.if_range.etag
    return expected is None or expected == file.id


def _part(wanted: Range, size: int) -> tuple[int, int]:
    if wanted.units != "bytes" or len(wanted.ranges) != 1:
        return 0, size  # as HTTP allows: what is not understood is ignored
    part = wanted.range_for_length(size)
    if part is None:
        raise Refusal(416, f"The file has {size} bytes.")
    return part


def _progress(body: dict[str, Any], state: str, upload: Upload) -> Response:
    response = jsonify(body)
    response.headers["X-Goog-Upload-Status"] = state
    response.headers["X-Goog-Upload-Size-Received"] = str(upload.received)
    return response


def _pieces() -> Iterator[bytes]:
    while piece := request.stream.read(PIECE):
        yield piece


def _offset(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise invalid("X-Goog-Upload-Offset is not a number.")
    return int(text)
