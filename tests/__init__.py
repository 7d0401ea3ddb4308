"""The test suite; `make test` runs all of it."""
