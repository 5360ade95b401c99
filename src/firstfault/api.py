"""What a program or a notebook calls: the same answers as the command line, as typed objects that show themselves.

Stable: what `firstfault.__all__` names keeps its name, arguments and meaning within a major version. Must not decide
anything about a job; every answer comes from a pipeline, and every text goes through the one door that redacts.
Of several threads one is answered after the other; for answers at the same time take processes.
"""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any, TypeVar

from firstfault.model import diagnosis as told
from firstfault.model import page as paged
from firstfault.model import views
from firstfault.pipelines.asked import checked, typed
from firstfault.pipelines.errors import PipelineError as PipelineError  # noqa: PLC0414 - told again for the package
from firstfault.pipelines.options import DiagnoseOptions as DiagnoseOptions  # noqa: PLC0414, TC001
from firstfault.signatures.errors import SignatureError as SignatureError  # noqa: PLC0414

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    import pandas as pd
    import polars as pl

    from firstfault.pipelines.publish import Format
    from firstfault.pipelines.ranks import RankFilters
    from firstfault.pipelines.timeline import EventFilters
    from firstfault.redact import Level
    from firstfault.report.tabular import Cell

    Row = dict[str, Cell]

FRAME = 720
"""Height of a page inside a notebook, in pixels."""
NOTHING_READ = 2
"""The exit code of the command line where no input could be read."""
GIVE = "Give the job's log files, their folder, or an archive of it."
D = TypeVar("D", bound=told.Published)


class Diagnosis(told.Diagnosis, frozen=True, kw_only=True):
    """What the first fault of a job was; a notebook shows it as its Markdown report."""

    def report(
        self,
        form: Format = "markdown",
        *,
        share: bool = False,
        raw: bool = False,
        width: int = 100,
        language: str = "en",
    ) -> str:
        """The diagnosis as text.

        Args:
            form: `text`, `markdown`, `html`, `json`, `sarif` or `junit`; for a page with its pictures see `page`.
            share: take hosts, users, paths and addresses out too.
            raw: take nothing out, not even secrets.
            width: columns; only the text format heeds it.
            language: of the sentences and fixed words, `en` or `zh`.

        Returns:
            The whole report, ending in a newline.

        Raises:
            ValueError: both `share` and `raw` are asked for, or the format is none of these.
        """
        from firstfault.pipelines.publish import FORMATS, publish

        if form not in FORMATS:
            raise ValueError(f"{form!r} is no format of a report: one of {', '.join(FORMATS)}")
        return publish(self, form, _level(share=share, raw=raw), width=width, language=language)

    def _repr_markdown_(self) -> str:
        return self.report("markdown")


class RankTable(views.RankTable, frozen=True, kw_only=True):
    """What is true of every rank, outliers first; a notebook shows the text of `firstfault ranks`."""

    def rows(self) -> list[Row]:
        """A map from column to value for each rank and process group in which it is stuck, as in the CSV of the command line."""
        from firstfault.report.ranks import CSV_HEAD, rank_rows

        return [dict(zip(CSV_HEAD, row, strict=True)) for line in _clean(self).ranks for row in rank_rows(line)]

    def to_pandas(self) -> pd.DataFrame:
        """The rows as a data frame of pandas; raises ImportError where pandas is not installed."""
        return _pandas(self.rows())

    def to_polars(self) -> pl.DataFrame:
        """The rows as a data frame of polars; raises ImportError where polars is not installed."""
        return _polars(self.rows())

    def __str__(self) -> str:
        from firstfault.pipelines.publish import publish_ranks

        return publish_ranks(self, "text", "secrets")

    def _repr_html_(self) -> str:
        return _as_typed(str(self))


class Timeline(views.Timeline, frozen=True, kw_only=True):
    """What happened, in the order of each clock; a notebook shows the text of `firstfault timeline`."""

    def rows(self) -> list[Row]:
        """A map from column to value for each entry, as in the CSV of the command line."""
        from firstfault.report.timeline import CSV_HEAD, timeline_row

        return [dict(zip(CSV_HEAD, timeline_row(entry), strict=True)) for entry in _clean(self).events]

    def to_pandas(self) -> pd.DataFrame:
        """The rows as a data frame of pandas; raises ImportError where pandas is not installed."""
        return _pandas(self.rows())

    def to_polars(self) -> pl.DataFrame:
        """The rows as a data frame of polars; raises ImportError where polars is not installed."""
        return _polars(self.rows())

    def __str__(self) -> str:
        from firstfault.pipelines.publish import publish_timeline

        return publish_timeline(self, "text", "secrets")

    def _repr_html_(self) -> str:
        return _as_typed(str(self))


class Page(paged.Page, frozen=True, kw_only=True):
    """A diagnosis with what its pictures are drawn from; a notebook shows the whole HTML report in a frame."""

    def html(self, *, share: bool = False, raw: bool = False, language: str = "en") -> str:
        """The HTML report as one document without any request to a network.

        Args:
            share: take hosts, users, paths and addresses out too.
            raw: take nothing out, not even secrets.
            language: of the sentences and fixed words, `en` or `zh`.

        Raises:
            ValueError: both are asked for.
        """
        from firstfault.pipelines.publish import publish_page

        return publish_page(self, _level(share=share, raw=raw), language=language)

    def _repr_html_(self) -> str:
        # The frame has an origin of its own: its script reaches neither the notebook nor its cookies.
        inside = html.escape(self.html(), quote=True)
        return f'<iframe sandbox="allow-scripts" srcdoc="{inside}" width="100%" height="{FRAME}" title="firstfault"></iframe>'


def diagnose(*paths: str | os.PathLike[str], options: DiagnoseOptions | None = None) -> Diagnosis:
    """Says what the first fault was in what a job left behind.

    Args:
        paths: files, folders, archives or globs; all of one job.
        options: as for the command line; the defaults where None.

    Returns:
        The diagnosis, as it was found: nothing is redacted before it is turned into text.

    Raises:
        PipelineError: nothing there could be read, the attempt asked for is not there, or an option is of no use.
        SignatureError: a site signature is wrong.
    """
    from firstfault.pipelines.diagnose import diagnose as pipeline

    found = pipeline(_given(paths), checked(options))
    return _read(Diagnosis(**_fields(found)), found, paths)


def page(*paths: str | os.PathLike[str], options: DiagnoseOptions | None = None) -> Page:
    """The diagnosis of a job with its pictures: `page(...).html()` is the report, `page(...).diagnosis` what it says.

    Args:
        paths: files, folders, archives or globs; all of one job.
        options: as for the command line; the defaults where None.

    Raises:
        PipelineError: nothing there could be read, the attempt asked for is not there, or an option is of no use.
        SignatureError: a site signature is wrong.
    """
    from firstfault.pipelines.page import page as pipeline

    found = pipeline(_given(paths), checked(options))
    shown = _fields(found) | {"diagnosis": Diagnosis(**_fields(found.diagnosis))}
    return _read(Page(**shown), found.diagnosis, paths)


def ranks(
    *paths: str | os.PathLike[str], options: DiagnoseOptions | None = None, filters: RankFilters | None = None
) -> RankTable:
    """Where every rank stood at the end of the last failing attempt.

    Args:
        paths: files, folders, archives or globs; all of one job.
        options: as for the command line; the defaults where None.
        filters: which rows are wanted; all where None.

    Raises:
        PipelineError: nothing there could be read, the attempt asked for is not there, or an option is of no use.
        SignatureError: a site signature is wrong.
    """
    from firstfault.pipelines.ranks import rank_table

    found = rank_table(_given(paths), checked(options), None if filters is None else typed(filters, "filters"))
    return _read(RankTable(**_fields(found)), found, paths)


def timeline(
    *paths: str | os.PathLike[str], options: DiagnoseOptions | None = None, filters: EventFilters | None = None
) -> Timeline:
    """What happened, in the order of each clock.

    Args:
        paths: files, folders, archives or globs; all of one job.
        options: as for the command line; the defaults where None.
        filters: which events are wanted; all but noise where None.

    Raises:
        PipelineError: nothing there could be read, the attempt asked for is not there, or an option is of no use.
        SignatureError: a site signature is wrong.
    """
    from firstfault.pipelines.timeline import timeline as pipeline

    found = pipeline(_given(paths), checked(options), None if filters is None else typed(filters, "filters"))
    return _read(Timeline(**_fields(found)), found, paths)


def _given(paths: Sequence[str | os.PathLike[str]]) -> list[str | os.PathLike[str]]:
    if not paths:
        raise PipelineError("no path was given", fix=GIVE)
    return list(paths)


def _fields(found: told.Published) -> dict[str, Any]:
    return {name: getattr(found, name) for name in found.__struct_fields__}


def _read(found: D, judged: told.Diagnosis | views.View, paths: Sequence[str | os.PathLike[str]]) -> D:
    """What was found, unless nothing was read at all."""
    from firstfault.report.phrases import exit_code, why_unread

    if exit_code(judged) != NOTHING_READ:
        return found
    raise PipelineError(
        "nothing there could be read", where=", ".join(map(str, paths)), why=why_unread(judged.coverage), fix=GIVE
    )


def _clean(found: D) -> D:
    from firstfault.redact import redact

    return redact(found, "secrets").content


def _level(*, share: bool, raw: bool) -> Level:
    if share and raw:
        raise ValueError("share takes identities and secrets out, raw leaves them in: choose one")
    return "none" if raw else "identities" if share else "secrets"


def _as_typed(text: str) -> str:
    return f"<pre>{html.escape(text)}</pre>"


def _pandas(rows: list[Row]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(rows)


def _polars(rows: list[Row]) -> pl.DataFrame:
    import polars as pl

    return pl.DataFrame(rows, infer_schema_length=None)
