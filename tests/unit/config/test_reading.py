"""Readers of JSON, YAML, TOML and shell: values with their lines, and what is no value."""

import sys

import pytest

from firstfault.config.json_text import UnreadableError, read_json
from firstfault.config.kinds import read_document
from firstfault.config.launch import read_job
from firstfault.config.nouns import as_number, as_truth, as_whole
from firstfault.config.shell import read_script
from firstfault.config.toml_text import read_toml
from firstfault.config.yaml_text import read_yaml


def test_json_has_the_line_of_each_key():
    node, problems = read_json('{\n "a": 1,\n "b": {\n  "c": [1,\n 2.5e3]}, "d": "x\\ny",\n "e": null}')
    assert problems == []
    assert (node.line_of("a"), node.line_of("b.c"), node.line_of("d"), node.line_of("e")) == (2, 4, 5, 6)
    assert node.number("a") == 1
    assert [item.value for item in node.at("b.c").items] == [1, 2500.0]
    assert node.text("d") == "x\ny"
    assert node.text("e") is None


@pytest.mark.parametrize(
    ("text", "line", "word"),
    [
        ('{"a": 1\n "b": 2}', 2, "comma"),
        ('{"a": True}', 1, "Python"),
        ("{'a': 1}", 1, "single quotes"),
        ('{"a": 1}\n{"b": 2}', 2, "goes on"),
        ('{"a": \n', 2, "ends in the middle"),
        ('{"a": [1, 2', 1, "comma"),
        ('{"a" 1}', 1, "colon"),
        ('{"a": MICRO_BATCH}', 1, "fill in"),
        ("[" * 100, 1, "deeply"),
        ('{"a": "x\n', 1, "does not end"),
    ],
)
def test_json_that_cannot_be_read_names_its_line(text, line, word):
    with pytest.raises(UnreadableError) as caught:
        read_json(text)
    assert caught.value.line == line
    assert word in caught.value.what


def test_what_only_forgiving_readers_take_is_noted():
    node, problems = read_json('{// a\n "a": 1, # b\n "b": [1,],\n /* c\n c */ "a": 2,\n}')
    assert node.number("a") == 2
    assert sorted((p.check, p.line) for p in problems) == [
        ("file.form", 1),
        ("file.form", 2),
        ("file.form", 3),
        ("file.form", 4),
        ("file.form", 6),
        ("file.twice", 5),
    ]


def test_yaml_keeps_interpolations_as_text_and_knows_lines():
    node, problems = read_yaml(
        "a:\n  b: ${model.size}\n  c: 1e-4\nd: [1, 2]\nd: 3\ne: no\nf: 'no'\ng: 1_000\nh: 0x10\n"
    )
    assert node.text("a.b") == "${model.size}"
    assert node.number("a.b") is None
    assert node.number("a.c") == 1e-4
    assert node.line_of("a.c") == 3
    assert node.at("e").value is False
    assert node.at("f").value == "no"
    assert node.number("g") == 1000
    assert node.number("h") is None
    assert [(p.check, p.line) for p in problems] == [("file.twice", 5)]


def test_yaml_merges_what_an_anchor_names():
    node, _ = read_yaml("base: &b\n  x: 1\n  y: 2\nrun:\n  <<: *b\n  y: 3\n")
    assert node.number("run.x") == 1
    assert node.number("run.y") == 3


@pytest.mark.parametrize("text", ["a: [1, 2\nb: 3", "a:\n\tb: 1", "a: b: c", "%YAML 9\n- - :\n", '"'])
def test_yaml_that_cannot_be_read_names_a_line(text):
    with pytest.raises(UnreadableError) as caught:
        read_yaml(text)
    assert caught.value.line >= 1


def test_aliases_of_aliases_do_not_run_away():
    text = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n"
    text += "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 9))
    with pytest.raises(UnreadableError):
        read_yaml(text)


def test_yaml_without_its_reader_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(UnreadableError, match="PyYAML"):
        read_yaml("a: 1")


def test_toml_has_the_line_of_each_key():
    node, _ = read_toml('top = 1\n\n[a]\nb = 2 # x\n"c d" = "y"\n[a.e]\nf = [1,\n 2]\n')
    assert node.line_of("top") == 1
    assert node.line_of("a.b") == 4
    assert node.line_of("a.e.f") == 7
    assert node.number("a.b") == 2
    with pytest.raises(UnreadableError) as caught:
        read_toml("a = 1\nb = \n")
    assert caught.value.line == 2


def _words(text, **known):
    return [[w.text for w in c.words] for c in read_script(text, known).commands]


def test_assignments_are_followed_in_their_order():
    assert _words("A=1\nB=$A\nA=2\nrun $A ${B} \"$A$B\" '$A'") == [["run", "2", "1", "21", "$A"]]
    assert _words("A=8\nB=2\nrun $((A * B + 1)) $(($A/$B)) $((A * UNKNOWN))") == [
        ["run", "17", "4", "$((A * UNKNOWN))"]
    ]


def test_a_value_splits_only_where_it_is_not_quoted():
    text = 'A="--x 1 \\\n  --y 2"\nrun $A\nrun "$A"\nL=(--a "b c")\nrun ${L[@]}\nrun "${L[@]}"'
    assert _words(text) == [
        ["run", "--x", "1", "--y", "2"],
        ["run", "--x 1   --y 2"],
        ["run", "--a", "b", "c"],
        ["run", "--a", "b c"],
    ]


def test_words_keep_the_line_on_which_they_are_written():
    script = read_script('ARGS="\n--lr 1\n--steps 5"\nrun \\\n  --a 2 \\\n  $ARGS\n', {})
    assert [(w.text, w.line) for w in script.commands[0].words] == [
        ("run", 4),
        ("--a", 5),
        ("2", 5),
        ("--lr", 2),
        ("1", 2),
        ("--steps", 3),
        ("5", 3),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "if [ -n x ]; then A=1; else A=2; fi\nrun $A",
        "[ -z x ] && A=1\nrun $A",
        "for A in 1 2; do :; done\nrun $A",
        "read A\nrun $A",
        "case x in\n x) A=1;;\n --y|-y) A=2;;\nesac\nrun $A",
        "set_it() {\n A=1\n}\nrun $A",
        "(A=1)\nrun $A",
        "A=$(nproc)\nrun $A",
        "A=`nproc`\nrun $A",
        "A=${1:-4}\nrun $A",
        "A=${SLURM_NNODES:-1}\nrun $A",
    ],
)
def test_what_depends_on_the_run_stays_unknown(text):
    last = read_script(text, {}).commands[-1].words[-1]
    assert not last.known


def test_defaults_of_the_scripts_own_variables_count():
    assert _words("run ${TP:-2} ${PP-1} ${DTYPE:=bf16}") == [["run", "2", "1", "bf16"]]


def test_comments_and_redirections_are_no_words():
    assert _words("run --a 1 # --b 2\nrun --url x#y 2>&1 | tee log > out; next &") == [
        ["run", "--a", "1"],
        ["run", "--url", "x#y"],
        ["tee", "log"],
        ["next"],
    ]


def test_a_file_that_the_script_writes_is_read():
    script = read_script('N=4\ncat <<EOT > ds_$N.json\n{"a": $N,\n "b": $X}\nEOT\ncat <<\'E\' > y\n$N\nE\n', {})
    assert [(e.name, e.text, e.line) for e in script.embedded] == [
        ("ds_4.json", '{"a": 4,\n "b": $X}\n', 3),
        ("y", "$N\n", 7),
    ]


def test_a_template_s_place_takes_no_command_of_the_next_line():
    script = read_script("D=<a path>\n\ntorchrun --nproc-per-node 2 t.py\n", {})
    assert script.problems == []
    assert [[w.text for w in c.words] for c in script.commands][-1][0] == "torchrun"


def test_a_cut_command_and_blanks_behind_a_backslash_are_named():
    cut = read_script("python t.py --a 1 \\\n  # --b 2 \\\n  --c 3\n", {})
    assert [(p.check, p.line) for p in cut.problems] == [("script.cut_command", 3)]
    blank = read_script("python t.py --a 1 \\ \n  --c 3\n", {})
    assert [(p.check, p.line) for p in blank.problems][-1] == ("script.blank_after_backslash", 1)
    assert read_script("case $1 in\n --a|-b)\n shift;;\n (--c) x;;\nesac\n", {}).problems == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "$",
        "'",
        '"',
        "`",
        "${",
        "$(",
        "$((",
        "A=(",
        "<<",
        "<<EOF",
        "case",
        "\\",
        "(((",
        "a\x00b",
        "$((9**9**9))",
        "$((1/0))",
    ],
)
def test_broken_scripts_are_read_to_their_end(text):
    read_job(text)


def test_a_variable_that_doubles_itself_does_not_run_away():
    text = "A=xxxxxxxx\n" + 'A="$A $A"\n' * 60 + "run $A\n"
    assert read_script(text, {}).commands


@pytest.mark.parametrize(
    ("text", "tool", "program", "options"),
    [
        ("torchrun --nproc-per-node=8 a.py --x 1", "torchrun", "a.py", {"nproc-per-node": "8"}),
        ("python -u -m torch.distributed.run --nnodes 2 a.py", "torchrun", "a.py", {"nnodes": "2"}),
        (
            "srun --mpi=none bash -c 'cd /x && torchrun --nnodes 2 -m pkg.train --y'",
            "torchrun",
            "pkg.train",
            {"nnodes": "2"},
        ),
        ("srun -l singularity exec --nv img.sif python fit.py trainer.devices=8", "python", "fit.py", {}),
        ("mpirun -np 16 --allow-run-as-root python3 a.py", "mpirun", "a.py", {"np": "16"}),
        ("X=1 nohup accelerate launch --num_processes 4 a.py --lr 1 &", "accelerate", "a.py", {"num_processes": "4"}),
        ("deepspeed --num_gpus=2 a.py --deepspeed ds.json", "deepspeed", "a.py", {"num_gpus": "2"}),
    ],
)
def test_launches_are_found_behind_what_stands_around_them(text, tool, program, options):
    (launch,) = read_job(text).launches
    assert (launch.tool, launch.program) == (tool, program)
    assert {o.name: o.text for o in launch.options.options if o.name in options} == options


def test_directives_are_read_as_sbatch_reads_them():
    job = read_job(
        '#!/bin/bash\n#SBATCH -N2 -t 1:00:00 # note\n##SBATCH --mem=1G\n#SBATCH --comment "a b"\nls\n#SBATCH -p x\n'
    )
    assert [(d.name, d.value, d.line) for d in job.directives] == [
        ("nodes", "2", 2),
        ("time", "1:00:00", 2),
        ("comment", "a b", 4),
    ]
    assert [(d.name, d.line) for d in job.late] == [("partition", 6)]
    assert job.first_command == 5


def test_numbers_and_truth_as_programs_take_them():
    assert [as_number(x) for x in ("1e9", "5_000", "-2", "0.5", "x", True, None, "1e")] == [1e9, 5000, -2, 0.5] + [
        None
    ] * 4
    assert [as_whole(x) for x in (4.0, 4.5, float("inf"), float("nan"))] == [4, None, None, None]
    assert [as_truth(x) for x in ("True", "no", "1", "maybe")] == [True, False, True, None]


def test_yaml_in_the_form_of_json_is_read_by_the_rules_of_yaml():
    text = '{\n  # sizes\n  "train_micro_batch_size_per_gpu": 4,\n  "fp16": {"enabled": True},\n}\n'
    (as_yaml,), (as_json,) = read_document("llama.yml", text), read_document("llama.json", text)
    assert (as_yaml.kind, as_yaml.problems) == ("deepspeed", [])
    assert [p.state for p in as_json.problems] == ["fail"]
