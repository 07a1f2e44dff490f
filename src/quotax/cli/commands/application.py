"""The application that the commands belong to."""

from __future__ import annotations

from cyclopts import App, Parameter


def _version() -> str:
    from quotax import __version__

    return f"quotax {__version__}"


app = App(
    name="quotax",
    help="Divide a neural network's parameter space by its symmetries, and measure what is left.",
    help_epilogue=(
        "MODEL is a name of the catalogue (`quotax list`), file.py:name, package.module:name, or a TOML file. "
        "Exit codes: 0 yes, 1 refuted, undecided or not complete, 2 misuse."
    ),
    help_format="plaintext",
    version=_version,
    default_parameter=Parameter(negative=()),
    suppress_keyboard_interrupt=False,
)
app.register_install_completion_command(help="Let the shell complete commands and options.")
