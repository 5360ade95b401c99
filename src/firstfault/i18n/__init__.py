"""Message catalogues: the fixed words of reports, and the translations of its sentences, by language.

Holds text only; which text to use is the renderer's business.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

LANGUAGES = ("en", "zh")


def messages(language: str = "en") -> Mapping[str, str]:
    """The catalogue of a language: key -> text, in which `{name}` marks what is filled in.

    Raises:
        KeyError: there is no catalogue of that language.
    """
    if language not in LANGUAGES:
        raise KeyError(language)
    if language == "zh":
        from firstfault.i18n.zh.words import MESSAGES as CHINESE

        return CHINESE
    from firstfault.i18n.en import MESSAGES

    return MESSAGES


@lru_cache(maxsize=4)
def translator(language: str) -> Callable[[str], str]:
    """What turns an English sentence of a report into one of that language; text that it does not know stays as it is.

    Raises:
        KeyError: there is no catalogue of that language.
    """
    if language not in LANGUAGES:
        raise KeyError(language)
    if language == "en":
        return str
    from firstfault.i18n.translate import Translator, catalogue
    from firstfault.i18n.zh import FULL_STOP, JOINTS, PHRASES

    return Translator(catalogue(language), JOINTS, FULL_STOP, PHRASES)


def help_texts(language: str) -> Mapping[str, str]:
    """The texts of the command line's help: an English paragraph on one line -> the text of that language.

    Raises:
        KeyError: there is no catalogue of that language.
    """
    if language not in LANGUAGES:
        raise KeyError(language)
    if language == "en":
        return {}
    from firstfault.i18n.translate import one_file

    return one_file(language, "cli.json")
