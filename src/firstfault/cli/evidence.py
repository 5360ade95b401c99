"""The options that all commands share that read the evidence of one incident, and how they deliver their report.

Must not hold a command.
"""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from firstfault.cli.values import (
    AttemptValue,
    EngineValue,
    ExitCodeValue,
    LanguageValue,
    OneAttemptValue,
    RanksValue,
    SecondsValue,
    ZoneValue,
)
from firstfault.pipelines.errors import PipelineError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from firstfault.model.diagnosis import CoverageRow
    from firstfault.pipelines.options import DiagnoseOptions
    from firstfault.redact import Level

F = TypeVar("F", bound="Callable[..., Any]")

EXIT_CODES = """\b
Exit codes: 0 no failure found, 1 a failure, 2 wrong use or nothing
readable, 3 not decidable from what was given."""

output_option = click.option(
    "--output",
    "-o",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Write the report to FILE instead of stdout.",
)
"""Where a report goes; commands that read no evidence take it too."""
share_option = click.option(
    "--share",
    is_flag=True,
    help="For strangers' eyes: hosts, users, paths, addresses, buckets and e-mails become pseudonyms.",
)
raw_option = click.option("--raw", is_flag=True, help="Leave secrets in the quoted lines. Never share such a report.")

lang_option = click.option(
    "--lang",
    type=LanguageValue(),
    metavar="en|zh",
    default="en",
    show_default=True,
    help="Language of the report; words of the JSON contract, quoted lines and commands stay as they are.",
)
told_lang_option = click.option(
    "--lang",
    type=LanguageValue(),
    metavar="en|zh",
    default="en",
    show_default=True,
    expose_value=False,
    help="Language of what is told; names, quoted text, commands and JSON stay as they are.",
)
"""Of commands that print sentences themselves: `firstfault.cli.messages.said` heeds it wherever it stands."""
_OPTIONS = (
    output_option,
    click.option(
        "--storage",
        "storage",
        multiple=True,
        type=click.Path(exists=True),
        metavar="DIR",
        help="Logs of the storage daemons, where they do not lie inside a PATH; may be given more than once.",
    ),
    click.option(
        "--job-state", metavar="STATE", help="How the scheduler says the job ended, such as TIMEOUT or COMPLETED."
    ),
    click.option(
        "--exit-code",
        type=ExitCodeValue(),
        metavar="N",
        help="The job's exit code as the scheduler gives it: `1`, `-9`, or `0:9` (status:signal).",
    ),
    click.option(
        "--assume-zone",
        type=ZoneValue(),
        metavar="ZONE",
        help="Time zone of stamps that state none: `+08:00`, `UTC` or `Europe/Berlin`.",
    ),
    click.option(
        "--signatures",
        "signatures",
        multiple=True,
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        metavar="DIR",
        help="A folder of your own signatures; may be given more than once.",
    ),
    click.option(
        "--engine",
        type=EngineValue(),
        metavar="auto|inline|processes|dask[:ADDRESS]",
        default="auto",
        show_default=True,
        help="Where to scan and read: `inline`, `processes`, `auto`, or the workers of a Dask cluster; the answer is the same.",
    ),
    click.option(
        "--deadline",
        type=SecondsValue(),
        metavar="SECONDS",
        help="Give the best answer that can be had in so many seconds; what was not read by then is said.",
    ),
    share_option,
    raw_option,
    click.option(
        "--exit-zero", is_flag=True, help="Exit with 0 where a failure was found or nothing could be decided."
    ),
    lang_option,
)
ASKED = ("attempt", "storage", "job_state", "exit_code", "assume_zone", "signatures", "engine", "incidents", "deadline")
"""Options that go to the pipeline."""


def evidence_options(command: F) -> F:
    """Adds the options that every reader of evidence takes, behind those of the command itself, and spares the evidence."""

    @functools.wraps(command)
    def sparing(*values: Any, **asked: Any) -> Any:
        spare_evidence(asked["output"], asked["paths"])
        return command(*values, **asked)

    for option in reversed(_OPTIONS):
        sparing = option(sparing)
    return cast("F", sparing)


def attempt_option(command: F) -> F:
    """Adds the choice of one attempt, for views that show one."""
    return click.option(
        "--attempt",
        type=OneAttemptValue(),
        metavar="N|last",
        default="last",
        show_default=True,
        help="Which start of the job: a number from 1, or `last` (the last failing one).",
    )(command)


def attempts_option(more: str = "") -> Callable[[F], F]:
    """Adds the choice of one attempt or all, for reports that can hold several.

    more: what `all` adds to the report, where that is not plain.
    """
    return click.option(
        "--attempt",
        type=AttemptValue(),
        metavar="N|last|all",
        default="last",
        show_default=True,
        help=f"Which start of the job: a number from 1, `last` (the last failing one), or `all`{more}.",
    )


def format_option(*forms: str, more: str = "") -> Callable[[F], F]:
    """Adds the choice of a form; the first is the default.

    more: what is to be known of one of them.
    """
    return click.option(
        "--format",
        "form",
        type=click.Choice(list(forms)),
        default=forms[0],
        show_default=True,
        help=f"How to say it{more}.",
    )


def ranks_option(of: str) -> Callable[[F], F]:
    """Adds a filter by global ranks; of: how the sentence goes on behind "Only"."""
    return click.option(
        "--rank",
        "wanted",
        type=RanksValue(),
        multiple=True,
        metavar="LIST",
        help=f"Only {of} global ranks: `3` or `0-7,12`.",
    )


def hosts_option(of: str) -> Callable[[F], F]:
    """Adds a filter by hosts; of: how the sentence goes on behind "Only"."""
    return click.option(
        "--host", "hosts", multiple=True, metavar="NAME", help=f"Only {of} this host; `*` and `?` are wildcards."
    )


def paths_argument(command: F) -> F:
    """Adds the PATHs."""
    return click.argument("paths", nargs=-1, metavar="PATH...", callback=_some_path, shell_complete=_files)(command)


def _files(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
    """What a shell offers for a PATH."""
    del ctx, param
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


def _some_path(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    del param
    if not value and not ctx.resilient_parsing:
        raise PipelineError(
            "no PATH was given",
            where=ctx.command_path,
            why="nothing is read from standard input or the working directory unless it is named",
            fix=f"Give the job's log files, their folder, or an archive of it: `{ctx.command_path} LOGS`; `-` reads standard input.",
        )
    return value


def shared_options() -> frozenset[str]:
    """Long names, without dashes, of the options that several commands share: these may stand in settings for all of them."""
    return frozenset({"format", "attempt", "incidents"}) | {
        opt.removeprefix("--") for option in _OPTIONS for opt in _names(option) if opt.startswith("--")
    } - {"output"}


def _names(option: Callable[[Any], Any]) -> list[str]:
    def bare() -> None: ...

    option(bare)
    found: list[str] = [opt for p in vars(bare)["__click_params__"] for opt in p.opts]
    return found


def options_of(asked: dict[str, Any]) -> DiagnoseOptions:
    """The pipeline's options out of those of a command."""
    from firstfault.pipelines.options import DiagnoseOptions

    state = asked.get("job_state")
    chosen = {name: asked[name] for name in ASKED if name in asked}
    chosen["job_state"] = None if state is None else _known(state)
    return DiagnoseOptions(progress=sys.stderr.isatty(), **chosen)


def _known(state: str) -> str | None:
    """A scheduler's word in capitals.

    Raises:
        click.UsageError: no scheduler has it.
    """
    from firstfault.analysis.job_state import COMPLETED_STATES, FAILED_STATES, OPEN_STATES, known_state

    word = state.strip().upper()
    if word and known_state(word) is None:
        names = sorted(s for s in COMPLETED_STATES | FAILED_STATES | OPEN_STATES if len(s) > 3)
        raise click.UsageError(
            f"--job-state {state!r} is no state of a scheduler. Known are: {', '.join(names)}, and Slurm's short forms. "
            "Leave the option out where the state is not known."
        )
    return word or None


def level_of(*, share: bool, raw: bool) -> Level:
    """What is taken out of the report.

    Raises:
        click.UsageError: both extremes are asked for.
    """
    if share and raw:
        raise click.UsageError("--share takes identities and secrets out, --raw leaves them in: choose one.")
    return "none" if raw else "identities" if share else "secrets"


def page(output: str | None) -> dict[str, Any]:
    """Columns, rows and colour of where the report goes."""
    from firstfault.cli.terminal import colored, columns, rows

    if output is not None:
        return {"width": 100, "height": None, "color": False}
    return {"width": columns(), "height": rows(), "color": colored()}


def spare_evidence(output: str | None, paths: Iterable[str]) -> None:
    """Refuses to write a report over a file of the job; over an older report it may be written.

    Raises:
        click.UsageError: `output` is an existing file behind one of the PATHs and no report of ours.
    """
    if output is None or not Path(output).is_file():
        return
    target = Path(output).resolve()
    given = [Path(path).resolve() for path in paths]
    if not any(path == target or path in target.parents for path in given):
        return
    from firstfault.readers.sniff import HEAD, is_own_report

    with target.open("rb") as file:
        head = file.read(HEAD)
        file.seek(max(0, target.stat().st_size - HEAD))
        tail = file.read()
    if not is_own_report(head, tail):
        raise click.UsageError(
            f"--output {output} is one of the files to read, and writing there would destroy it. "
            "Choose a name that does not exist yet."
        )


def deliver(text: str, output: str | None) -> None:
    """Writes a report to stdout or to a file, as UTF-8."""
    if output is None:
        write(text)
        return
    Path(output).write_text(text, encoding="utf-8")
    from firstfault.cli.messages import tell

    tell(f"report written to {output}")


def write(text: str) -> None:
    """Writes text to stdout as UTF-8, whatever the locale says, so that the bytes are the same everywhere."""
    buffer = getattr(sys.stdout, "buffer", None)
    if buffer is None:
        sys.stdout.write(text)
        return
    sys.stdout.flush()
    buffer.write(text.encode("utf-8"))
    buffer.flush()


def say_what_is_hidden(
    left: int, hidden: int, what: str, asked: dict[str, Any], *, paths: Sequence[str], form: str
) -> None:
    """Says on stderr that filters left nothing, and where to see what is there; of a table for programs, how much they hide.

    Args:
        left: rows of the report that is shown.
        hidden: rows that the filters left out.
        what: the rows are of.
        asked: options of the command.
        paths: its inputs.
        form: of the report; text and JSON say it themselves.
    """
    from firstfault.cli.messages import tell

    given = [f"--{name}" for name, key in _FILTERS if asked.get(key)]
    if left and hidden and form == "csv":
        tell(f"{hidden} {what} are left out by {', '.join(given)}")
    if left == 0 and given:
        there = " ".join(paths)
        of_time = not {"--since", "--until", "--role"}.isdisjoint(given)
        tell(
            f"nothing in this input matches {', '.join(given)}",
            fix=f"`firstfault timeline {there}` shows the times and roles that are there; each clock has its own times."
            if of_time
            else f"`firstfault ranks {there}` shows the ranks and hosts that are there; a host may be written otherwise: try `*NAME*`.",
        )


_FILTERS = (
    ("rank", "wanted"),
    ("host", "hosts"),
    ("group", "groups"),
    ("part", "parts"),
    ("outliers", "outliers"),
    ("role", "roles"),
    ("since", "since"),
    ("until", "until"),
)
"""Options by which a view leaves rows out, with the names under which they come."""


def nothing_readable(
    coverage: Iterable[CoverageRow], paths: Sequence[str], *, wanted: str = "", fix: str = ""
) -> PipelineError:
    """The error that tells why no input could be read.

    Args:
        coverage: what became of every input.
        paths: as they were given.
        wanted: what the command needs; where an input was read that holds none of it, that is said.
        fix: what to give for it then.
    """
    from difflib import get_close_matches

    from firstfault.cli.main import COMMANDS
    from firstfault.model.evidence import EMPTY
    from firstfault.model.words import CoverageState
    from firstfault.report.phrases import why_unread

    rows = list(coverage)
    unread = all(row.state is CoverageState.MISSING or row.reason == EMPTY for row in rows)
    if wanted and not unread:
        told = [row for row in rows if row.reason]
        return PipelineError(
            f"no {wanted} there could be used",
            where=", ".join(paths),
            why=why_unread(told) if told else "what is there was read, as something else",
            fix=fix,
        )
    near = get_close_matches(paths[0], list(COMMANDS), n=1, cutoff=0.6)
    return PipelineError(
        "nothing there could be read",
        where=", ".join(paths),
        why=why_unread(rows),
        fix=f"Did you mean the command `{near[0]}`?"
        if near
        else "Give the job's log files, their folder, or an archive of it.",
    )
