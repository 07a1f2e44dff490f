"""What a newcomer gets wrong: each message names what was given and what to try, in two lines, without a traceback."""

import numpy as np
import pytest

from cli.archives import arrays_of
from quotax.cli import main

SHARPNESS = "sharpness net.py:small --params a.npz --full"


def saved(folder, **arrays):
    whole = arrays_of(folder / "data.npz") | arrays
    np.savez(folder / "wrong.npz", **{name: array for name, array in whole.items() if array is not None})


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("derive", "parameter MODEL requires an argument"),
        ("drive mlp/relu", 'Unknown command "drive". Did you mean "derive"?'),
        ("derive mlp/relu --quik", "Unknown option: --quik. Did you mean --quiet?"),
        ("derive mlp/relu --ansatz cubic", 'Choose from: "linear", "affine", "quadratic", "full"'),
        ("derive mlp/rellu", "model 'mlp/rellu': no such entry; the nearest are 'mlp/relu'"),
        (
            "derive net.py",
            "needs the name of a model in it: net.py:mlp or net.py:reader or net.py:small or net.py:same or "
            "net.py:smooth",
        ),
        ("derive net.py:mpl", "has no 'mpl' (is 'mlp' meant?)"),
        ("derive none.toml", "there is no file 'none.toml' in "),
        ("derive a.npz", "'a.npz' is no model. A model is a name of the catalogue, file.py:name"),
        ("derive mlp/relu h=four", "size 'h=four': h needs a positive whole number, as in h=4"),
        ("derive mlp/relu h", "'h' is no size; a size is written axis=number, as in h=4"),
        ("derive mlp/relu h=3 h=4", "size 'h=4': h was given as 3 too"),
        ("derive mlp/relu q=3", "size q=3: mlp/relu has no axis 'q'; its axes are h, x, y"),
        ("derive mlp/relu --budget 0", "--budget 0: a budget is a positive number of seconds"),
        ("derive mlp/relu --save nowhere/x.json", "--save nowhere/x.json: there is no folder 'nowhere'"),
        ("verify mlp/relu", "no symmetry is stated beside mlp/relu; state one as in --group 'PositiveDiagonal(h)'"),
        (
            "verify net.py:mlp scal",
            "no symmetry 'scal' is stated beside net.py:mlp (is 'scale' meant?); those are scale",
        ),
        ("verify net.py:mlp --group GLL(h) --action W1=g@W1", "is no group (is 'GL' meant?); those are "),
        ("verify net.py:mlp --group GL(h,each=a,of=b) --action W1=g@W1", "unexpected keyword argument 'of'"),
        ("verify net.py:mlp --group GL(h)", "--group 'GL(h)' needs what it does: --action"),
        ("verify net.py:mlp --group GL(h) --action W1", "--action 'W1': it is written as in 'W1 = g @ W1'"),
        ("verify net.py:mlp --action W1=g@W1", "--action needs the group of g"),
        ("verify net.py:mlp scale --group GL(h)", "'scale' names a stated symmetry, and --group states another"),
        ("verify net.py:mlp --group GL(q) --action W1=g@W1", "axis 'q', which no parameter has; the axes are h, x, y"),
        ("verify net.py:mlp --found a.npz", "it is not JSON"),
        ("audit net.py:mlp h=3", "net.py:mlp needs the size of x, y; add for example x=4 y=6"),
        ("sharpness net.py:small", "needs data to measure a loss on: --data file.npz, or --data random:64"),
        ("sharpness net.py:mlp --data data.npz", "net.py:mlp needs the size of h, x, y"),
        ("sharpness net.py:small --data none.npz", "--data none.npz: there is no such file"),
        (
            "sharpness net.py:small --data net.py",
            "--data net.py: it is no archive of arrays; write one with numpy.savez",
        ),
        ("sharpness net.py:small --data random:some", "is written as in --data random:64"),
        ("sharpness net.py:reader vocab=5 d=2 y=2 --data random", "needs the size of t, which the inputs have"),
        ("sharpness net.py:small --params none.npz --data data.npz", "--params none.npz: there is no 'none.npz'"),
        (
            "sharpness net.py:small h=4 --params a.npz --data data.npz",
            "'W1' has shape (3, 2), but the axes 'h x' at h=4",
        ),
        ("report", "a report is of one model or two, and here are 0: none"),
        ("report mlp/relu linear mlp", "a report is of one model or two, and here are 3: mlp/relu, linear, mlp"),
        ("report mlp/relu --output page.pdf", "--output page.pdf: a report is an .html file"),
        ("report mlp/relu --output nowhere/a.html", "--output nowhere/a.html: there is no folder 'nowhere'"),
        ("report mlp/relu q=3", "size q=3: none of the models has an axis 'q'"),
        ("report mlp/relu linear --params a.npz", "2 models with 1 --params are not"),
        ("report mlp/relu --radius 0", "--radius 0: a radius is a positive number, such as 0.05"),
        (f"{SHARPNESS} --data data.npz --radius 0", "--radius 0: a radius is a positive number, such as 0.05"),
        (f"{SHARPNESS} --data data.npz --radius 1 --radius 2", "is at one radius, and here are 2"),
        (f"{SHARPNESS} --data data.npz --loss huber", "--loss huber: a loss is mse, cross-entropy, or a function"),
        (f"{SHARPNESS} --data data.npz --loss net.py:none", "net.py has no function 'none'"),
        (f"{SHARPNESS} --data data.npz --loss none.py:none", "there is no file 'none.py'"),
        (f"{SHARPNESS} --data data.npz --loss none_such:none", "No module named 'none_such'"),
        (
            f"{SHARPNESS} --data data.npz --loss net.py:alone",
            "called as loss(params, batch), where batch has x, targets",
        ),
        (f"{SHARPNESS} --data data.npz --loss net.py:lost", "KeyError: 'nothing' (net.py, line 23)"),
        (f"{SHARPNESS} --data data.npz --loss cross-entropy", "cross-entropy needs targets of shape (6,)"),
        (
            f"{SHARPNESS} --data data.npz --measure average --plot a.png",
            "there is no picture of --measure average, which is one number; the others have one",
        ),
        (f"{SHARPNESS} --data data.npz --measure trace --plot a/b.png", "--plot a/b.png: there is no folder 'a'"),
        (
            f"{SHARPNESS} --data data.npz --measure drift",
            "drift goes along the orbit, and --full divides nothing",
        ),
        (
            "sharpness net.py:small --data data.npz --measure slice --stretch 0",
            "--stretch 0: it is a positive number, such as",
        ),
        (f"{SHARPNESS} --data data.npz --measure profile --plot a.gif", "a picture is a .pdf, .svg or .png file"),
        ("align net.py:small --params a.npz --to a.npz --plot a.png", "there is no picture without --data"),
        (
            f"{SHARPNESS} --data data.npz --microbatch 0",
            "--microbatch 0: it is how many examples are in memory at once",
        ),
        (f"{SHARPNESS} --data data.npz --steps 0", "--steps 0: it is a whole number, at least 1"),
        (f"{SHARPNESS} --data data.npz --k 0", "--k 0: it is a whole number, at least 1"),
        ("compare h=3 --data data.npz", "no model among h=3; give at least one"),
        ("compare net.py:small q=3 --data data.npz", "size q=3: none of the models has an axis 'q'"),
        ("compare net.py:small net.py:mlp linear --params a.npz --params a.npz", "3 models need as many --params"),
        ("align net.py:small --params a.npz", "compares two sets of weights: --to is missing"),
        ("align net.py:small --params a.npz --to data.npz", "--to data.npz: the arrays are not those of the model"),
        ("list nothing", "no such entry; the nearest are"),
    ],
)
def test_a_mistake_is_named_in_two_lines(quotax, line, said):
    code, out, err = quotax(line)
    *notes, message, hint = err.splitlines()
    assert (code, out) == (2, "")
    assert said in message
    assert message.startswith("quotax")
    assert " --help` says what it takes" in hint
    assert all(note.startswith(("note: ", "... ")) for note in notes)
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"x": np.full((6, 2), np.nan)}, "of the 12 entries of 'x' 12 are NaN or infinite, the first at [0, 0]"),
        ({"x": np.ones((6, 3))}, "'x' has shape (6, 3), and must be (examples, x=2)"),
        ({"x": np.ones((5, 2))}, "every array has examples along its first axis, and here are 5 of x, 6 of targets"),
        ({"x": None, "X": np.ones((6, 2))}, "it holds targets, X, and mlp has the inputs x"),
        ({"x": np.full((6, 2), "a")}, "'x' holds <U1, not numbers"),
        ({"targets": None}, "the loss needs targets, and there are none; call the array 'targets'"),
        ({"targets": None, "a": np.ones(6), "b": np.ones(6)}, "several arrays that may be: a, b"),
        ({"targets": np.ones((6, 3))}, "so mse needs targets of shape (6, 2), and 'targets' has (6, 3)"),
        ({"targets": np.arange(6)}, "cross-entropy needs classes from 0 to 1, and 'targets' holds 0 to 5"),
    ],
)
def test_data_that_do_not_fit_are_refused(quotax, folder, arrays, said):
    saved(folder, **arrays)
    code, out, err = quotax(f"{SHARPNESS} --data wrong.npz")
    assert (code, out) == (2, "")
    assert said in err


def test_tokens_are_checked_against_their_bound(quotax, folder):
    sizes = "vocab=5 d=2 y=2"
    np.savez(folder / "wrong.npz", t=np.full((4, 3), 5), m=np.ones((4, 3)), targets=np.ones((4, 2)))
    line = f"sharpness net.py:reader {sizes} --data wrong.npz"
    assert "tokens, integers from 0 to 4, and here are 5 to 5" in quotax(line)[2]
    np.savez(folder / "wrong.npz", t=np.full((4, 3), 1.5), m=np.ones((4, 3)), targets=np.ones((4, 2)))
    assert "and here are float64" in quotax(line)[2]


def test_parameters_that_are_no_numbers_are_refused(quotax, folder):
    arrays = arrays_of(folder / "a.npz")
    np.savez(folder / "wrong.npz", **arrays | {"b1": np.full(3, np.inf)})
    said = quotax("sharpness net.py:small --params wrong.npz --data data.npz")[2]
    assert "--params wrong.npz: params['b1'] holds 3 value(s) that are NaN or infinite" in said


def test_a_traceback_is_shown_on_request(quotax):
    err = quotax(f"{SHARPNESS} --data data.npz --loss net.py:lost --debug")[2]
    assert "Traceback (most recent call last)" in err
    assert "`quotax sharpness --help` says what it takes; --debug shows where this was raised" in err


def test_nothing_at_all_is_answered_with_help(capsys):
    assert main([]) == 2
    assert "Usage: quotax COMMAND" in capsys.readouterr().out


def test_an_interrupt_has_its_own_exit_code(monkeypatch, capsys):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("quotax.cli.commands.of_symmetries.asked", interrupted)
    assert main(["audit", "linear", "--no-cache"]) == 130
    assert capsys.readouterr().err == "quotax audit: interrupted\n"
