"""Environments, and the border between them and the sequences."""
