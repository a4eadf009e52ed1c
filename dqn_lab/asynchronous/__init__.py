"""Asynchronous methods: worker processes that share their parameters and learn without replay."""
