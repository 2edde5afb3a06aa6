"""Advice for letters of Triangle that a mesh command does not have."""

from __future__ import annotations

import click

_FILES = "-o OUT names the files that are written"
# Triangle's letters by command, and what stands for them
LETTERS = {
    "triangulate": {
        "-p": "a .poly file is always read whole",
        "-r": "morph refine has it",
        "-A": "the regions' attributes are always written",
        "-C": "morph check MESH",
    },
    "refine": {
        "-r": "a mesh with an .ele file is refined as it is",
        "-C": "morph check MESH",
    },
}
BOTH = {
    **dict.fromkeys(("-B", "-E", "-I", "-N", "-P"), _FILES),
    "-z": "files count as IN does, from 0 or 1",
    "-Q": "--json prints one line",
    "-V": "--json prints what is known",
}


def advice(error: click.ClickException) -> str:
    """Return what to add to an error; empty if there is nothing to advise."""
    if not isinstance(error, click.NoSuchOption) or error.ctx is None:
        return ""
    name, letter = error.ctx.command.name or "", error.option_name
    if name not in LETTERS:
        return ""
    known = BOTH | LETTERS[name]
    group = error.ctx.find_root().command
    others = group.commands if isinstance(group, click.Group) else {}
    if letter in known:
        return f" {known[letter][0].upper()}{known[letter][1:]}."
    for other in LETTERS:
        if any(letter in parameter.opts for parameter in others[other].params):
            return f" It is an option of morph {other}."
    return f" See morph {name} --help."
