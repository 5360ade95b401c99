"""Message catalogues: the fixed words of reports, by language.

Holds text only; which text to use is the renderer's business.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

LANGUAGES = ("en",)


def messages(language: str = "en") -> Mapping[str, str]:
    """The catalogue of a language: key -> text, in which `{name}` marks what is filled in.

    Raises:
        KeyError: there is no catalogue of that language.
    """
    if language not in LANGUAGES:
        raise KeyError(language)
    from firstfault.i18n.en import MESSAGES

    return MESSAGES
