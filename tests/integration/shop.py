"""The functions of the end-to-end tests: each effect is a line in a file."""

import os

from gemhooks import CallContext, Functions

functions = Functions()


@functions.function()
def charge(order: str, cents: int, context: CallContext) -> dict[str, str | int]:
    """Take money, once."""
    with open(os.environ["SHOP_EFFECTS"], "a", encoding="utf-8") as effects:  # noqa: PTH123 - short
        effects.write(f"{context.idempotency_key} {order} {cents}\n")
    return {"order": order, "charged": cents}
