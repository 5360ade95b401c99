"""The key of the pseudonyms: made once, whole, and for its owner alone."""

import os
import stat

import pytest

from firstfault.pipelines import incidents
from firstfault.pipelines.errors import PipelineError
from firstfault.pipelines.incidents import owner_key


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setattr(incidents, "config_folder", lambda: tmp_path / "firstfault")
    return tmp_path / "firstfault"


def test_it_is_made_once_and_is_the_owners_alone(home):
    first = owner_key()
    assert len(first) == 64
    assert owner_key() == first
    assert [f.name for f in home.iterdir()] == ["incidents.key"]
    assert stat.S_IMODE((home / "incidents.key").stat().st_mode) == 0o600


def test_of_two_that_make_it_at_once_one_is_believed(home, monkeypatch):
    theirs = "ab" * 32

    def link(_source, target):
        target.write_text(theirs + "\n")
        raise FileExistsError

    monkeypatch.setattr(os, "link", link)
    assert owner_key() == theirs.encode()
    assert [f.name for f in home.iterdir()] == ["incidents.key"]


def test_a_file_without_a_key_is_said(tmp_path):
    (tmp_path / "empty").write_text("\n")
    with pytest.raises(PipelineError):
        owner_key(tmp_path / "empty")
