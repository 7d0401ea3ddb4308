"""``make release``: from a tag to archives that were tried. Uploads nothing."""
