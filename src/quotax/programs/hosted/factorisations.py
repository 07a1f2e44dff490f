"""Factorisations of matrices by LAPACK: no number where there is none, as JAX has it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from quotax.programs.hosted.makers import Arrays, Kernel, Maker, Params, Unhosted, prepared
from quotax.trees import AnyArray


def _cholesky(params: Params, avals: Arrays, out: AnyArray) -> Kernel:
    def run(x: np.ndarray) -> np.ndarray:
        try:
            return np.linalg.cholesky(x)
        except np.linalg.LinAlgError:
            if x.ndim == 2:
                return np.full_like(x, np.nan)
            return np.stack([run(one) for one in x])

    return run


def _triangular_solve(params: Params, avals: Arrays, out: AnyArray) -> Kernel:
    if params["conjugate_a"] and out.dtype.kind == "c":
        raise Unhosted("triangular_solve")

    from scipy.linalg import solve_triangular

    def one(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        left, lower, over = params["left_side"], params["lower"], bool(params["transpose_a"])
        if not np.all(np.isfinite(a)) or (not params["unit_diagonal"] and not np.all(np.diagonal(a))):
            return np.full_like(b, np.nan)
        trans, right = (over, b) if left else (not over, b.T)
        found = solve_triangular(
            a, right, trans=int(trans), lower=lower, unit_diagonal=params["unit_diagonal"], check_finite=False
        )
        return found if left else found.T

    return lambda a, b: _batched(one, (a, b), out.shape)


def _batched(one: Kernel, arrays: Arrays, shape: Sequence[int]) -> np.ndarray:
    if len(shape) == 2 or 0 in shape:
        return one(*arrays) if 0 not in shape else np.zeros(shape, arrays[-1].dtype)
    flat = [a.reshape(-1, *a.shape[-2:]) for a in arrays]
    return np.stack([one(*matrices) for matrices in zip(*flat, strict=True)]).reshape(shape)


def _eigh(params: Params) -> Kernel:
    if params.get("subset_by_index") is not None:
        raise Unhosted("eigh")
    triangle = "L" if params["lower"] else "U"

    def run(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        try:
            if not np.all(np.isfinite(x)):
                raise np.linalg.LinAlgError
            values, vectors = np.linalg.eigh(x, triangle)
        except np.linalg.LinAlgError:
            if x.ndim == 2:
                return np.full_like(x, np.nan), np.full_like(x[0], np.nan)
            pairs = [run(one) for one in x]
            return np.stack([v for v, _ in pairs]), np.stack([w for _, w in pairs])
        return vectors, values

    return run


def _svd(params: Params) -> Kernel:
    if params.get("subset_by_index") is not None:
        raise Unhosted("svd")
    vectors, full = params["compute_uv"], params["full_matrices"]

    def run(x: np.ndarray) -> tuple[np.ndarray, ...]:
        try:
            if not np.all(np.isfinite(x)):
                raise np.linalg.LinAlgError
            found = np.linalg.svd(x, full_matrices=full, compute_uv=vectors)
        except np.linalg.LinAlgError:
            if x.ndim == 2:
                return tuple(np.full_like(part, np.nan) for part in run(np.zeros_like(x)))
            return tuple(np.stack(part) for part in zip(*map(run, x), strict=True))
        return (found.S, found.U, found.Vh) if vectors else (found,)

    return run


def _lu(params: Params) -> Kernel:
    from scipy.linalg import get_lapack_funcs

    def one(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        if not x.size or not np.all(np.isfinite(x)):
            order = np.arange(x.shape[0], dtype=np.int32)
            return np.full_like(x, np.nan), order[: min(x.shape)], order
        found, pivots, _ = get_lapack_funcs("getrf", (x,))(x)
        order = np.arange(x.shape[0], dtype=np.int32)
        for i, j in enumerate(pivots):
            order[[i, j]] = order[[j, i]]
        return found, pivots.astype(np.int32), order

    def run(x: np.ndarray) -> tuple[np.ndarray, ...]:
        if x.ndim == 2:
            return one(x)
        parts = zip(*map(one, x.reshape(-1, *x.shape[-2:])), strict=True)
        stacked = [np.stack(part) for part in parts]
        return tuple(part.reshape(*x.shape[:-2], *part.shape[1:]) for part in stacked)

    return run


def _qr(params: Params) -> Kernel:
    if params["pivoting"]:
        raise Unhosted("qr")
    mode = "complete" if params["full_matrices"] else "reduced"
    return lambda x: tuple(np.linalg.qr(x, mode))


FACTORISATIONS: dict[str, Maker] = {
    "cholesky": _cholesky,
    "eigh": prepared(_eigh),
    "lu": prepared(_lu),
    "qr": prepared(_qr),
    "svd": prepared(_svd),
    "triangular_solve": _triangular_solve,
}
"""These primitives, by name."""
