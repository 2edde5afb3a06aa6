"""Advice for switches of Triangle that a mesh command does not have."""

from __future__ import annotations

import click

_FILES = "All files of OUT are written."
_CHECK = "The command is morph check MESH."
# Triangle's switches by command, and the options that replace them
SWITCHES = {
    "triangulate": {
        "-p": "A .poly file is always read completely.",
        "-r": "The command is morph refine MESH.",
        "-A": "The regions' attributes are always written.",
        "-C": _CHECK,
    },
    "refine": {"-r": "A mesh with an .ele file is refined as it is.", "-C": _CHECK},
}
BOTH = {
    **dict.fromkeys(("-E", "-N", "-P"), _FILES),
    "-B": "Markers are always written.",
    "-I": "The names are those of -o OUT.",
    "-z": "Files have the base of IN, 0 or 1.",
    "-Q": "The option --json prints one line.",
    "-V": "The option --json prints all statistics.",
}


def advice(error: click.ClickException) -> str:
    """Return advice to append to an error; empty if there is none."""
    if not isinstance(error, click.NoSuchOption) or error.ctx is None:
        return ""
    name, letter = error.ctx.command.name or "", error.option_name
    if name not in SWITCHES:
        return ""
    known = BOTH | SWITCHES[name]
    if letter in known:
        return f" {known[letter]}"
    group = error.ctx.find_root().command
    assert isinstance(group, click.Group)
    for other in SWITCHES:
        command = group.resolve_command(error.ctx, [other])[1]
        if command and any(letter in parameter.opts for parameter in command.params):
            return f" It is an option of morph {other}."
    return f" See morph {name} --help."
