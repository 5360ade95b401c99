"""`firstfault completion`: the script by which a shell completes commands, options and their words.

The scripts are click's; where they know nothing better, files are offered.
"""

from __future__ import annotations

import sys

import click
from click.shell_completion import BashComplete, FishComplete, ShellComplete, ZshComplete

from firstfault.cli.evidence import write
from firstfault.cli.messages import tell

KINDS: dict[str, type[ShellComplete]] = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}
WHERE = {
    "bash": "echo 'eval \"$(firstfault completion bash)\"' >> ~/.bashrc",
    "zsh": "echo 'eval \"$(firstfault completion zsh)\"' >> ~/.zshrc",
    "fish": "firstfault completion fish > ~/.config/fish/completions/firstfault.fish",
}


@click.command(name="completion", short_help="Print what a shell needs to complete commands and options.")
@click.argument("shell", type=click.Choice(list(KINDS)), metavar="bash|zsh|fish")
def command(shell: str) -> int:
    """Print the script by which bash, zsh or fish completes commands, options and their words.

    For one shell: `eval "$(firstfault completion bash)"`. For all to come, let its start file say so.
    """
    # Its `source` would ask the shell for its version, which need not be the one that reads this.
    made = KINDS[shell](click.Command("firstfault"), {}, "firstfault", "_FIRSTFAULT_COMPLETE")
    script = made.source_template % made.source_vars()
    if shell == "bash":
        script = script.replace("complete -o nosort -F", "complete -o nosort -o default -F")
    write(script.rstrip() + "\n")
    if sys.stdout.isatty():
        tell("this is to be read by the shell", fix=WHERE[shell])
    return 0
