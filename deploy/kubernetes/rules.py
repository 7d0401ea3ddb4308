"""Writes the PrometheusRule from deploy/prometheus/alerts.yml: one text for both worlds."""

from pathlib import Path

DEPLOY = Path(__file__).parents[1]
RULES = Path(__file__).parent / "components" / "monitoring" / "rules.yaml"
HEAD = """\
# Written by `make generated` from deploy/prometheus/alerts.yml.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: gemhooks
spec:
"""


def text() -> str:
    groups = (DEPLOY / "prometheus" / "alerts.yml").read_text("utf-8").split("groups:\n", 1)[1]
    lines = "groups:\n" + groups
    return HEAD + "".join(f"  {line}\n" if line else "\n" for line in lines.splitlines())


if __name__ == "__main__":
    RULES.write_text(text(), encoding="utf-8")
