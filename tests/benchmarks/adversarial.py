"""Thousands of claims made to deceive a prover, each verdict compared with float64 where no gate can hide.

    python tests/benchmarks/adversarial.py --count 5000 --seed 0
    python tests/benchmarks/adversarial.py --smoke
    python tests/benchmarks/adversarial.py --seed 0 --only 1234    # one claim again, with its certificate

A claim is a model and a symmetry, drawn from one of the kinds below. Most models are `s + gate(s) * D(params)`, whose
gate no sampling opens, so that the proof alone decides; whether `D` is invariant is evaluated without the gate at sizes
up to 150, at several points and group elements, by `tests/certify/gated.py`, which uses nothing of the prover. A
"proved" that is false at sizes inside its scope, or a "refuted" that is true wherever it was looked, is a failure.
"""

import argparse
import collections
import contextlib
import signal
import time
from pathlib import Path

import jax
import numpy as np
from adversaries import KINDS, gated  # beside this script


class Late(Exception):
    """A claim takes too long."""


@contextlib.contextmanager
def within(seconds):
    """Give up after so many seconds, where Python is reached."""

    def stop(*_):
        raise Late

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def drawn(kinds, seed, index):
    """The claim with this number, and its truth; claims that rounding leaves open are drawn again."""
    kind = kinds[index % len(kinds)]
    for attempt in range(20):
        claim = KINDS[kind](np.random.default_rng([seed, index, attempt]))
        with np.errstate(all="ignore"):
            truth = claim.truth()
        if truth is not None:
            return claim, truth
    return None


def asked(claim, limit):
    """The certificate, or the name of what came instead."""
    try:
        with within(limit), np.errstate(all="ignore"):
            return claim.ask(), None
    except Late:
        return None, f"no verdict after {limit:g} s"
    except Exception as error:  # a crash is a finding, and the campaign goes on
        return None, f"{type(error).__name__}: {str(error)[:160]}"


def forget_programs():
    """Compiled programs hold memory regions, of which a process has few; see tests/conftest.py."""
    maps = Path("/proc/self/maps")
    if maps.exists() and maps.read_bytes().count(b"\n") > 28_000:
        jax.clear_caches()


COLUMNS = ("proved", "narrow", "refuted", "undecided", "raised")


def report(counts, by_size, seconds):
    """Verdicts by kind: of true claims, of false ones, and the share of true ones without size-dependent Python."""
    width = max(map(len, KINDS))
    print(f"\n{'':{width}s}  {'true':>7s} " + " ".join(f"{c:>9s}" for c in COLUMNS) + f"  {'open':>6s}"
          f"  {'false':>7s} " + " ".join(f"{c:>9s}" for c in COLUMNS) + "  seconds")  # fmt: skip
    total_open = total_plain = 0
    for kind in [*dict.fromkeys(k for k, _, _ in counts), "all"]:
        of = lambda truth, c, kind=kind: sum(
            v for (k, t, s), v in counts.items() if t == truth and s == c and kind in (k, "all"))  # fmt: skip
        rows = [[of(truth, c) for c in COLUMNS] for truth in (True, False)]
        plain = sum(v for (k, _), v in by_size.items() if kind in (k, "all"))
        opened = sum(v for (k, s), v in by_size.items() if kind in (k, "all") and s in ("undecided", "raised"))
        spent = sum(v for k, v in seconds.items() if kind in (k, "all"))
        share = f"{100 * opened / plain:5.1f}%" if plain else "-"
        print(f"{kind:{width}s}  {sum(rows[0]):7d} " + " ".join(f"{v:9d}" for v in rows[0]) + f"  {share:>6s}"
              f"  {sum(rows[1]):7d} " + " ".join(f"{v:9d}" for v in rows[1]) + f"  {spent:7.0f}")  # fmt: skip
        total_open, total_plain = opened, plain
    print(
        f"open: undecided or raised, {total_open} of {total_plain} true claims without Python that depends on a size;"
        " narrow: proved for less than every width"
    )


def again(kinds, seed, index, limit):
    """One claim in full."""
    found = drawn(kinds, seed, index)
    if found is None:
        print("no claim with this number has a truth that float64 can say")
        return False
    claim, truth = found
    print(f"{claim.kind}: {claim.name}\nfloat64 says {truth}")
    print("\n".join(f"  {dict(sizes)}: {value}" for sizes, value in claim.known.items()))
    certificate, error = asked(claim, limit)
    print(certificate if error is None else error)
    wrong = None if certificate is None else gated.judged(claim, certificate)
    print(f"WRONG {wrong}" if wrong else "no false verdict")
    return bool(wrong)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--smoke", action="store_true", help="a few claims of each kind")
    parser.add_argument("--only", type=int, help="the claim with this number alone, with its certificate")
    parser.add_argument("--limit", type=float, default=20.0, help="seconds for one claim")
    parser.add_argument("--show", action="store_true", help="print every true claim that is left open")
    options = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    kinds = list(options.kinds)
    if options.only is not None:
        raise SystemExit(again(kinds, options.seed, options.only, options.limit))
    count = min(options.count, 40) if options.smoke else options.count
    counts, plain, seconds = collections.Counter(), collections.Counter(), collections.Counter()
    wrong, crashes, slow = [], collections.Counter(), []
    start, unsaid = time.perf_counter(), 0
    chosen = f"--seed {options.seed}" + (f" --kinds {' '.join(kinds)}" if kinds != list(KINDS) else "")
    for index in range(count):
        found = drawn(kinds, options.seed, index)
        if found is None:
            unsaid += 1
            continue
        claim, truth = found
        begun = time.perf_counter()
        certificate, error = asked(claim, options.limit)
        spent = time.perf_counter() - begun
        seconds[claim.kind] += spent
        if spent > 5:
            slow.append((spent, index, claim.name))
        status = "raised" if certificate is None else certificate.status
        if status == "proved" and certificate.scope != "every width":
            status = "narrow"
        counts[claim.kind, truth, status] += 1
        if truth and not claim.by_size:
            plain[claim.kind, status] += 1
            if status in ("undecided", "raised") and options.show:
                why = error or certificate.residual
                print(f"OPEN {claim.kind} {chosen} --only {index}: {claim.name}\n     {why[:300]}", flush=True)
        if error:
            crashes[error.split(":")[0]] += 1
        fault = None if certificate is None else gated.judged(claim, certificate)
        if fault:
            wrong.append((claim.kind, index, f"{claim.name}: {fault}"))
            print(f"WRONG {claim.kind} {chosen} --only {index}: {claim.name}\n      {fault}", flush=True)
        if (index + 1) % 250 == 0:
            print(f"{index + 1} claims, {time.perf_counter() - start:.0f} s, {len(wrong)} wrong", flush=True)
        forget_programs()
    print(f"\n{chosen}: {sum(counts.values())} claims in {time.perf_counter() - start:.0f} s, {unsaid} without a truth")
    report(counts, plain, seconds)
    for spent, index, name in sorted(slow, reverse=True)[:10]:
        print(f"  {spent:5.1f} s  --only {index}  {name[:100]}")
    for name, times in crashes.most_common():
        print(f"  raised {times} times: {name}")
    by_kind = collections.Counter((kind, "proved" if ": proved" in text else "refuted") for kind, _, text in wrong)
    print(f"  false verdicts: {len(wrong)}" + "".join(f"\n    {k} {v}: {n}" for (k, v), n in sorted(by_kind.items())))
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
