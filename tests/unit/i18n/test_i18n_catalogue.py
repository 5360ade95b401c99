"""The Chinese catalogue is whole: nothing is missing or left over, slots agree, and no negation is lost."""

import importlib.util
import re
from pathlib import Path

import pytest

from firstfault.i18n import LANGUAGES, messages
from firstfault.i18n.template import SLOT
from firstfault.i18n.translate import catalogue

ROOT = Path(__file__).resolve().parents[3]
NEGATION = re.compile(r"\b(?:not|no|never|nobody|nothing|none|cannot|neither)\b|n't\b", re.IGNORECASE)
DENIED = re.compile("[不没无未非别免除缺失禁拒空]|之前|以外|去掉|超出")


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("messages", ROOT / "tools" / "messages.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_sentence_has_a_translation(tool):
    assert tool.missing("zh") == {}, "run tools/messages.py zh --write and translate"


def test_no_translation_is_left_over(tool):
    assert tool.stale("zh") == {}, "run tools/messages.py zh --write"


def test_a_new_sentence_of_the_code_would_be_missed(tool):
    import ast

    found = dict(tool.texts_of(ast.parse("def f(n):\n    return f'Rank {n} went for a walk.'\n")))
    assert found == {2: "Rank {0} went for a walk."}


def test_translations_have_no_slots_of_their_own():
    wrong = [en for en, zh in catalogue("zh").items() if set(SLOT.findall(zh)) - set(SLOT.findall(en))]
    assert wrong == []


def test_a_translation_names_a_slot_as_often_as_the_sentence():
    twice = {
        en: zh
        for en, zh in catalogue("zh").items()
        if any(SLOT.findall(zh).count(n) > SLOT.findall(en).count(n) for n in set(SLOT.findall(zh)))
    }
    assert twice == {}


def test_no_translation_loses_a_negation():
    prose = {en: (re.sub("`[^`]*`", "", en), zh) for en, zh in catalogue("zh").items() if en != zh}
    lost = {en: zh for en, (words, zh) in prose.items() if NEGATION.search(words) and not DENIED.search(zh)}
    assert lost == {}


@pytest.mark.parametrize("language", [x for x in LANGUAGES if x != "en"])
def test_fixed_words_are_those_of_english_with_the_same_slots(language):
    english, other = messages("en"), messages(language)
    assert sorted(english) == sorted(other)
    differ = [k for k in english if sorted(SLOT.findall(english[k])) != sorted(SLOT.findall(other[k]))]
    assert differ == []
