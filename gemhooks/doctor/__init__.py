"""What is wrong, and what to do about it: each check of a deployment, as data."""
