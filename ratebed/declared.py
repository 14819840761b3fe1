"""Options that figures declare, as options of the verbs that take figures: in their help, checked, completed.

Which there are is known once the figures are: ``ratebed run limiters-plane --help`` lists what that one takes.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperCommand
from typer.main import get_command

from core.files import is_file
from core.registry import known
from harness.experiment import Option, Reading
from paper_figs import FIGURES, load_figure

GIVEN, THERE = "ratebed.given", "ratebed.declared"  # where a context keeps what was given, and which options there are
HELP = ("--help", "-h")


def given(context: typer.Context) -> list[str]:
    """What was given of them, as ``--name=value``."""
    return list(context.meta.get(GIVEN, ()))


def declared(keys: Sequence[str]) -> dict[str, tuple[Option, list[str]]]:
    """The options of figures by name, each with the figures that have it."""
    options: dict[str, tuple[Option, list[str]]] = {}
    for key in keys:
        for option in load_figure(key).experiment.options:
            options.setdefault(option.name, (option, []))[1].append(key)
    return options


class FigureCommand(TyperCommand):
    """A verb that takes figures: those that the words name say which options it has; without any, all do."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Look for figures first."""
        named = self._figures(args)
        own = {*HELP, *(name for param in self.params for name in param.opts)}
        options = declared(named or list(FIGURES)) if named or any(map(_is_unknown(own), args)) else {}
        ctx.meta[THERE] = params_of({name: each for name, each in options.items() if f"--{name}" not in own})
        return super().parse_args(ctx, args)

    def _figures(self, args: Sequence[str]) -> list[str]:
        """The words that name figures; of one from outside the tree, where it is no option's value."""
        flags = {name for param in self.params if getattr(param, "is_flag", False) for name in param.opts}
        named = []
        for before, word in zip(["", *args], args, strict=False):
            is_free = not before.startswith("-") or "=" in before or before in flags
            if word in FIGURES or (is_free and (is_file(word) or word in known("figure", FIGURES))):
                named.append(word)
        return named

    def get_params(self, ctx: Any) -> list[Any]:
        """Its own, then those of the figures."""
        return [*super().get_params(ctx), *ctx.meta.get(THERE, ())]


def _is_unknown(own: set[str]) -> Callable[[str], bool]:
    return lambda word: word.startswith("--") and word.partition("=")[0] not in own


def params_of(options: Mapping[str, tuple[Option, list[str]]]) -> list[Any]:
    """As parameters of the command-line library, which keeps what is given in the context."""
    app = typer.Typer(add_completion=False)

    def verb(**values: object) -> None:
        raise AssertionError("never called")

    verb.__signature__ = inspect.Signature(list(_parameters(options)))  # type: ignore[attr-defined]
    app.command(add_help_option=False)(verb)
    return get_command(app).params


def _parameters(options: Mapping[str, tuple[Option, list[str]]]) -> Iterator[inspect.Parameter]:
    for number, (name, (option, keys)) in enumerate(sorted(options.items())):
        is_flag = option.type is bool
        words = [f"--{name}", f"--no-{name}"] if is_flag else [f"--{name}"]
        choices = "|".join(map(str, option.values)) if isinstance(option, Reading) and option.values else ""
        default = "" if option.default in (None, "") or is_flag else f" [default: {option.default}]"
        told = typer.Option(
            *words,
            metavar=None if is_flag else choices or {int: "INTEGER", float: "NUMBER"}.get(option.type, "TEXT"),
            help=f"{option.help}{default} ({', '.join(keys[:3])}{', …' if len(keys) > 3 else ''})",
            callback=_keeping(name),
            expose_value=False,
            show_default=False,
        )
        kind = bool | None if is_flag else str | None
        yield inspect.Parameter(
            f"option_{number}", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind, told]
        )


def _keeping(name: str) -> Callable[..., object]:
    def keep(context: typer.Context, value: object) -> object:
        if value is not None:
            text = {True: "yes", False: "no"}.get(value, value) if isinstance(value, bool) else value
            context.meta.setdefault(GIVEN, []).append(f"--{name}={text}")
        return value

    return keep
