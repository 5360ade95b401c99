"""The only place that wires rooms together; one file per job.

A pipeline opens, scans, reads, infers, verifies, redacts and renders by calling the rooms; it decides nothing itself.
"""
