"""Reads manifests of Lhotse line by line: cuts, recordings, supervisions. Opens no sound; which files are needed is told to the caller."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from firstfault.dataset.files import File
from firstfault.dataset.nouns import Kind, Notes, Seen

if TYPE_CHECKING:
    from collections.abc import Iterator

    from firstfault.model.dataset import DataKind

SLACK_S = 0.025
"""Seconds by which times may differ: rounding, a frame."""
_NEEDS_FFMPEG = ("m4a", "aac", "mp4", "wma", "mov", "webm", "amr")

NO_ID = Kind("item.no_id", "fail", "items have no id", "Lhotse raises when it reads them.", "Write the manifest anew.")
SAME_ID = Kind("item.same_id", "warn", "items have the id of an earlier one", "Some versions of Lhotse raise on it, others read the item twice.", "Give each an id of its own.")  # fmt: skip
NO_DURATION = Kind("item.duration", "fail", "items have a duration that is missing, not a number, or not above 0", "Samplers that count seconds raise or never fill a batch.", "Leave them out.")  # fmt: skip
OUTSIDE = Kind("cut.outside", "fail", "cuts reach beyond the end of their recording", "Loading them raises, or gives fewer samples than labels.", "Cut them to the recording, by trim_to_supervisions or truncate.")  # fmt: skip
SAMPLES = Kind("recording.samples", "fail", "recordings state a duration that is not their samples divided by their rate", "Lhotse raises on validation, and cuts miss their end.", "Write the manifest anew from the files.")  # fmt: skip
RATES = Kind("recording.rates", "warn", "recordings have another sampling rate than the first one", "Batches of raw sound mix rates; features are of another scale.", "Resample, on the fly too: cuts.resample(16000).")  # fmt: skip
FFMPEG = Kind("recording.needs_ffmpeg", "warn", "recordings are in a format that libsndfile does not read (m4a and its like)", "Lhotse falls back to ffmpeg, which is slow and leaks memory in workers, or raises where it is not installed.", "Turn them into FLAC or WAV once, ahead of the run.")  # fmt: skip
REMOTE = "Addresses and commands that give sound were not tried."
NO_SOUND = Kind(
    "cut.no_sound", "warn", "cuts have neither a recording nor features", "Loading them raises.", "Leave them out."
)
SPEECH_OUT = Kind("supervision.outside", "warn", "supervisions lie outside of their cut, or reach beyond it", "Labels without their sound.", "Trim the cuts to their supervisions.")  # fmt: skip
SPEECH_EMPTY = Kind("supervision.duration", "fail", "supervisions have no duration above 0", "Validation raises; alignment of nothing.", "Leave them out.")  # fmt: skip
SPEECH_OTHER = Kind("supervision.other_recording", "warn", "supervisions name another recording than their cut has", fix="Write the manifest anew.")  # fmt: skip
SPEECH_TWICE = Kind("supervision.same_id", "warn", "supervisions have the id of another one of their cut")
NO_TEXT = Kind("supervision.no_text", "warn", "supervisions have an empty text", "A transcript of nothing trains towards silence, and CTC may raise.", "Filter them.")  # fmt: skip
ODD = Kind(
    "item.unreadable",
    "fail",
    "items have a field of the wrong kind",
    "Reading them raises.",
    "Write the manifest anew.",
)


def kind_of(record: dict[str, Any]) -> DataKind | None:
    """`lhotse_cuts`, `lhotse_recordings`, `lhotse_supervisions`, or None for something else."""
    if str(record.get("type", "")).endswith("Cut") or {"start", "duration", "channel", "supervisions"} <= record.keys():
        return "lhotse_cuts"
    if {"sources", "sampling_rate"} <= record.keys():
        return "lhotse_recordings"
    return "lhotse_supervisions" if {"id", "recording_id", "start", "duration"} <= record.keys() else None


class Manifest:
    """One manifest while it is read."""

    def __init__(self, path: str, kind: str, notes: Notes) -> None:
        self.path, self.kind, self.notes = path, kind, notes
        self.ids = Seen()
        self.items = 0
        self.seconds = 0.0
        self.rate: int | None = None
        self.line = 0

    def take(self, record: dict[str, Any], line: int) -> Iterator[File]:
        """Takes the next line; gives the files that it needs."""
        self.line = line
        self.items += 1
        name = record.get("id")
        if not isinstance(name, str) or not name:
            self._note(NO_ID, f"line {line}")
            name = f"line {line}"
        elif self.ids.again(name):
            self._note(SAME_ID, name)
        try:
            if self.kind == "lhotse_cuts":
                yield from self._cut(record, name)
            elif self.kind == "lhotse_recordings":
                self._length(record, name)
                yield from self._recording(record, name)
            else:
                self._supervision(record, name, math.inf, record.get("recording_id"), outer=False)
        except (TypeError, ValueError, KeyError, AttributeError, OverflowError) as error:
            self._note(ODD, name, f"{type(error).__name__}: {error}"[:200])

    def _note(self, kind: Kind, name: str, detail: str = "") -> None:
        self.notes.note(kind, self.path, name, line=self.line, detail=detail)

    def _length(self, record: dict[str, Any], name: str) -> float | None:
        duration = record.get("duration")
        if (
            isinstance(duration, bool)
            or not isinstance(duration, (int, float))
            or not math.isfinite(duration)
            or duration <= 0
        ):
            self._note(NO_DURATION, name, f"{duration!r}"[:40])
            return None
        self.seconds += duration
        return float(duration)

    def _cut(self, record: dict[str, Any], name: str) -> Iterator[File]:
        if record.get("type") == "MixedCut" or "tracks" in record:
            for track in record["tracks"]:
                yield from self._cut({**track["cut"], "supervisions": track["cut"].get("supervisions", [])}, name)
            return
        duration = self._length(record, name)
        recording = record.get("recording")
        start = float(record.get("start", 0))
        if recording is not None and duration is not None:
            whole = recording.get("duration")
            if start < -SLACK_S or (whole is not None and start + duration > float(whole) + SLACK_S):
                self._note(OUTSIDE, name, f"start {start:g} s, length {duration:g} s, recording {whole} s")
        if recording is not None:
            yield from self._recording(recording, name)
        if record.get("features") is not None:
            yield from self._features(record["features"], name)
        elif recording is None and record.get("type") != "PaddingCut":
            self._note(NO_SOUND, name)
        held: set[str] = set()
        for one in record.get("supervisions") or []:
            own = str(one.get("id", ""))
            if own in held:
                self._note(SPEECH_TWICE, own)
            held.add(own)
            of = None if recording is None else recording.get("id")
            self._supervision(one, own or name, math.inf if duration is None else duration, of, outer=True)

    def _recording(self, record: dict[str, Any], name: str) -> Iterator[File]:
        rate, samples, duration = record.get("sampling_rate"), record.get("num_samples"), record.get("duration")
        if (
            rate
            and samples is not None
            and duration is not None
            and abs(samples / rate - duration) > max(1 / rate, 0.001)
        ):
            self._note(
                SAMPLES,
                name,
                f"{samples} samples at {rate} Hz are {samples / rate:.3f} s, and {duration:g} s stand there",
            )
        if self.rate is None:
            self.rate = rate
        elif rate is not None and rate != self.rate:
            self._note(RATES, name, f"{rate} beside {self.rate} Hz")
        sources = record.get("sources") or []
        for source in sources:
            place = str(source.get("source", ""))
            if source.get("type") != "file" or "://" in place:
                self.notes.skip(REMOTE)
                continue
            if place.rpartition(".")[2].lower() in _NEEDS_FFMPEG:
                self._note(FFMPEG, place)
            alone = len(sources) == 1 and not record.get("transforms")
            yield File(place, name, self.path, self.line, rate if alone else None, samples if alone else None)

    def _features(self, record: dict[str, Any], name: str) -> Iterator[File]:
        kind, place = str(record.get("storage_type", "")), str(record.get("storage_path", ""))
        if "://" in place or not place:
            self.notes.skip(REMOTE)
        elif kind in {"lilcom_files", "numpy_files"}:
            yield File(f"{place}/{record.get('storage_key', '')}", name, self.path, self.line)
        elif kind in {"lilcom_chunky", "lilcom_hdf5", "numpy_hdf5", "chunked_lilcom_hdf5"}:
            yield File(place, name, self.path, self.line)

    def _supervision(self, one: dict[str, Any], name: str, duration: float, recording: object, *, outer: bool) -> None:
        start, length = float(one.get("start", 0)), float(one.get("duration", 0))
        if not length > 0:
            self._note(SPEECH_EMPTY, name, f"{length:g}")
        elif outer and (start >= duration or start + length <= 0 or start + length > duration + 0.5):
            self._note(SPEECH_OUT, name, f"start {start:g} s, length {length:g} s, cut {duration:g} s")
        if outer and recording is not None and one.get("recording_id") not in {None, recording}:
            self._note(SPEECH_OTHER, name, f"{one.get('recording_id')} beside {recording}"[:200])
        if "text" in one and isinstance(one["text"], str) and not one["text"].strip():
            self._note(NO_TEXT, name)
        if not outer and length > 0:
            self.seconds += length
