"""What the author of a consumer imports."""
