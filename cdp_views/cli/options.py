"""Refusals of the library in the words of the command line, in one place for all commands."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

# what the library calls in the plural, an option that may be repeated calls in the singular
_SINGULAR = {"counts": "count", "noises": "noise", "inv": "within", "invariant": "within"}
_VALUE = r'"[^"]*"(?:(?:, | or |, or )"[^"]*")*|[\w.+-]*\w|'


def in_options(message: str, options: Mapping[str, str]) -> str:
    """`message` with the arguments of Python called as the options of a command are.

    Args:
        message: of the library, such as "`view` must be …" or "… Use noise="normal".".
        options: what a person types for each argument; what is not in it stays as it is.

    Returns:
        The message: `name` is --name, name="value" is --name value, name=True is --name.

    Example:
        >>> said = '`noise` must be chosen, as … Use noise="normal" or "laplace".'
        >>> in_options(said, {"noise": "--noise"})
        '--noise must be chosen, as … Use --noise normal or laplace.'
    """

    def option(name: str) -> str | None:
        return options.get(name) or options.get(_SINGULAR.get(name, ""))

    def named(found: re.Match[str]) -> str:
        return option(found[1]) or found[0]

    def given(found: re.Match[str]) -> str:
        typed, value = option(found[1]), found[2].replace('"', "")
        if typed is None:
            return found[0]
        return typed if value in ("", "True") else f"{typed} {value}"

    view = f"{options['view']} " if "view" in options else ""
    message = re.sub(
        r"\bcdp\.(MaxEntropy|Conditioned|Imaged)\b",
        lambda found: view + found[1].lower().replace("maxentropy", "max-entropy"),
        message,
    )
    message = re.sub(r"`([a-z_]+)`", named, message)
    message = re.sub(rf"(?<![\w.-])([a-z_]+)=(?!=)({_VALUE})", given, message)
    # Where the library names both, (names=, --names), one of them is left.
    return re.sub(r"(--[a-z-]+), \1\b", r"\1", message)


def options_of(group: Any, words: Sequence[str]) -> dict[str, str]:
    """What is typed for each argument of the command that `words` call.

    Args:
        group: all commands, as click knows them.
        words: as they were typed after the program's name.
    """
    command = group
    for word in words:
        if word in (inner := getattr(command, "commands", {})):
            command = inner[word]
        elif not word.startswith("-"):
            break
    return {
        one.name: max(one.opts, key=len) if one.param_type_name == "option" else one.metavar
        for one in command.params
        if one.name is not None
    }
