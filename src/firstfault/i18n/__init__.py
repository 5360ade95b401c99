"""Message catalogues: the fixed words of reports, by language.

Holds text only; which text to use is the renderer's business.
"""
