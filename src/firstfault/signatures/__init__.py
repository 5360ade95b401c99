"""What a line means: one TOML file per signature, by domain, and vendor tables as data.

This room holds knowledge and loads it; it does not read logs and draws no conclusions.
"""
