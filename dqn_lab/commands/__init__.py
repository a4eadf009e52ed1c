"""The commands: each one's options, and what it does with them."""
