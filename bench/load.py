"""Load from wrk: signed webhooks with fresh timestamps, prepared before the clock starts."""

import json
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from gemhooks import signing

PATH = "/webhooks/gemini"
BODIES = 2000  # different requests, sent in turn
SCRIPT = """
local requests = dofile("{file}")
local at = 0
request = function()
  at = at % #requests + 1
  return requests[at]
end
done = function(summary, latency, _)
  io.write(string.format(
    '{{"requests":%d,"micros":%d,"refused":%d,"broken":%d,"p50":%.1f,"p99":%.1f}}\\n',
    summary.requests, summary.duration, summary.errors.status,
    summary.errors.connect + summary.errors.read + summary.errors.write + summary.errors.timeout,
    latency:percentile(50), latency:percentile(99)))
end
"""


@dataclass(frozen=True)
class Load:
    """What wrk saw: answers of 2xx, refusals, broken connections, latencies in ms."""

    answered: int
    seconds: float
    refused: int
    broken: int
    p50: float
    p99: float

    @property
    def rate(self) -> float:
        return self.answered / self.seconds


def body(number: int) -> bytes:
    """350 bytes, as a completed interaction with some metadata has."""
    event = {
        "type": "interaction.completed",
        "version": "v1",
        "timestamp": "2026-01-22T12:00:00Z",
        "data": {
            "id": f"v1_bench{number:08d}",
            "user_metadata": {"job_group": "nightly-eval", "note": ""},
        },
    }
    missing = 350 - len(json.dumps(event))
    event["data"]["user_metadata"]["note"] = "x" * missing  # type: ignore[index]
    return json.dumps(event).encode()


def headers(secret: str, number: int, content: bytes) -> dict[str, str]:
    webhook_id, now = f"msg_{number}", int(time.time())
    signature = signing.sign_v1(webhook_id, now, content, signing.decode_secret(secret))
    return {
        "webhook-id": webhook_id,
        "webhook-timestamp": str(now),
        "webhook-signature": signature,
    }


def write_requests(file: Path, secret: str, port: int) -> None:
    lines = []
    for number in range(BODIES):
        content = body(number)
        fields = {"Host": f"127.0.0.1:{port}", "Content-Type": "application/json"}
        fields |= headers(secret, number, content) | {"Content-Length": str(len(content))}
        head = f"POST {PATH} HTTP/1.1\r\n" + "".join(f"{k}: {v}\r\n" for k, v in fields.items())
        lines.append(json.dumps(head + "\r\n" + content.decode()).replace("\\/", "/"))
    file.write_text("return {\n" + ",\n".join(lines) + "}\n", "ascii")


def run(folder: Path, secret: str, port: int, *, connections: int, seconds: int) -> Load:
    requests, script = folder / "requests.lua", folder / "wrk.lua"
    write_requests(requests, secret, port)
    script.write_text(SCRIPT.format(file=requests), "ascii")
    command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "10s"]
    command += ["-s", str(script), f"http://127.0.0.1:{port}{PATH}"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = json.loads(printed.strip().splitlines()[-1])
    return Load(
        found["requests"] - found["refused"],
        found["micros"] / 1e6,
        found["refused"],
        found["broken"],
        found["p50"] / 1000,
        found["p99"] / 1000,
    )
