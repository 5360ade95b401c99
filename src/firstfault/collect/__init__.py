"""Brings evidence together into one archive; reads no meaning into it."""
