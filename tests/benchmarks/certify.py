"""How long proofs take: `python tests/benchmarks/certify.py`. Prints seconds for each model, tracing and all."""

import time

import jax
from tables import table

import quotax as qx


def timed(label, limit, jobs):
    worst, total, statuses = 0.0, 0.0, []
    for model, symmetry in jobs:
        start = time.perf_counter()
        certificate = qx.verify(model, symmetry)
        taken = time.perf_counter() - start
        worst, total = max(worst, taken), total + taken
        statuses.append(f"{certificate.status}, {certificate.scope}")
    shown = "; ".join(sorted(set(statuses)))
    print(f"{label:32s} worst {worst:7.2f} s  total {total:7.2f} s  (limit {limit} s each)  {shown}", flush=True)


def main():
    jax.config.update("jax_enable_x64", True)
    claims = table("certify.claims")
    qx.verify(*claims.TRUE[0][1:])  # imports and first compilations
    rows = {name: (model, symmetry) for name, model, symmetry in claims.TRUE}
    two_layers = [
        "linear GL",
        "affine GL",
        "ReLU scaling",
        "leaky ReLU scaling",
        "tanh flips",
        "ReLU permutation",
        "exp with a bias",
    ]
    timed("two layers", 1, [rows[name] for name in two_layers])
    for blocks, limit in ((2, 4), (12, 8)):
        model = claims.decoder(blocks)
        for label, (group, action) in claims.decoder_claims(blocks).items():
            if blocks == 2 or label in ("values", "pairs", "stream"):
                timed(f"{blocks}-block decoder, {label}", limit, [(model, qx.Symmetry("claim", group, action))])


if __name__ == "__main__":
    main()
