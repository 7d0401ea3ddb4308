"""The manifests, and what writes one of them."""
