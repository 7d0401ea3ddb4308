"""The whole system under load, hurt in every way we know, and counted from outside."""
