"""``python -m handbook``: write what is stale, and say which that was."""

from handbook.pages import stale

if __name__ == "__main__":
    for path, text in stale():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        print(f"wrote {path}")  # noqa: T201 - for a person
