"""Knobs: what can be turned in a training, and where the user turns it."""
