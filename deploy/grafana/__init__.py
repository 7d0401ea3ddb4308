"""The dashboards, as code."""
