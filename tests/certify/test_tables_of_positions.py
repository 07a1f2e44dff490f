"""Proofs of models with a table of positions, which has to be as long as what is read."""

import jax
import jax.numpy as jnp
import pytest

import quotax as qx
from quotax.errors import ArchitectureError

AXES = {"params": {"E": "w d", "P": "m d", "U": "y d"}, "inputs": {"x": qx.Tokens("t", below="w")}}
READS = {
    "a slice": lambda table, t: table[:t],
    "a window": lambda table, t: jax.lax.dynamic_slice(table, (0, 0), (t, table.shape[1])),
    "a read": lambda table, t: jnp.take(table, jnp.arange(t), axis=0),
}
TURN = qx.Symmetry("turn", qx.GL("d"), {"E": "E @ g.T", "P": "P @ g.T", "U": "U @ inv(g)"})


def embedded(read):
    @qx.architecture(**AXES)
    def model(params, x):
        return (params["E"][x] + read(params["P"], x.shape[0])) @ params["U"].T

    return model


@pytest.mark.parametrize("name", READS)
def test_every_table_that_is_long_enough(name):
    model = embedded(READS[name])
    certificate = qx.verify(model, TURN)
    assert (certificate.status, certificate.scope) == ("proved", "every width with m ≥ t")
    assert certificate.recheck().scope == certificate.scope
    lost = qx.Symmetry("lost", TURN.group, {**TURN.action, "P": "P @ inv(g)"})
    assert qx.verify(model, lost).status == "refuted"


def test_rows_that_are_left_out_count():
    model = embedded(lambda table, t: jnp.take(table, jnp.arange(t) + 2, axis=0))
    assert qx.verify(model, TURN).scope == "every width with m ≥ t + 2"


def test_a_table_whose_end_is_read_as_well_is_no_table_of_positions():
    """`t` words and the last row: true of every table, and m is compared with nothing."""
    model = embedded(lambda table, t: table[jnp.minimum(jnp.arange(t), table.shape[0] - 1)])
    assert "m ≥" not in qx.verify(model, TURN).scope


def test_a_model_that_returns_nan_at_these_sizes_is_refused_there():
    model = embedded(READS["a read"])
    sizes = {"w": 3, "d": 2, "y": 5, "t": 6}
    model.trace({**sizes, "m": 6})
    with pytest.raises(ArchitectureError, match=r"returns NaN at .*m=4.*beyond the end"):
        model.trace({**sizes, "m": 4})


def test_what_is_masked_may_be_beyond_the_end():
    def shown(table, t):
        places = jnp.arange(t)
        return jnp.where((places < table.shape[0])[:, None], jnp.take(table, places, axis=0), 0.0)

    embedded(shown).trace({"w": 3, "d": 2, "y": 5, "t": 6, "m": 4})


def test_positions_that_a_mask_counts():
    """Masks are 0 and 1, also as integers: BLOOM and OPT number their tokens by running sums of them."""

    @qx.architecture(params={"s": "h"}, inputs={"m": qx.Mask("t")})
    def slopes(params, m):
        shown = m.astype(jnp.int32)
        return params["s"][:, None] * ((shown.cumsum() - 1) * shown)

    still = qx.Symmetry("still", qx.Translation("h"), {"s": "s + 0 * g"})
    moved = qx.Symmetry("moved", qx.Translation("h"), {"s": "s + g"})
    assert qx.verify(slopes, still).scope == "every width"
    assert qx.verify(slopes, moved).status == "refuted"
