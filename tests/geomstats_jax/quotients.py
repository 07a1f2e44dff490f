"""geomstats' built-in quotients, computed with whichever backend geomstats runs on.

Run as a script (`python quotients.py OUT`) it uses geomstats' own numpy backend and writes the results to OUT.
"""

import sys
import warnings

import numpy as np
import scipy.linalg
import scipy.optimize


class Equation:
    r"""Alignment of SPD matrices $A$ to $B$ by congruences $DAD$ with positive diagonal matrices, by its own equation.

    In the affine-invariant metric $d^2(A, B) = |\log(B^{-1/2} A B^{-1/2})|^2$, and along $A_t = e^{tX} A e^{tX}$ with
    $X$ diagonal its derivative is $4\,\mathrm{tr}(X \log(B^{-1} A))$: aligned is where that logarithm has the diagonal
    zero. NumPy and SciPy only; nothing is minimised and nothing differentiated.
    """

    def align(self, point, base_point):
        return np.stack([self.single(a, b) for a, b in zip(point, base_point, strict=True)])

    def single(self, a, b):
        def diagonal(x):
            scaled = np.exp(x)[:, None] * a * np.exp(x)
            return np.diag(scipy.linalg.logm(np.linalg.solve(b, scaled))).real

        def squared_distance(x):
            scaled = np.exp(x)[:, None] * a * np.exp(x)
            return np.sum(np.log(scipy.linalg.eigh(scaled, b, eigvals_only=True)) ** 2)

        starts = np.random.default_rng(0).normal(size=(8, len(a)))
        found = [scipy.optimize.root(diagonal, start, tol=1e-14).x for start in starts]
        best = min((x for x in found if np.max(np.abs(diagonal(x))) < 1e-12), key=squared_distance)
        return np.exp(best)[:, None] * a * np.exp(best)


class Converged:
    """geomstats' own minimisation, which stops at a gradient of 1e-5, followed by the root of its gradient."""

    def minimize(self, function, start):
        import geomstats.backend as gs
        from geomstats.numerics.optimization import ScipyMinimize

        found = ScipyMinimize(method="L-BFGS-B", autodiff_jac=True).minimize(function, start)
        gradient = lambda x: np.asarray(gs.autodiff.value_and_grad(function)(gs.from_numpy(x))[1])
        found.x = gs.array(scipy.optimize.root(gradient, np.asarray(found.x), tol=1e-14).x)
        return found


def compute(*, by_equation: bool) -> dict[str, np.ndarray]:
    """Projections, lifts, exp, log, dist and curvature of three quotients, at points that depend on no backend.

    Alignment of correlation matrices is a minimisation with derivatives, which the numpy backend does not have: there
    it is done by its equation.
    """
    import geomstats.backend as gs
    from geomstats.geometry.fiber_bundle import DistanceMinimizingAligner
    from geomstats.geometry.full_rank_correlation_matrices import FullRankCorrelationMatrices
    from geomstats.geometry.pre_shape import PreShapeSpace
    from geomstats.geometry.rank_k_psd_matrices import PSDBuresWassersteinMetric, PSDMatrices

    rng = np.random.default_rng(7)
    out: dict[str, np.ndarray] = {}

    def draw(*shape: int):
        return gs.array(rng.normal(size=shape))

    def record(name, total, base, point, other, vectors, *, curvature=False):
        bundle, metric = total.fiber_bundle, base.metric
        u, v = vectors
        horizontal = bundle.horizontal_projection(u, point)
        low = bundle.riemannian_submersion(point)
        tangent = bundle.tangent_riemannian_submersion(u, point)
        # Above: `metric.log` of PSD matrices lifts by eigenvectors, whose signs are the library's choice.
        difference = total.metric.log(bundle.align(other, point), point)
        results = {
            "submersion": low,
            "lift": bundle.riemannian_submersion(bundle.lift(low)),
            "horizontal": horizontal,
            "vertical": bundle.vertical_projection(u, point),
            "tangent": tangent,
            "horizontal_lift": bundle.horizontal_lift(tangent, base_point=low, fiber_point=point),
            "inner": metric.inner_product(tangent, bundle.tangent_riemannian_submersion(v, point), low),
            "exp": metric.exp(0.1 * tangent, low),
            "log": bundle.tangent_riemannian_submersion(difference, point),
            "dist": total.metric.norm(difference, point),
        }
        if curvature:
            w = bundle.horizontal_projection(v, point)
            results["curvature"] = metric.curvature(horizontal, w, w, point)
        if name != "psd":
            low_other = bundle.riemannian_submersion(other)
            results |= {"metric_log": metric.log(low_other, low), "metric_dist": metric.dist(low_other, low)}
        out.update({f"{name}_{key}": np.asarray(value) for key, value in results.items()})

    shapes = PreShapeSpace(4, 3)
    shapes.equip_with_group_action("rotations")
    shapes.equip_with_quotient()
    p, q = (shapes.projection(draw(2, 4, 3)) for _ in range(2))
    vectors = [shapes.to_tangent(draw(2, 4, 3), p) for _ in range(2)]
    record("shapes", shapes, shapes.quotient, p, q, vectors, curvature=True)

    base = PSDMatrices(4, 2, equip=False)
    base.equip_with_metric(PSDBuresWassersteinMetric)
    total = base.metric._total_space
    record("psd", total, base, draw(3, 4, 2), draw(3, 4, 2), [draw(3, 4, 2), draw(3, 4, 2)])

    base = FullRankCorrelationMatrices(3)
    spd = base.metric._total_space
    minimisation = DistanceMinimizingAligner(spd, Converged(), group_elem_shape=(3,))
    spd.fiber_bundle.aligner = Equation() if by_equation else minimisation
    factor, factor_2 = draw(2, 3, 3), draw(2, 3, 3)
    p, q = (gs.matmul(f, gs.transpose(f, (0, 2, 1))) + gs.eye(3) for f in (factor, factor_2))
    vectors = [(lambda m: m + gs.transpose(m, (0, 2, 1)))(draw(2, 3, 3)) for _ in range(2)]
    record("correlation", spd, base, p, q, vectors)
    return out


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    if not hasattr(np, "trapz"):
        setattr(np, "trapz", np.trapezoid)  # noqa: B010 (geomstats' numpy backend imports what numpy 2.4 dropped)
    np.savez(sys.argv[1], **compute(by_equation=True))
