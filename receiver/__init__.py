"""The receiver: HTTP in, message out."""
