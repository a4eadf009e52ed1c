"""Replay: what was stored, which of it may be drawn, and how it is read. numpy only."""
