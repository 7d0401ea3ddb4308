"""Writes docs/reference/ from the code: ``make docs``. No part of the wheel."""
