"""The knowledge base of past incidents: records, fingerprints, index and search.

Must not diagnose, print, or decide a verdict: what was seen before is shown beside a diagnosis, never as its proof.
"""
