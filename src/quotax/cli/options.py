"""What commands have in common: the model and its sizes, where symmetries, data and weights come from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from cyclopts import Group, Parameter

from quotax.cli.misuse import Misuse
from quotax.cli.terminal import Showing
from quotax.trees import Tree

FINDING = Group("Symmetries", sort_key=50)
MEASURED = Group("What is measured", sort_key=40)

Model = Annotated[str, Parameter(name="MODEL", help="Catalogue name, file.py:name, package.module:name, or TOML file.")]
Sizes = Annotated[
    str, Parameter(name="SIZES", help="Sizes of axes, as in h=4 x=3; what is left out has the model's own size.")
]
Size = Annotated[
    tuple[str, ...],
    Parameter(name="--size", help="A size, as in --size h=4; the same as h=4 alone.", show_default=False),
]
Rename = Annotated[
    tuple[str, ...],
    Parameter(
        group=MEASURED,
        help="Of two models: an array of the second and what the first calls it, as in weight=W1; else found by what "
        "each array does.",
        show_default=False,
    ),
]
Plot = Annotated[
    str | None,
    Parameter(help="Draw into this file (.pdf, .svg or .png): quotient over full ball, or the barrier."),
]
Ansatz = Literal["linear", "affine", "quadratic", "full"]
Metric = Literal["invariant", "euclidean", "pullback", "inv", "mix"]
SHOWING = Showing()


@Parameter(name="*")
@dataclass(frozen=True)
class Deriving:
    """What is looked for, and for how long."""

    ansatz: Annotated[Ansatz, Parameter(group=FINDING, help="Vector fields that are looked for.")] = "affine"
    budget: Annotated[float, Parameter(group=FINDING, help="Seconds that deriving may take.")] = 60.0

    def group(self, model: Any, name: str, show: Showing) -> Any:
        """The symmetries of a model."""
        import quotax as qx

        if not self.budget > 0:
            raise Misuse(f"--budget {self.budget:g}: a budget is a positive number of seconds, such as 60")
        with show.doing(f"deriving the symmetries of {name}", self.budget) as told:
            found = qx.derive(model, self.ansatz, budget_seconds=self.budget, progress=told)
        if found.unsearched:
            show.note(f"not everything was searched in {self.budget:g} s; --budget gives more")
        return found


@Parameter(name="*")
@dataclass(frozen=True)
class Finding(Deriving):
    """Where the symmetries come from."""

    found: Annotated[
        str | None,
        Parameter(group=FINDING, help="A file that `quotax derive --save` wrote: nothing is derived again."),
    ] = None

    def group(self, model: Any, name: str, show: Showing) -> Any:
        """The symmetries of a model: read from a file and proved again, or derived."""
        import quotax as qx

        if self.found is None:
            return super().group(model, name, show)
        with show.doing(f"replaying the proofs of {self.found}"):
            return qx.load_symmetries(self.found, model).recheck()


@Parameter(name="*")
@dataclass(frozen=True)
class Data:
    """What a loss is made of."""

    data: Annotated[
        str | None,
        Parameter(
            group=MEASURED,
            help="An .npz file: an array for each input, examples first, and 'targets'; or random:64, to try out.",
        ),
    ] = None
    loss: Annotated[
        str | None,
        Parameter(
            group=MEASURED,
            help="mse, cross-entropy (of logits), or a function loss(params, batch) at file.py:name; by default what "
            "the targets suggest: cross-entropy for integers, mse for other numbers.",
        ),
    ] = None
    microbatch: Annotated[int | None, Parameter(group=MEASURED, help="Examples in memory at once.")] = None

    def batch(self, network: Any, seed: int, command: str) -> dict[str, Any]:
        """The arrays by name."""
        from quotax.cli.arrays import data_of

        if self.microbatch is not None and self.microbatch < 1:
            raise Misuse(f"--microbatch {self.microbatch}: it is how many examples are in memory at once, at least 1")
        if self.data is None:
            raise Misuse(
                f"{command} needs data to measure a loss on: --data file.npz, or --data random:64 to try it out"
            )
        return data_of(network, self.data, seed)

    def measured(
        self, network: Any, params: Tree, batch: dict[str, Any], note: Callable[[str], None]
    ) -> dict[str, Any]:
        """The loss and its data, as the measures take them."""
        from quotax.cli.losses import loss_of

        loss = loss_of(network, params, batch, self.loss, str(self.data), note)
        return {"loss": loss, "batch": batch, "microbatch": self.microbatch}


@Parameter(name="*")
@dataclass(frozen=True)
class WeightFiles:
    """How parameters are read."""

    layout: Annotated[
        Literal["by-name", "gpt2", "llama"],
        Parameter(group=MEASURED, help="Names of the arrays in parameter files: the model's own, or those of others."),
    ] = "by-name"
    seed: Annotated[int, Parameter(group=MEASURED, help="Of everything random.")] = 0

    def read(self, network: Any, path: str | None, show: Showing, *, other: int = 0, option: str = "--params") -> Any:
        """The parameters in a file, or random ones."""
        from quotax.cli.arrays import params_of

        return params_of(network, path, self.layout, self.seed + other, show.note, option)


DERIVING, FOUND, DATA, WEIGHTS = Deriving(), Finding(), Data(), WeightFiles()
