"""Tables of runs: what became of each, what each configuration scored, and published figures beside it."""
