"""Tests on a GPU, which `make test-gpu` runs. Each test fails if there is no GPU."""
