"""Wires the rooms: open, scan, read, fold, infer, verify; one file per job."""
