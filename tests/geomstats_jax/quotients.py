"""geomstats' built-in quotients, computed with whichever backend geomstats runs on.

Run as a script (`python quotients.py OUT`) it uses geomstats' own numpy backend and writes the results to OUT.
"""

import sys
import warnings

import numpy as np


def compute() -> dict[str, np.ndarray]:
    """Projections, lifts, exp, log, dist and curvature of three quotients, at points that depend on no backend."""
    import geomstats.backend as gs
    from geomstats.geometry.full_rank_correlation_matrices import FullRankCorrelationMatrices
    from geomstats.geometry.pre_shape import PreShapeSpace
    from geomstats.geometry.rank_k_psd_matrices import PSDBuresWassersteinMetric, PSDMatrices

    rng = np.random.default_rng(7)
    out: dict[str, np.ndarray] = {}

    def draw(*shape: int):
        return gs.array(rng.normal(size=shape))

    def record(name, total, base, point, other, vectors, *, aligned=True, curvature=False):
        bundle, metric = total.fiber_bundle, base.metric
        u, v = vectors
        horizontal = bundle.horizontal_projection(u, point)
        low = bundle.riemannian_submersion(point)
        tangent = bundle.tangent_riemannian_submersion(u, point)
        results = {
            "submersion": low,
            "lift": bundle.riemannian_submersion(bundle.lift(low)),
            "horizontal": horizontal,
            "vertical": bundle.vertical_projection(u, point),
            "tangent": tangent,
            "horizontal_lift": bundle.horizontal_lift(tangent, base_point=low, fiber_point=point),
            "inner": metric.inner_product(tangent, bundle.tangent_riemannian_submersion(v, point), low),
            "exp": metric.exp(0.1 * tangent, low),
        }
        if aligned:
            # Not `metric.log` of the base points: it lifts by eigenvectors, whose signs are the library's choice.
            difference = total.metric.log(bundle.align(other, point), point)
            results |= {
                "log": bundle.tangent_riemannian_submersion(difference, point),
                "dist": total.metric.norm(difference, point),
            }
        if curvature:
            w = bundle.horizontal_projection(v, point)
            results["curvature"] = metric.curvature(horizontal, w, w, point)
            results |= {"metric_log": metric.log(other, point), "metric_dist": metric.dist(other, point)}
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

    # Alignment of correlation matrices minimises numerically, with derivatives that the numpy backend does not have.
    base = FullRankCorrelationMatrices(3)
    spd = base.metric._total_space
    factor, factor_2 = draw(2, 3, 3), draw(2, 3, 3)
    p, q = (gs.matmul(f, gs.transpose(f, (0, 2, 1))) + gs.eye(3) for f in (factor, factor_2))
    vectors = [(lambda m: m + gs.transpose(m, (0, 2, 1)))(draw(2, 3, 3)) for _ in range(2)]
    record("correlation", spd, base, p, q, vectors, aligned=False)
    return out


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    if not hasattr(np, "trapz"):
        setattr(np, "trapz", np.trapezoid)  # noqa: B010 (geomstats' numpy backend imports what numpy 2.4 dropped)
    np.savez(sys.argv[1], **compute())
