"""Random points of a trace: exact Jacobians modulo a prime, one batch per draw of tokens and masks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from quotax.artifacts import Trace, sizes_text
from quotax.errors import ArchitectureError
from quotax.interpret import evaluate
from quotax.interpret.jets.domain import Jet, JetDomain
from quotax.interpret.jets.random_functions import RandomFunctions
from quotax.interpret.jets.residues import PRIME
from quotax.interpret.random_inputs import random_input
from quotax.interpret.shared.mask_levels import read_masks

TOGETHER = 16
"""Points of a batch, unless each has many outputs."""


def points_together(trace: Trace) -> int:
    """How many points a batch has: of a model with many outputs (images, sequences) a few give as many equations."""
    outputs = sum(int(np.prod(aval.shape, dtype=np.int64)) for aval in trace.jaxpr.out_avals)
    return int(np.clip(96 // max(outputs, 1), 4, TOGETHER))


_TRIED = 20
"""So many draws without a number, and constants that were read as minus infinity are the numbers that they are."""


@dataclass(frozen=True)
class Batch:
    """Parameters `(samples, *shape)` and the derivatives of all outputs `(outputs, samples, *shape)`, by name."""

    params: Mapping[str, np.ndarray]
    jacobian: Mapping[str, np.ndarray]
    opaque: bool

    @property
    def samples(self) -> int:
        """How many points."""
        return len(next(iter(self.params.values())))

    @property
    def rows(self) -> int:
        """How many equations the batch holds."""
        return self.samples * len(next(iter(self.jacobian.values())))

    def dense(self) -> np.ndarray:
        """All derivatives as one matrix: rows (outputs x samples), columns the entries of all parameters."""
        return np.concatenate([j.reshape(j.shape[0] * j.shape[1], -1) for j in self.jacobian.values()], axis=1)


def batches(trace: Trace, rng: np.random.Generator, samples: int, *, one_point: bool = False) -> Iterator[Batch]:
    """Batches without end. `one_point`: all of them at the same parameters, with different inputs."""
    points = {spec.name: _residues(rng, (1, *spec.shape(trace.sizes))) for spec in trace.params}
    seed = int(rng.integers(1, 2**40))
    read = read_masks(trace.jaxpr)[0]
    failed = 0
    while True:
        count = samples
        if not one_point:
            points = {spec.name: _residues(rng, (count, *spec.shape(trace.sizes))) for spec in trace.params}
        params = {name: np.broadcast_to(p, (count, *p.shape[1:])) for name, p in points.items()}
        seeds = np.full(count, seed) if one_point else rng.integers(1, 2**40, count)
        domain = JetDomain(RandomFunctions(seeds), count)
        variables = [domain.variable(params[spec.name]) for spec in trace.params]
        # tokens and masks are constants of the batch; real inputs differ from sample to sample
        real = lambda shape, n=count: Jet(_residues(rng, (n, *shape)))
        # a row that a mask leaves nothing of is no number: the next masks leave more
        shown = 1 - 0.5 / (1 + failed % _TRIED)
        inputs = [random_input(spec, trace.sizes, rng, real, shown) for spec in trace.inputs]
        outputs = evaluate(read, domain, [*variables, *inputs])
        jacobian = domain.jacobian(outputs, variables)
        good = ~domain.bad
        if not good.any():
            failed += 1
            if failed == _TRIED:
                read = trace.jaxpr
            elif failed > 2 * _TRIED:
                raise ArchitectureError(
                    f"at {failed} random points of sizes {sizes_text(trace.sizes)} the model was no number: it divides "
                    "by zero, or a mask of minus infinity leaves nothing of a row of scores. Guard the division, or "
                    "let every row see something."
                )
            continue
        failed = 0
        yield Batch(
            {name: p[good] for name, p in params.items()},
            {spec.name: j[:, good] for spec, j in zip(trace.params, jacobian, strict=True)},
            domain.opaque,
        )


def _residues(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.integers(1, PRIME, shape, dtype=np.int64)
