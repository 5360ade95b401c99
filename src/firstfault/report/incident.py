"""A new record of an incident: Markdown with a head, from what went through the door.

Must not infer: what a person has to fill stays marked open, and what the diagnosis says of cause and fix is a guess.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from firstfault.i18n import messages, translator
from firstfault.i18n.records import sentences, word_of
from firstfault.incidents.draft import digest_of, facts_of, failed_at, lines_of
from firstfault.incidents.fingerprint import Traits, fingerprint
from firstfault.incidents.frontmatter import write_entry
from firstfault.incidents.mask import VERSION
from firstfault.incidents.ran import total_of
from firstfault.incidents.words import HEADINGS, SCHEMA, Section, State
from firstfault.report.localise import localised
from firstfault.report.markdown import code, escape, told
from firstfault.report.neutral import neutral, shorten

if TYPE_CHECKING:
    from firstfault.incidents.draft import Draft
    from firstfault.incidents.frontmatter import Value
    from firstfault.model.diagnosis import Diagnosis
    from firstfault.redact import Redacted

TITLE = 120
"""Characters of a title at most."""
_WHO = re.compile(r" on (?:ranks? \d|host-|\S+ \(rank).*$")
_WHO_ZH = re.compile(r"，在 (?:rank ?\d|host-|\S+ \(rank).*$")
_CLAUSE, _HAN = re.compile("[。；]"), re.compile("[一-鿿]")
_SENTENCE = re.compile(r"(?<=[A-Za-z0-9)])\. (?=[A-Z])|; ")


def render_record(safe: Redacted[Draft], *, record_id: str, date: str, language: str = "en", timed: bool = True) -> str:
    """The text of a new record in the state `open`.

    Args:
        safe: what went through the door with identities taken out.
        record_id: its name.
        date: day of the incident, as `2026-03-02`; empty where nobody knows it yet.
        language: of headings and sentences, `en` or `zh`.
        timed: whether it tells the time of its first line.

    Raises:
        ValueError: identities are still in it.
    """
    if safe.content.redaction != "identities":
        raise ValueError("a record takes only what went through the door with its identities taken out")
    draft = safe.content
    # The head is made of the parts as they are: a record of either language has the same fingerprint.
    title = title_of(draft.diagnosis, language)
    head = {"schema": SCHEMA, "id": record_id, "title": title, "state": str(State.OPEN), "date": date}
    values = {**head, "language": language, **_values(draft, timed=timed)}
    body = _Body(localised(safe, language).content, record_id, language)
    # Nobody has to look up which keys there are: those that a person may fill stand there empty.
    lines = [write_entry(key, value) for key, value in values.items()]
    return "---\n" + "".join(lines) + f"---\n\n# {escape(title)}\n\n" + body.text()


def title_of(diagnosis: Diagnosis, language: str = "en") -> str:
    """The first clause of the verdict."""
    summary = diagnosis.verdict.summary
    first = _SENTENCE.split(summary, maxsplit=1)[0]
    # Who it was stands in the head: a title is read in a list, beside others of the same fault.
    title = neutral(_WHO.sub("", first) or first).rstrip(". ")
    if language != "en":
        say = translator(language)
        # Some sentences are translated only as a whole.
        ways = (say(title), _WHO_ZH.sub("", _CLAUSE.split(say(neutral(summary)), maxsplit=1)[0]))
        title = next((said for said in ways if _HAN.search(said) is not None), title)
    return shorten(title, TITLE)


def _values(draft: Draft, *, timed: bool) -> dict[str, Value]:
    verdict, job = draft.diagnosis.verdict, draft.diagnosis.job
    traits = {name: neutral(getattr(draft.traits, name)) for name in Traits.__struct_fields__}
    facts = facts_of(draft)

    def fact(name: str) -> str:
        found = job.get(name)
        return "" if found is None or found.value is None else neutral(str(found.value))

    return {
        "scope": "" if verdict.classes.scope is None else str(verdict.classes.scope),
        "strength": str(verdict.strength),
        **traits,
        "mask": VERSION if traits["message"] else "",
        "fingerprint": fingerprint(draft.traits),
        **{name: tuple(neutral(item) for item in items) for name, items in facts.items()},
        "framework": fact("framework"),
        "world_size": fact("world_size"),
        "ranks_at_least": str(draft.diagnosis.ranks.at_least or ""),
        "ranks_seen": draft.diagnosis.ranks.seen_ranks,
        "last_step": fact("last_step"),
        "total_steps": str(total_of(draft.diagnosis) or ""),
        "failed_at": failed_at(draft.diagnosis) if timed else "",
        "command": neutral(draft.command),
        "revision": neutral(draft.revision),
        "image": neutral(draft.image),
        "evidence_digest": digest_of(draft) if lines_of(draft.diagnosis) else "",
        "formal_results": "",
        "fix_links": (),
        "verifications": (),
    }


class _Body:
    """The sections of one record."""

    def __init__(self, draft: Draft, record_id: str, language: str) -> None:
        self.diagnosis = draft.diagnosis
        self.sentences = sentences(language)
        self.language = language
        self.headings = HEADINGS[language]
        self.id = record_id

    def text(self) -> str:
        parts = {
            Section.SYMPTOM: self._symptom(),
            Section.DIAGNOSIS: self._diagnosis(),
            Section.ROOT_CAUSE: self._cause(),
            Section.FIX: self._fix(),
            Section.VERIFICATION: [self.sentences["open.verification"].format(id=self.id)],
            Section.SENTENCE: [self.sentences["open.sentence"]],
            Section.EVIDENCE: self._evidence(),
        }
        return "\n".join(
            f"## {self.headings[s]}\n\n" + "\n\n".join(p for p in said if p) + "\n" for s, said in parts.items()
        )

    def _symptom(self) -> list[str]:
        verdict = self.diagnosis.verdict
        form = "" if verdict.classes.form is None else str(verdict.classes.form)
        # Whether it failed at all may be what the evidence does not say.
        form = form or ("" if verdict.failed else "unknown")
        phase = str(verdict.classes.phase)
        seen = self.sentences["seen.form"].format(
            form=self.sentences[f"form.{form}"],
            phase=""
            if phase == "unknown"
            else self.sentences["phase"].format(phase=word_of("phase", phase, self.language)),
        )
        line = verdict.trigger
        first = "" if line is None else self.sentences["first"].format(line=code(shorten(line.text.strip(), 200)))
        return [seen, first, self.sentences["open.symptom"]]

    def _diagnosis(self) -> list[str]:
        verdict = self.diagnosis.verdict
        colon = messages(self.language)["mark.colon"]
        chain = [f"{n}. {escape(c.what)}{colon}{escape(c.why)}" for n, c in enumerate(self.diagnosis.chain[:5], 1)]
        rivals = [self._sure("rival", str(r.category), str(r.strength)) for r in self.diagnosis.rivals[:3]]
        settle = [f"- {told(c)}" for c in self.diagnosis.collect_next[:3]]
        return [
            self.sentences["said"].format(summary=escape(verdict.summary)),
            self._sure("sure", str(verdict.category), str(verdict.strength)),
            *(
                f"{self.sentences[head]}\n\n" + "\n".join(rows)
                for head, rows in (("chain", chain), ("rivals", rivals), ("settled", settle))
                if rows
            ),
        ]

    def _sure(self, sentence: str, category: str, strength: str) -> str:
        """A category with how sure it is."""
        return self.sentences[sentence].format(
            category=word_of("category", category, self.language),
            strength=word_of("strength", strength, self.language),
        )

    def _cause(self) -> list[str]:
        verdict = self.diagnosis.verdict
        if str(verdict.strength) == "unknown":
            return [self.sentences["open.unknown"]]
        guess = self.sentences["guess"].format(
            strength=word_of("strength", str(verdict.strength), self.language),
            summary=escape(verdict.summary),
        )
        return [guess, self.sentences["open.cause"]]

    def _fix(self) -> list[str]:
        steps = [f"{n}. {told(step)}" for n, step in enumerate(self.diagnosis.verdict.action.steps[:4], 1)]
        return [f"{self.sentences['proposed']}\n\n" + "\n".join(steps) if steps else "", self.sentences["open.fix"]]

    def _evidence(self) -> list[str]:
        lines = [f"{neutral(e.file)}:{e.line}: {neutral(e.text.rstrip())}" for e in lines_of(self.diagnosis)]
        if not lines:
            return [self.sentences["evidence.none"]]
        longest = max((len(run) for line in lines for run in re.findall("`+", line)), default=0)
        fence = "`" * max(3, longest + 1)
        return [f"{fence}text\n" + "\n".join(lines) + f"\n{fence}"]
