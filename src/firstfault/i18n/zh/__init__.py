"""Chinese: the catalogues lie beside this file, a template and its translation a line; these are its punctuation marks.

Text only.
"""

from __future__ import annotations

FULL_STOP = "。"

JOINTS = (
    ("; ", "；"),
    (": ", "："),
    (", ", "，"),
    (" and ", " 和 "),
    (" or ", " 或 "),
    (" (", " ("),
)
"""What separates the parts of a sentence in English -> in Chinese, the loosest first."""
