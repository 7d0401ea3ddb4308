"""Make the secrets that the services share, once: random, in a volume, one a file.

What is there already stays, so a secret of your own may be put in its place before.
"""

import base64
import secrets
import sys
from pathlib import Path

READABLE = 0o444  # the services run as users of their own; only they mount the volume


def main(folder: Path) -> None:
    broker, database = (secret(folder / name) for name in ("broker-password", "database-password"))
    secret(folder / "grafana-password")
    write(folder / "broker-url", f"amqp://gemhooks:{broker}@rabbitmq:5672/%2F")
    write(folder / "database-url", f"postgresql://gemhooks:{database}@postgres:5432/gemhooks")
    user = f"default_user = gemhooks\ndefault_pass = {broker}\n"
    write(folder / "rabbitmq" / "10-user.conf", user + "default_user_tags.administrator = true\n")
    webhook = key(folder / "webhook" / "simulated")
    write(folder / "simulator" / "scenario.yaml", SCENARIO.format(secret=webhook))


def secret(path: Path) -> str:
    return write(path, secrets.token_urlsafe(32))


def key(path: Path) -> str:
    """A signing secret in Gemini's form; nobody but the simulator knows it."""
    return write(path, "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode())


def write(path: Path, text: str) -> str:
    """What is in the file, written first if it is not there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        aside = path.with_name(f".{path.name}")
        aside.write_text(text, encoding="utf-8")
        aside.chmod(READABLE)
        aside.rename(path)
    return path.read_text("utf-8")


# What the simulated Gemini does in `docker compose --profile demo up`: see docs/simulator.md.
SCENARIO = """\
delay: 0.5
timeout: 10
variants: {{base_uri: "http://simulator:8787"}}
webhooks:
  - uri: http://receiver:8080/webhooks/gemini
    subscribed_events: [interaction.completed, interaction.failed, interaction.requires_action,
                        batch.succeeded, batch.failed, batch.expired, video.generated]
    secret: {secret}
scripts:
  - when: weather
    turns:
      - kind: call
        calls:
          - {{name: get_weather, arguments: {{city: Vienna}}}}
          - {{name: book_table, arguments: {{restaurant: Steirereck, people: 2}}}}
      - {{kind: say, text: "{{results}}"}}
  - when: break
    turns: [{{kind: fail, message: It broke as it was asked to.}}]
faults: {{bad_signature_rate: 0.02, duplicate_rate: 0.02, seed: 7}}
"""

if __name__ == "__main__":
    main(Path(sys.argv[1]))
