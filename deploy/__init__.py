"""What runs gemhooks elsewhere, and the scripts that write parts of it."""
