"""A run of the command line: the command, its exit code, and errors in two lines.

Exit codes: 0 where the answer is yes, 1 where a claim is refuted or undecided or something is not complete, 2 where
what was asked for makes no sense, 130 after an interrupt from the keyboard.
"""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from typing import Any

from quotax.cli.misuse import Misuse

INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; results go to standard output, progress and errors to standard error."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    # Before NumPy and SciPy are loaded. On few cores the threads of BLAS and XLA wait for one another, and most
    # matrices here are small: `derive` alone takes half the processor time.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from cyclopts import CycloptsError

    from quotax.cli.commands import app

    if not given:
        app.help_print([])
        return 2
    with warnings.catch_warnings():
        warnings.showwarning = _warned
        try:
            return app(given, exit_on_error=False, print_error=False, result_action="return_value") or 0
        except CycloptsError as error:
            return _refused(given, _line(str(error)), error)
        except KeyboardInterrupt:
            print(f"quotax {given[0]}: interrupted", file=sys.stderr)
            return INTERRUPTED
        except BrokenPipeError:  # whoever read the output has enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
        except Exception as error:
            return _refused(given, _said(error), error)


def _refused(given: Sequence[str], message: str, error: BaseException) -> int:
    """Two lines on standard error: what is wrong, and where to look."""
    from quotax.cli.commands import app

    if "--debug" in given:
        traceback.print_exception(error)
    name = f"quotax {given[0]}" if not given[0].startswith("-") and given[0] in app else "quotax"
    where = (
        "" if type(error).__module__.startswith(("cyclopts", "quotax.cli")) else "; --debug shows where this was raised"
    )
    print(f"{name}: {message}", file=sys.stderr)
    print(f"`{name} --help` says what it takes{where}", file=sys.stderr)
    return 2


def _said(error: BaseException) -> str:
    """The message of an error; of one that nobody raised on purpose its kind too, and the user's line."""
    from quotax import QuotaxError

    if isinstance(error, QuotaxError | Misuse):
        return _line(str(error))
    frames = [f for f in traceback.extract_tb(error.__traceback__) if _is_the_users(f.filename)]
    at = f" ({os.path.relpath(frames[-1].filename)}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {_line(str(error))}{at}"


def _is_the_users(file: str) -> bool:
    own = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    return (
        os.path.isfile(file)
        and "site-packages" not in file
        and not os.path.abspath(file).startswith((own, sys.prefix, sys.base_prefix))
    )


def _line(text: str) -> str:
    return " ".join(text.split())


def _warned(message: Any, *_: Any, **__: Any) -> None:
    print(f"note: {_line(str(message))}", file=sys.stderr)
