"""Scripts that docker-compose.yml mounts."""
