"""`gs.random`: seeded, of numpy's stream, apart from numpy's global generator."""

import jax
import numpy as np
import pytest

from quotax.geomstats_jax import activate

gs = activate()


def test_a_seed_gives_the_numbers_of_numpys_generator():
    reference = np.random.RandomState(3)
    gs.random.seed(3)
    mean, cov = np.zeros(2), np.array([[2.0, 1.0], [1.0, 2.0]])
    np.testing.assert_array_equal(gs.random.rand(2, 3), reference.rand(2, 3))
    np.testing.assert_array_equal(gs.random.normal(1.0, 2.0, size=(4,)), reference.normal(1.0, 2.0, size=(4,)))
    np.testing.assert_array_equal(gs.random.uniform(-1, 1, size=3), reference.uniform(-1, 1, size=3))
    np.testing.assert_array_equal(gs.random.randint(0, 9, size=5), reference.randint(0, 9, size=5))
    np.testing.assert_allclose(
        gs.random.multivariate_normal(mean, cov, size=4), reference.multivariate_normal(mean, cov, size=4)
    )


def test_the_global_generator_of_numpy_is_left_alone():
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    gs.random.seed(0)
    gs.random.normal(size=10)
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


def test_shapes_and_dtypes():
    assert gs.random.rand().shape == gs.random.normal().shape == ()
    sample = gs.random.rand(3, dtype=gs.get_default_cdtype())
    assert sample.dtype == np.complex128
    assert np.all(np.abs(sample.imag) > 0)
    assert gs.random.uniform(size=2, dtype=np.float32).dtype == np.float32
    assert isinstance(gs.random.rand(2), jax.Array)


def test_choices_are_rows_by_their_probabilities():
    points = np.arange(12.0).reshape(4, 3)
    gs.random.seed(1)
    chosen = gs.random.choice(points, 3, replace=False)
    assert len({tuple(row) for row in np.asarray(chosen)} & {tuple(row) for row in points}) == 3
    assert gs.random.choice(points, 2, axis=1).shape == (4, 2)
    np.testing.assert_array_equal(gs.random.choice(5, 4, p=[0, 0, 0, 1.0, 0]), 3)


def test_a_draw_from_traced_parameters_is_refused():
    with pytest.raises(jax.errors.TracerArrayConversionError):
        jax.jit(lambda m: gs.random.normal(m))(0.0)
