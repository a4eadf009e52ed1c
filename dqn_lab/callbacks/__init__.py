"""Callbacks that watch a run."""
