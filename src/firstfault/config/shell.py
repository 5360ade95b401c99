"""What a shell script or a command line starts, as far as its text tells: assignments followed, nothing run.

A variable that the script does not set, or sets only under a condition, stays unknown, and so does what a command prints.
"""

from __future__ import annotations

import ast
import re
from itertools import pairwise
from typing import TYPE_CHECKING

from msgspec import Struct, field

from firstfault.config.nouns import Problem, Word
from firstfault.config.shell_words import Cutter, Raw

if TYPE_CHECKING:
    from collections.abc import Iterable

_NAME = re.compile(r"[A-Za-z_]\w*")
_ASSIGNED = re.compile(r"([A-Za-z_]\w*)(\+?)=")
_BRACED = re.compile(r"([A-Za-z_]\w*)(\[[@*]\])?(?:(:?[-=])(.*))?", re.DOTALL)
_OUTSIDE = re.compile(
    r"SLURM_\w*|OMPI_\w*|PMI_\w*|PET_\w*|(?:GLOBAL_|LOCAL_|NODE_|GROUP_)?RANK|WORLD_SIZE|N?NODES|NUM_NODES|NNODES|MASTER_(?:ADDR|PORT)"
    r"|(?:NUM_)?GPUS?(?:_PER_NODE)?|NGPUS?|NPROC\w*|MLP_\w*|KUBERNETES_\w*|HOSTNAME"
)
"""Variables that whoever starts the script usually sets, so that its own default says little."""
_OPENS = {"if": "fi", "for": "done", "while": "done", "until": "done", "case": "esac", "{": "}", "select": "done"}
_CLOSES = frozenset(_OPENS.values())
_PASSED = frozenset({"then", "else", "elif", "do", "!", "time", "function"})
_SETS = frozenset({"export", "readonly", "local", "declare", "typeset"})
MOST_RUNS = 20_000
"""Pieces of one value; a variable that is doubled again and again could make a small script endless."""


class Run(Struct, frozen=True):
    """A stretch of text of one line."""

    text: str
    line: int
    split: bool = False
    """Whether blanks in it part words."""


Value = list[Run]


class Command(Struct):
    """One command that the script would run."""

    words: list[Word]
    line: int
    sure: bool
    """Whether it runs in any case."""
    environment: dict[str, Word] = field(default_factory=dict)
    """Variables that are set for it alone."""


class Embedded(Struct):
    """A file that the script writes from its own text."""

    name: str
    text: str
    line: int
    """Line of its first line in the script."""


class Script(Struct):
    """A script, read."""

    commands: list[Command] = field(default_factory=list)
    environment: dict[str, Word] = field(default_factory=dict)
    """Variables and their last values, where those are known."""
    embedded: list[Embedded] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


class _Reader:
    def __init__(self, known: dict[str, str]) -> None:
        self.values: dict[str, Value | None] = {name: [Run(text, 0)] for name, text in known.items()}
        self.arrays: dict[str, list[Value]] = {}
        self.script = Script()
        self.open: list[str] = []
        self.conditional = False
        self.pattern = False
        """Whether what comes next are the words for which a branch of `case` is taken."""

    # --- commands

    def read(self, text: str) -> Script:
        current: list[Raw] = []
        target: Raw | None = None
        redirect = False
        for raw in Cutter(text).pieces():
            if raw.text == "esac":
                self.pattern = False
            if self.pattern and raw.kind != "here":
                self.pattern = raw.text != ")"
            elif raw.kind == "here":
                self._embed(raw, target)
                target = None
            elif (raw.kind == "operator" and raw.text.lstrip("0123456789")[:1] in {">", "<"}) or raw.text == "&>":
                redirect = not re.search(r"&\d$", raw.text)
            elif raw.kind == "operator":
                self._end(current, raw)
                current, redirect = (
                    [],
                    False,
                )  # `PATH=<path>` of a template: no target follows, and the next line is a command
                target = target if raw.text == "\n" else None
            elif redirect:
                target, redirect = raw, False
            else:
                current.append(raw)
        self._end(current, Raw("operator", "\n", 0))
        for name, value in self.values.items():
            if value is not None:
                words = self._words(value)
                joined = Word(" ".join(w.text for w in words), words[0].line if words else 0)
                if joined.known:
                    self.script.environment[name] = joined
        return self.script

    def _end(self, raws: list[Raw], operator: Raw) -> None:
        if operator.text == "(" and len(raws) == 1 and raws[0].kind == "word" and _NAME.fullmatch(raws[0].text):
            return  # the name of a function: `)` and `{` follow
        if operator.text == "(" and not raws:
            self.open.append(")")
        while (
            raws
            and raws[0].kind == "word"
            and (raws[0].text in _OPENS or raws[0].text in _PASSED or raws[0].text in _CLOSES)
        ):
            word = raws[0].text
            if word in _OPENS:
                self.open.append(_OPENS[word])
                if word in {"for", "select"} and len(raws) > 1:
                    self.values[raws[1].text] = None
                    raws = []
                    break
                if word == "case":
                    self.pattern = operator.text != ")"
                    raws = []
                    break
            elif word in _CLOSES and word in self.open:
                self.pattern = False
                while self.open.pop() != word:
                    pass
            raws = raws[1:]
        if raws:
            self._command(raws)
        self.pattern = self.pattern or (operator.text == ";;" and bool(self.open) and self.open[-1] == "esac")
        if operator.text == ")" and self.open and self.open[-1] == ")":
            self.open.pop()
        self.conditional = operator.text in {"&&", "||"} or (self.conditional and operator.text == "|")

    def _command(self, raws: list[Raw]) -> None:
        sure = not self.open and not self.conditional
        setting = raws[0].kind == "word" and raws[0].text in _SETS
        rest = raws[1:] if setting else raws
        before: dict[str, Word] = {}
        for count, raw in enumerate(rest):
            match = _ASSIGNED.match(raw.text) if raw.kind == "word" else None
            if raw.kind == "array":
                self._set_array(raw, sure=sure)
            elif match is not None:
                value = self.expand(raw.text[match.end() :], raw.line)
                words = self._words(value)
                before[match[1]] = Word(" ".join(w.text for w in words), raw.line)
                if setting or all(r.kind == "array" or _ASSIGNED.match(r.text) for r in rest):
                    self._set(match[1], value, more=bool(match[2]), sure=sure)
            elif not setting:
                self._run(rest[count:], before, sure=sure)
                return

    def _run(self, raws: list[Raw], before: dict[str, Word], *, sure: bool) -> None:
        if raws[0].text == "read":
            self.values.update({raw.text: None for raw in raws[1:]})
        words = [word for raw in raws if raw.kind == "word" for word in self._words(self.expand(raw.text, raw.line))]
        if not words:
            return
        if words[0].text.startswith("--"):
            what = f"{words[0].text} begins a command of its own: what stands above it has ended"
            why = "a comment between the lines, or a line without a backslash at its end, ends the command; the shell then looks for a program of that name"
            self.script.problems.append(Problem(check="script.cut_command", state="fail", line=words[0].line, what=what, why=why, message=f"{words[0].text}: command not found", fix="Move the comment out, or end the line above with a backslash."))  # fmt: skip
        self.script.commands.append(Command(words, raws[0].line, sure, before))

    def _embed(self, raw: Raw, target: Raw | None) -> None:
        name = "" if target is None else " ".join(w.text for w in self._words(self.expand(target.text, target.line)))
        text = raw.text if raw.more else "".join(run.text for run in self._quoted(raw.text, raw.line))
        self.script.embedded.append(Embedded(name, text, raw.line))

    # --- values

    def _set(self, name: str, value: Value, *, more: bool, sure: bool) -> None:
        old = self.values.get(name)
        new = (old or []) + value if more else value
        if not sure and _text(old) != _text(new):
            self.values[name] = None if not more else (old or []) + [Run(" ", 0), Run(f"${name}", 0)]
            return
        self.values[name] = new[:MOST_RUNS]
        self.arrays.pop(name, None)

    def _set_array(self, raw: Raw, *, sure: bool) -> None:
        items = [self.expand(item.text, item.line) for item in raw.items]
        old = self.arrays.get(raw.text, [])
        if not sure:
            # Whether these words are there depends on what the script finds.
            unknown = [Run(f"${raw.text}", raw.line)]
            self.arrays[raw.text] = [*(old if raw.more else []), unknown] if items or not raw.more else old
            return
        self.arrays[raw.text] = ((old if raw.more else []) + items)[:MOST_RUNS]
        self.values.pop(raw.text, None)

    def expand(self, raw: str, line: int) -> Value:
        """The value of a raw word."""
        runs: Value = []
        at = 0
        while at < len(raw) and len(runs) < MOST_RUNS:
            here = raw[at]
            if here == "\\":
                if raw[at + 1 : at + 2] == "\n":
                    line += 1
                else:
                    runs.append(Run(raw[at + 1 : at + 2], line))
                at += 2
            elif here == "'":
                end = raw.find("'", at + 1)
                end = len(raw) if end < 0 else end
                runs += _lines(raw[at + 1 : end], line) or [Run("", line)]
                line += raw.count("\n", at, end)
                at = end + 1
            elif here == '"':
                cutter = Cutter(raw, at)
                cutter.quoted()
                inner = raw[at + 1 : cutter.at - 1]
                runs += [*self._quoted(inner, line), Run("", line)]
                line += inner.count("\n")
                at = cutter.at
            elif here in "$`":
                value, end = self._dollar(raw, at, line)
                # What is not known stays one word, whatever blanks its expression has.
                runs += [Run(run.text, run.line or line, split=run.text[:1] not in {"$", "`"}) for run in value]
                line += raw.count("\n", at, end)
                at = end
            else:
                end = at
                while end < len(raw) and raw[end] not in "\\'\"$`":
                    end += 1
                runs += _lines(raw[at:end], line)
                line += raw.count("\n", at, end)
                at = end
        return runs

    def _quoted(self, raw: str, line: int) -> Value:
        """The value of text in double quotes, or of a here-document."""
        runs: Value = []
        at = 0
        while at < len(raw) and len(runs) < MOST_RUNS:
            here = raw[at]
            if here == "\\" and raw[at + 1 : at + 2] in {"$", "`", '"', "\\", "\n"}:
                if raw[at + 1] == "\n":
                    line += 1
                else:
                    runs.append(Run(raw[at + 1], line))
                at += 2
            elif here in "$`":
                value, end = self._dollar(raw, at, line)
                # Words of `"${ARRAY[@]}"` stay words.
                keep = "[@]}" in raw[at:end]
                runs += [Run(run.text, run.line or line, split=keep and run.split) for run in value]
                line += raw.count("\n", at, end)
                at = end
            else:
                end = at + 1
                while end < len(raw) and raw[end] not in "\\$`":
                    end += 1
                runs += _lines(raw[at:end], line)
                line += raw.count("\n", at, end)
                at = end
        return runs

    def _dollar(self, raw: str, at: int, line: int) -> tuple[Value, int]:
        """The value of what begins with `$` or a backquote, and where it ends."""
        if raw[at] == "`":
            end = raw.find("`", at + 1)
            end = len(raw) if end < 0 else end + 1
            return [Run(raw[at:end].replace("\n", " "), line)], end
        if raw.startswith("$((", at):
            end = raw.find("))", at)
            end = len(raw) if end < 0 else end + 2
            return [Run(self._sum(raw[at + 3 : end - 2], raw[at:end]), line)], end
        if raw.startswith(("$(", "${"), at):
            cutter = Cutter(raw, at)
            cutter.step()
            whole = raw[at : cutter.at]
            value = self._braced(whole, line) if whole.startswith("${") else [Run(whole.replace("\n", " "), line)]
            return value, cutter.at
        name = _NAME.match(raw, at + 1)
        if name is None:
            return [Run(raw[at : at + 2], line)], at + 2
        return self._value(name.group(), line), name.end()

    def _braced(self, whole: str, line: int) -> Value:
        match = _BRACED.fullmatch(whole[2:-1])
        if match is None:
            return [Run(whole, line)]
        name, every, operator, default = match.groups()
        if name in self.arrays and every:
            joined: Value = []
            for item in self.arrays[name]:
                joined += [*([Run(" ", line, split=True)] if joined else []), *item]
            return joined
        if operator and name not in self.values and name not in self.arrays:
            return [Run(whole, line)] if _OUTSIDE.fullmatch(name) else self.expand(default or "", line)
        return self._value(name, line)

    def _value(self, name: str, line: int) -> Value:
        if name in self.arrays:
            return list(self.arrays[name][0]) if self.arrays[name] else []
        value = self.values.get(name)
        return [Run(f"${name}", line)] if value is None else list(value)

    def _sum(self, inside: str, whole: str) -> str:
        named = _NAME.sub(lambda m: _text(self.values.get(m.group())) or m.group(), inside.replace("${", "").replace("}", "").replace("$", ""))  # fmt: skip
        number = _calculate(named)
        return whole if number is None else str(number)

    @staticmethod
    def _words(value: Value) -> list[Word]:
        words: list[Word] = []
        text: str | None = None
        line = 0
        for run in value:
            pieces = re.split(r"(\s+)", run.text) if run.split else [run.text]
            for piece in pieces:
                if run.split and (not piece or piece.isspace()):
                    if piece and text is not None:
                        words.append(Word(text, line))
                        text = None
                    continue
                line = line if text else run.line
                text = (text or "") + piece
        if text is not None:
            words.append(Word(text, line))
        return words


def _text(value: Value | None) -> str | None:
    return None if value is None else "".join(run.text for run in value)


def _lines(text: str, line: int) -> Value:
    runs = []
    for count, piece in enumerate(text.split("\n")):
        if count:
            runs.append(Run("\n", line + count - 1))
        if piece:
            runs.append(Run(piece, line + count))
    return runs


def _calculate(text: str) -> int | None:
    """The value of a sum of whole numbers; None where it holds anything else."""
    if len(text) > 200:
        return None
    try:
        return _number(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError):
        return None


def _number(node: ast.expr) -> int:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_number(node.operand)
    if isinstance(node, ast.BinOp):
        left, right = _number(node.left), _number(node.right)
        if abs(left) > 1 << 60 or abs(right) > 1 << 60:
            raise ValueError("too large")
        match node.op:
            case ast.Add():
                return left + right
            case ast.Sub():
                return left - right
            case ast.Mult():
                return left * right
            case ast.Div() | ast.FloorDiv():
                return left // right
            case ast.Mod():
                return left % right
            case _:
                raise ValueError("no sum")
    raise ValueError("no sum")


def read_script(text: str, known: dict[str, str]) -> Script:
    """The commands of a script with what their words are, as far as the script tells.

    Args:
        text: of the script, or one command line.
        known: variables that the scheduler sets, by what its directives ask for.
    """
    script = _Reader(known).read(text)
    script.problems += _blanks_behind_backslashes(text.split("\n"))
    return script


def _blanks_behind_backslashes(lines: list[str]) -> Iterable[Problem]:
    for number, (line, after) in enumerate(pairwise(lines), 1):
        bare = line.rstrip(" \t")
        if (
            bare.endswith("\\")
            and bare != line
            and not bare.lstrip().startswith("#")
            and after.lstrip().startswith("-")
        ):
            what = "has blanks behind its last backslash"
            why = "the backslash then quotes the blank and not the end of the line: the command ends here, and the options below are lost"
            yield Problem(check="script.blank_after_backslash", state="fail", line=number, what=what, why=why, message=f"{after.split()[0]}: command not found", fix="Delete the blanks at the end of the line.")  # fmt: skip
