"""The closed classes of a verdict: domain, form, layer, phase, scope; None where the evidence does not say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firstfault.analysis.answer import Classes, Named
from firstfault.model.lazy import lazy
from firstfault.model.words import Form, Mark, Phase, Scope

if TYPE_CHECKING:
    import re

    from firstfault.analysis.case import Case
    from firstfault.analysis.hangs import Hang
    from firstfault.analysis.state.completeness import Completeness
    from firstfault.analysis.suspects import Suspect
    from firstfault.model.evidence import Event, PythonException

_PHASES: tuple[tuple[Phase, re.Pattern[str]], ...] = (
    (Phase.CHECKPOINT, lazy(r"save_checkpoint|_save_checkpoint|load_checkpoint|save_pretrained|load_state_dict|dist_checkpointing|torch_save|serialization\.py|checkpoint_io|state_dict_(?:saver|loader)")),
    (Phase.DATA, lazy(r"dataloader\.py|_utils/fetch|_utils/worker|collate|__getitem__|_data_worker|datasets?/|data\w*/\w+\.py __(?:iter|next)__|(?:dataset|manifest)\w*\.py|data_fetcher|data_iterator|get_batch")),
    (Phase.EVALUATION, lazy(r"\bevaluate\b|evaluation_loop|validation_step|eval_step|run_validation|\bval_loop")),
    (Phase.OPTIMIZER, lazy(r"optimizer\.py|optim/|optimizer_step|clip_grad|update_scale|loss_scaler")),
    (Phase.BACKWARD, lazy(r"_tensor\.py\S* backward|autograd/__init__|\bbackward\b")),
    (Phase.FORWARD, lazy(r"_call_impl|\bforward\b|training_step|compute_loss")),
    (Phase.START_UP, lazy(r"init_process_group|initialize_megatron|from_pretrained|parse_args|setup_model|__init__\b|<module>.*import|_initialize")),
)  # fmt: skip


def phase_of_exception(exception: PythonException) -> Phase | None:
    """Phase from the functions on a traceback, innermost first; None where none tells."""
    if exception.in_worker:
        return Phase.DATA
    for frame in reversed(exception.frames):
        text = f"{frame.file} {frame.function}"
        for phase, pattern in _PHASES:
            if pattern.search(text):
                return phase
    return None


def phase_of(case: Case, suspect: Suspect) -> Phase:
    """What the job was doing at a root: by the signature, the traceback, an open checkpoint, or missing progress."""
    if suspect.nature.phase is not None:
        return suspect.nature.phase
    for event in suspect.events:
        if event.exception is not None:
            phase = phase_of_exception(event.exception)
            if phase is not None:
                return phase
    if checkpoint_open(case, suspect.first):
        return Phase.CHECKPOINT
    if not case.tracks and not case.marked(Mark.PROGRESS, Mark.CHECKPOINT_END):
        return Phase.START_UP
    return Phase.UNKNOWN


def checkpoint_open(case: Case, event: Event) -> bool:
    """Whether a checkpoint had begun and not ended before an event in the same source."""
    opened = False
    for other in case.events:
        if other.span.source != event.span.source or other.span.offset >= event.span.offset:
            continue
        if case.has(other, Mark.CHECKPOINT_BEGIN):
            opened = True
        elif case.has(other, Mark.CHECKPOINT_END):
            opened = False
    return opened


def form_of(case: Case, suspect: Suspect, hang: Hang | None) -> Form:
    """How the failure showed itself."""
    if suspect.nature.form is not None:
        return suspect.nature.form
    track = case.tracks
    started = any(
        t.before(suspect.first.span.offset) is not None for s, t in track.items() if s == suspect.first.span.source
    )
    if started or (track and hang is not None) or case.marked(Mark.CHECKPOINT_END):
        return Form.INTERRUPTED
    return Form.INTERRUPTED if any(s != suspect.first.span.source for s in track) else Form.FAILED_START


def scope_of(suspect: Suspect, named: Named, complete: Completeness) -> Scope | None:
    """How much of the job the fault is in."""
    if suspect.nature.scope is not None:
        return suspect.nature.scope
    if named.storage_nodes:
        return Scope.EXTERNAL
    count = len(suspect.everyone)
    known = complete.expected or max(complete.at_least, len(complete.seen))
    if named.hosts and not named.ranks:
        return Scope.NODE
    if len(named.ranks) == 1 or (count == 1 and suspect.unplaced == 0 and known != 1):
        return Scope.RANK
    if known and count >= known:
        # Of one rank that is seen alone, where nobody says how many there are, it is not known whether it is all.
        return Scope.ALL if count > 1 or complete.expected is not None else None
    if len(suspect.hosts) == 1 and count > 1 and len(complete.hosts) > 1:
        return Scope.NODE
    return Scope.GROUP if count > 1 else None


def classes(case: Case, suspect: Suspect, named: Named, complete: Completeness, hang: Hang | None) -> Classes:
    """All classes of a root."""
    return Classes(
        domain=suspect.nature.domain,
        form=form_of(case, suspect, hang),
        layer=suspect.nature.layer,
        phase=phase_of(case, suspect),
        scope=scope_of(suspect, named, complete),
    )
