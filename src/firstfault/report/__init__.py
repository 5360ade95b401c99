"""Says a diagnosis: one file per format.

Renderers take a `firstfault.redact.Redacted` and return text; they infer nothing and touch no file.
"""
