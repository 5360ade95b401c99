"""Bytes or hits to observations; one file per format. Draws no conclusions."""
