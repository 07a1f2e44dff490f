"""A JAX backend for geomstats 2.8, registered on demand.

Importing this package does nothing else: neither geomstats nor JAX is imported before `activate` is called.

    import quotax.geomstats_jax as geomstats_jax

    gs = geomstats_jax.activate()
    from geomstats.geometry.spd_matrices import SPDMatrices
"""

from quotax.geomstats_jax.registration import BackendError, activate, is_active

__all__ = ["BackendError", "activate", "is_active"]
