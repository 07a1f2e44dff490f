"""The kernel accepts what was found, and nothing that is not so: derivations replayed, corrupted and forged."""

import copy
import json
import random
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sympy as sp

import quotax as qx
from certify import claims
from kernel.evaluation import Numbers
from kernel.proofs import Recorded, derived, replayed, small, stated, wrong_images
from quotax.certify.every_width.opening import Opening, opened
from quotax.certify.every_width.proving import prove_for_every_width
from quotax.certify.every_width.scalar_identities import prove
from quotax.kernel import indices as ix
from quotax.kernel.atoms import Application, Carry, Extreme, Factor, NamedSum, Reduction, Selection
from quotax.kernel.data import replay
from quotax.kernel.elements import Element
from quotax.kernel.images import Refused
from quotax.kernel.indices import Bound, Fixed, Free
from quotax.kernel.lemma import arguments_of, check_law, extreme_effect
from quotax.kernel.loop_laws import timeless
from quotax.kernel.polynomials import TooLarge, slot
from quotax.kernel.proof import Proof, Step
from quotax.kernel.sizes import Size
from quotax.kernel.transformation import Effect, Law

ROWS = {row[0]: row for row in claims.TRUE}
DOZEN = (
    "linear GL", "ReLU scaling", "abs permutation", "tanh flips", "sigmoid flips", "exp with a bias", "softmax rows",
    "log softmax bias", "batch norm scale", "RMS norm O", "ReLU RNN", "state space GL", "attention queries and keys",
    "RoPE adjacent", "conv ReLU scaling", "embedding GL", "unit set to zero", "tanh RNN permutation",
)  # fmt: skip
MALFORMED = (KeyError, IndexError, TypeError, ValueError, AttributeError, AssertionError, ZeroDivisionError)
"""What reading data that is no derivation may raise: nothing is accepted then either."""


def outcome(what, steps):
    """True, False, or the name of what was raised."""
    try:
        return replayed(what, steps)
    except (Refused, TooLarge, *MALFORMED) as error:
        return type(error).__name__


@pytest.mark.parametrize("name", DOZEN)
def test_a_derivation_is_json_and_replays(name):
    what, steps, _ = derived(ROWS[name])
    read = json.loads(json.dumps(steps))
    assert read == steps
    assert replay(what.opening.sheet, what.element, what.claim, read, prove) is True


@pytest.mark.parametrize("name", DOZEN)
def test_every_image_is_the_value_at_the_moved_parameters(name):
    what, steps, _ = derived(ROWS[name])
    assert replayed(what, steps)
    for base in ((2, 3, 2, 1, 3, 2, 2, 3), (1, 2, 3, 2, 1, 2, 3, 1)):
        assert not wrong_images(Recorded.last, what, small(what.opening, base))


@pytest.mark.slow
@pytest.mark.parametrize("row", [r for r in claims.TRUE + claims.FALSE if "decoder" not in r[0]], ids=lambda r: r[0])
def test_every_image_of_every_claim_is_its_value(row):
    """Of broken twins too: their steps are sound up to the end."""
    try:
        what, steps, _ = derived(row)
    except Refused:
        return
    assert replayed(what, steps) is (row in claims.TRUE)
    for base in ((2, 3, 2, 1, 3, 2, 2, 3), (1, 2, 3, 2, 1, 2, 3, 1)):
        assert not wrong_images(Recorded.last, what, small(what.opening, base))


# --- corrupted


def mutated(steps, rng):
    """One thing of a derivation changed."""
    out = copy.deepcopy(steps)
    kind = rng.choice(
        ["drop", "swap images", "coefficient", "law", "atoms", "index", "rule", "effect", "order", "power"]
    )
    step = rng.choice(out)
    if kind == "drop":
        out.remove(step)
    elif kind == "swap images":
        other = rng.choice(out)
        for key in ("image", "laws"):
            if key in step and key in other:
                step[key], other[key] = other[key], step[key]
    elif kind == "coefficient":
        terms = [t for s in out for p in s.get("image", ()) for t in p]
        terms += [t for s in out for law in s.get("laws", ()) for t in law["shift"]]
        if terms:
            rng.choice(terms)[0] = rng.choice(["2", "-1", "1/2", "0"])
        laws = [law for s in out for law in s.get("laws", ())]
        if laws and rng.random() < 0.5:
            rng.choice(laws)["coefficient"] = rng.choice(["2", "-1", "1/3", "0"])
    elif kind == "law":
        laws = [law for s in out for law in s.get("laws", ())]
        if laws:
            law = rng.choice(laws)
            law[rng.choice(["scale", "matrices", "shift"])] = []
    elif kind in ("atoms", "index", "power"):
        factors = [f for f in nested(out) if isinstance(f[0], int) and isinstance(f[1], list) and len(f) == 3]
        if factors:
            factor = rng.choice(factors)
            other = rng.choice(factors)
            part = {"atoms": 0, "index": 1, "power": 2}[kind]
            factor[part] = other[part] if part < 2 else rng.choice(["2", "-1", "1/2", "0"])
    elif kind == "rule":
        step["rule"] = rng.choice(["image", "inline", "lemma", "congruence", "assume", "discharge"])
    elif kind == "effect":
        effects = [e for s in out for e in s.get("effects", ()) if e]
        if effects:
            rng.choice(effects)[rng.choice(["power", "rate", "logs", "shift", "centre"])] = rng.choice(["0", "1", "-1"])
    else:
        rng.shuffle(out)
    return out


def nested(data):
    """All lists in it."""
    if isinstance(data, dict):
        data = list(data.values())
    elif isinstance(data, list) and data:
        yield data
    if isinstance(data, list):
        for part in data:
            yield from nested(part)


def check_mutations(name, count, seed=0):
    what, steps, _ = derived(ROWS[name])
    rng, symbols, results = random.Random(seed), small(what.opening), []
    for _ in range(count):
        found = outcome(what, mutated(steps, rng))
        results.append(found)
        # what was accepted on the way is so, whatever the end
        assert not wrong_images(Recorded.last, what, symbols)
    return results


@pytest.mark.parametrize("name", ["ReLU scaling", "softmax rows", "ReLU RNN", "sigmoid flips", "abs permutation"])
def test_a_corrupted_derivation_is_refused_or_every_step_of_it_is_so(name):
    results = check_mutations(name, 20)
    assert any(r is not True for r in results)


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in DOZEN if n != "attention queries and keys"])
def test_many_corrupted_derivations(name):
    check_mutations(name, 40, seed=1)


TWINS = [
    (true, false) for false in claims.FALSE for true in claims.TRUE if true[1] is false[1] and "decoder" not in true[0]
]  # fmt: skip


def borrowed(pairs, mutations=0):
    wrong = []
    known = {}
    for true, false in pairs:
        if true[0] not in known:
            known[true[0]] = derived(true)
        what, steps, _ = known[true[0]]
        target = stated(false)
        if target.opening is not what.opening:
            continue
        rng = random.Random(5)
        for turn in range(1 + mutations):
            if outcome(target, mutated(steps, rng) if turn else steps) is True:
                wrong.append((true[0], false[0]))
    return wrong


def test_steps_of_a_true_claim_prove_no_false_one():
    assert len(TWINS) >= 40
    assert not borrowed(TWINS)


@pytest.mark.slow
def test_corrupted_steps_of_a_true_claim_prove_no_false_one():
    assert not borrowed(TWINS, 6)


# --- refused, one by one


def written(function, params, inputs=None):
    """A sheet of a small model, with symbols for sizes."""
    model = qx.architecture(params=params, inputs=inputs or {})(function)
    opening = opened(model, {a: a for a in model.axis_names})
    assert isinstance(opening, Opening), opening
    return opening


H = Size.of("h")
I = slot(0, H)


def proof_of(function, params, element, claim, inputs=None):
    opening = written(function, params, inputs)
    proof = Proof(opening.sheet, element, prove)
    numbers = opening.sheet.parameters
    proof.claim(claim(proof.algebra, numbers, lambda at, inverted=False: element.entry(proof.algebra, at, inverted)))
    return proof


def atom_of(proof, kind, number=0):
    return [a for a in proof.algebra.atoms.made if isinstance(a.what, kind)][number]


def scaled_claim(name="b"):
    return by_a_number(name, (I,), None)


POSITIVE = Element("positive", (), H)


def by_a_number(name, at=(), number=()):
    """The claim that a parameter is multiplied by an element at the same indices, or by one that is one number."""

    def claim(algebra, numbers, g):
        factor = g(at if number is None else number)
        return {name: algebra.multiply(algebra.normal(1, [Factor(numbers[name], at, 1)]), factor)}

    return claim


def scaled_sum():
    return proof_of(lambda p: (p["b"] + p["c"]) * p["c"], {"b": "h", "c": "h"}, POSITIVE, scaled_claim())


def test_an_image_with_a_stray_index_is_refused():
    proof = scaled_sum()
    let = atom_of(proof, NamedSum)
    stray = proof.algebra.entry(let, (Free((0, 7), H),))
    with pytest.raises(Refused, match=r"does not become what is said|has an index that it has not"):
        proof.do(Step("image", let.number, (stray,)))
    with pytest.raises(Refused, match=r"the image of b has an index that it has not"):
        proof_of(lambda p: p["b"], {"b": "h"}, POSITIVE,
                 lambda algebra, numbers, g: {"b": g((Free((0, 3), H),))})  # fmt: skip


def test_an_image_is_given_once():
    proof = scaled_sum()
    let = atom_of(proof, NamedSum)
    proof.do(Step("inline", let.number))
    with pytest.raises(Refused, match="has an image already"):
        proof.do(Step("inline", let.number))


def test_an_image_that_is_not_so_is_refused():
    proof = scaled_sum()
    let = atom_of(proof, NamedSum)
    with pytest.raises(Refused, match="does not become what is said"):
        proof.do(Step("image", let.number, (proof.entry(let.number),)))


def test_what_has_no_image_cannot_be_used():
    proof = scaled_sum()
    with pytest.raises(Refused, match=r"nothing says how .* moves"):
        proof.settled()


def test_a_rule_of_another_kind_is_refused():
    proof = proof_of(lambda p: jnp.tanh(p["b"]), {"b": "h"}, POSITIVE, scaled_claim())
    function = atom_of(proof, Application)
    with pytest.raises(Refused, match="is no let"):
        proof.do(Step("inline", function.number))
    with pytest.raises(Refused, match="has an image already"):
        proof.do(Step("congruence", proof.sheet.parameters["b"]))
    with pytest.raises(Refused, match="is no function"):
        proof.do(Step("congruence", proof.algebra.atoms._known["g"].number))


def scan(function, init=0.0):
    return lambda p: jax.lax.scan(lambda t, x: (function(t, x), None), init, p["b"])[0]


def carried():
    proof = proof_of(scan(lambda t, x: 0.5 * t + x), {"b": "h"}, Element("positive", (), None),
                     by_a_number("b", (I,)))  # fmt: skip
    (carry,) = proof.sheet.loops[0].carries
    return proof, carry


def test_a_loop_that_is_not_closed_settles_nothing():
    proof, carry = carried()
    g = proof.element.entry(proof.algebra, ())
    proof.do(Step("assume", 0, (proof.algebra.multiply(proof.entry(carry), g),)))
    assert not proof.settled()
    with pytest.raises(Refused, match="a carry has an image already"):
        proof.do(Step("assume", 0, (proof.entry(carry),)))


def test_a_loop_is_closed_by_its_law_alone():
    proof, carry = carried()
    with pytest.raises(Refused, match="nothing was assumed of this loop"):
        proof.do(Step("discharge", 0))
    with pytest.raises(Refused, match="not every carry has an image"):
        proof.do(Step("assume", 0, ()))
    proof.do(Step("assume", 0, (proof.entry(carry),)))
    for atom in [a for a in proof.algebra.atoms.made if isinstance(a.what, NamedSum)]:
        proof.do(Step("inline", atom.number))
    with pytest.raises(Refused, match=r"the law of a carry of the loop at .* is not kept"):
        proof.do(Step("discharge", 0))


def test_the_law_of_a_carry_may_not_depend_on_time():
    proof, carry = carried()
    algebra, steps = proof.algebra, H.plus(1)
    time = slot(0, steps)
    ramp = algebra.ramp(steps)
    image = algebra.multiply(proof.entry(carry), algebra.entry(ramp, (time,)))
    with pytest.raises(Refused, match="the law of a carry depends on time"):
        proof.do(Step("assume", 0, (image,)))
    with pytest.raises(Refused, match="the law of a carry depends on time"):
        proof.do(Step("assume", 0, (algebra.entry(ramp, (time,)),)))


PERMUTE = Element("permutation", (), H)


def permuted_claim(algebra, numbers, g):
    j = Free((-3, 1), H)
    return {"b": algebra.multiply(g((I, j)), algebra.normal(1, [Factor(numbers["b"], (j,), 1)]), [j])}


def permuting(algebra, place):
    return ((place, (Factor(algebra.atoms._known["g"].number, (place, Bound(0, H)), 1),), Bound(0, H)),)


def test_a_reduction_in_order_is_not_permuted():
    proof = proof_of(lambda p: jnp.argmax(p["b"]) * 1.0, {"b": "h"}, PERMUTE, permuted_claim)
    atom = atom_of(proof, Reduction)
    law = Law(matrices=permuting(proof.algebra, Free((1, 0), H)))
    with pytest.raises(Refused, match="depends on the order of what it reads"):
        proof.do(Step("lemma", atom.number, laws=(law,)))


def test_what_moves_may_not_vary_along_what_is_reduced():
    proof = proof_of(lambda p: jnp.max(p["b"]), {"b": "h"}, POSITIVE, scaled_claim())
    atom = atom_of(proof, Reduction)
    scale = (Factor(proof.algebra.atoms._known["g"].number, (Free((1, 0), H),), 1),)
    with pytest.raises(Refused, match="what moves varies along"):
        proof.do(Step("lemma", atom.number, laws=(Law(scale=scale),)))


def test_a_function_does_not_commute_with_a_matrix():
    element = Element("general", (), H)
    proof = proof_of(lambda p: jnp.tanh(p["b"]), {"b": "h"}, element, permuted_claim)
    with pytest.raises(Refused, match="does not commute with a matrix"):
        proof.do(Step("lemma", atom_of(proof, Application).number, laws=(Law(matrices=permuting(proof.algebra, I)),)))


def test_the_wrong_law_is_refused():
    proof = proof_of(lambda p: jnp.tanh(p["b"]), {"b": "h"}, POSITIVE, scaled_claim())
    number = atom_of(proof, Application).number
    with pytest.raises(Refused, match="does not move so"):
        proof.do(Step("lemma", number, laws=(Law(),)))
    with pytest.raises(Refused, match="has 1 arguments"):
        proof.do(Step("lemma", number, laws=(Law(), Law())))


@pytest.mark.parametrize(("kind", "match"), [
    ("vector", "a factor may vanish"), ("positive", "no proof that"), ("sign", "no proof that"),
])  # fmt: skip
def test_a_factor_that_may_vanish_and_a_lemma_that_is_not_so_are_refused(kind, match):
    proof = proof_of(lambda p: jnp.exp(p["b"]), {"b": "h"}, Element(kind, (), H), scaled_claim())
    law = Law(scale=(Factor(proof.algebra.atoms._known["g"].number, (I,), 1),))
    effect = Effect(power=sp.Integer(1), words="it is homogeneous")
    with pytest.raises(Refused, match=match):
        proof.do(Step("lemma", atom_of(proof, Application).number, laws=(law,), effects=(effect, None)))


def test_two_arguments_that_move_in_two_ways_are_refused():
    both = lambda p: jnp.maximum(p["b"], p["c"])
    proof = proof_of(both, {"b": "h", "c": "h"}, POSITIVE, scaled_claim())
    number, g = atom_of(proof, Application).number, proof.algebra.atoms._known["g"].number
    laws = (Law(scale=(Factor(g, (I,), 1),)), Law())
    effect = Effect(power=sp.Integer(1), words="it is homogeneous")
    with pytest.raises(Refused, match="no proof that"):
        proof.do(Step("lemma", number, laws=laws, effects=(effect, None)))
    proof = proof_of(both, {"b": "h", "c": "h"}, PERMUTE, permuted_claim)
    with pytest.raises(Refused, match="one argument is permuted and another is not"):
        proof.do(Step("lemma", atom_of(proof, Application).number,
                      laws=(Law(matrices=permuting(proof.algebra, I)), Law())))  # fmt: skip


def test_the_root_of_a_negative_multiple_is_refused():
    negated = lambda algebra, numbers, g: {"b": algebra.normal(-2, [Factor(numbers["b"], (I,), 1)])}
    proof = proof_of(lambda p: jnp.sqrt(p["b"]), {"b": "h"}, POSITIVE, negated)
    with pytest.raises(Refused, match="the root of a negative multiple of b"):
        proof.settled()


def test_a_step_that_names_an_atom_of_another_proof_is_refused():
    what, steps, found = derived(ROWS["ReLU scaling"])
    late = len(found.proof.algebra.atoms.made)
    changed = copy.deepcopy(steps)
    step = next(s for s in changed if s["rule"] == "image")
    step["image"][0][0][1][0][0] = late
    with pytest.raises(Refused, match="only another proof has"):
        replayed(what, changed)


def test_a_reduction_moves_by_its_own_law_alone():
    proof = proof_of(lambda p: jnp.max(p["b"]), {"b": "h"}, Element("positive", (), None),
                     by_a_number("b", (I,)))  # fmt: skip
    law = Law(scale=(Factor(proof.algebra.atoms._known["g"].number, (), 1),))
    wrong = Effect(power=sp.Integer(2), words="a common positive factor comes out of it")
    with pytest.raises(Refused, match="a reduction does not move so"):
        proof.do(Step("lemma", atom_of(proof, Reduction).number, laws=(law,), effects=(wrong, None)))
    assert atom_of(proof, Reduction).what.law == Extreme()


# --- forged: each proves something false unless the kernel looks at what a law is made of


def refused(proof, *steps):
    """That these steps do not settle a claim that is false."""
    try:
        for step in steps:
            proof.do(step)
        accepted = proof.settled()
    except Refused:
        return
    if accepted:
        pytest.fail("a false claim was accepted")


def test_a_scale_at_a_bound_index():
    """`|b @ c|` is not left alone by flips of the entries of b."""
    flips = Element("sign", (), H)
    proof = proof_of(lambda p: jnp.abs(p["b"] @ p["c"]), {"b": "h", "c": "h"}, flips, scaled_claim())
    let, function = atom_of(proof, NamedSum), atom_of(proof, Application)
    term = next(iter(let.what.poly))
    (bound,) = proof.algebra.bound_in(term)
    law = Law(scale=(Factor(proof.algebra.atoms._known["g"].number, (bound,), 1),))
    effect = Effect(absolute=True, words="a sign does not change it")
    refused(proof, Step("inline", let.number), Step("lemma", function.number, laws=(law,), effects=(effect, None)))


def test_a_permutation_at_a_fixed_index():
    """`tanh(b[0])` is not left alone by permutations of b."""
    proof = proof_of(lambda p: jnp.tanh(p["b"][0]), {"b": "h"}, PERMUTE, permuted_claim)
    law = Law(matrices=permuting(proof.algebra, Fixed(Size.of(0), H)))
    refused(proof, *(Step("inline", a.number) for a in proof.algebra.atoms.made if isinstance(a.what, NamedSum)),
            Step("lemma", atom_of(proof, Application).number, laws=(law,)))  # fmt: skip


def test_a_word_that_is_empty():
    """A sum is no permutation: `sum_i (tanh(b_i) - tanh(c_i))`, where b and c become their sums at every place."""

    def summed(algebra, numbers, g):
        j = Free((-3, 1), H)
        return {name: algebra.total(algebra.normal(1, [Factor(numbers[name], (j,), 1)]), [j]) for name in ("b",)}

    proof = proof_of(lambda p: jnp.tanh(p["b"]), {"b": "h"}, PERMUTE, summed)
    law = Law(matrices=((I, (), Bound(0, H)),))
    number = atom_of(proof, Application).number
    try:
        proof.do(Step("lemma", number, laws=(law,)))
    except Refused:
        return
    pytest.fail("tanh(sum_j b_j) was said to be sum_j tanh(b_j)")


def test_a_coefficient_of_zero():
    """Whether b is zero is not left alone where b becomes zero."""
    proof = proof_of(lambda p: jnp.where(p["b"] == 0, 1.0, 2.0), {"b": "h"}, POSITIVE, lambda *_: {"b": {}})
    effect = Effect(words="a factor does not change it")
    lets = [Step("inline", a.number) for a in proof.algebra.atoms.made if isinstance(a.what, NamedSum)]
    lemma = Step("lemma", atom_of(proof, Application).number, laws=(Law(Fraction(0)),), effects=(effect, None))
    refused(proof, lemma, *lets)


def test_a_carry_at_a_fixed_time():
    """`a (C[T] - C[0])` with `C[0] = c`, `C[t + 1] = d`: scaling a moves it."""

    def model(p):
        last, kept = jax.lax.scan(lambda t, x: (x, t), p["c"][0], p["b"])
        return p["a"][0] * (last - kept[0])

    proof = proof_of(model, {"a": "1", "b": "h", "c": "1"}, Element("positive", (), None), by_a_number("a"))
    (carry,) = proof.sheet.loops[0].carries
    algebra, steps = proof.algebra, H.plus(1)
    first = algebra.entry(algebra.atoms[carry], (Fixed(Size.of(0), steps),))
    less = algebra.multiply(algebra.add(proof.entry(carry), first, -1), proof.element.entry(algebra, (), True))
    image = algebra.add(first, less)
    refused(proof, Step("assume", 0, (image,)),
            *(Step("inline", a.number) for a in algebra.atoms.made if isinstance(a.what, NamedSum)),
            Step("discharge", 0))  # fmt: skip


def test_an_entry_without_its_indices():
    """`a (T[0] - T[1])` is not left alone by scalings of a: T without an index is no entry of T."""
    number = Element("positive", (), None)

    def model(p):
        rows = p["b"] + p["c"]
        return p["a"][0] * (rows[0] - rows[1])

    proof = proof_of(model, {"a": "1", "b": "2", "c": "2"}, number, by_a_number("a"))
    algebra, inverse = proof.algebra, number.entry(proof.algebra, (), True)
    let = next(a for a in algebra.atoms.made if isinstance(a.what, NamedSum) and a.slots)
    bare = {(Factor(let.number, (), 1),): Fraction(1)}
    image = algebra.add(bare, algebra.multiply(algebra.add(proof.entry(let.number), bare, -1), inverse))
    others = [Step("inline", a.number) for a in algebra.atoms.made if isinstance(a.what, NamedSum) and a is not let]
    refused(proof, Step("image", let.number, (image,)), *others)


def test_the_power_of_a_trace():
    """`(sum_j g_jj b)^-1` is no `sum_j g_jj b^-1`."""

    def traced(algebra, numbers, g):
        j = Free((-3, 1), H)
        return {"b": algebra.multiply(g((j, j)), algebra.normal(1, [Factor(numbers["b"], (I,), 1)]), [j])}

    proof = proof_of(lambda p: 1 / p["b"], {"b": "h"}, PERMUTE, traced)
    number = proof.sheet.parameters["b"]
    if proof._monomial_power(number, proof.images[number], -1) is not None:
        pytest.fail("the power of a trace was said to be the trace of powers")


@pytest.mark.parametrize(
    "index", [["bound", -1, "h"], ["fixed", "h", "h"], ["affine", "1", 1, ["free", [0, 0], "h"], "h"]]
)
def test_data_may_not_name_an_index_that_there_is_none_of(index):
    """A bound index of a negative number stands for a pattern; a position at or above its extent for nothing."""
    from quotax.kernel.data import _Decoder

    what = stated(ROWS["ReLU scaling"])
    try:
        _Decoder(Proof(what.opening.sheet, what.element, prove)).index(index)
    except Refused:
        return
    pytest.fail("an index out of bounds was read")


SHIFTS = Element("vector", (), H)


def test_two_arguments_that_are_shifted_by_two_numbers():
    """`max(b + g, c + 2 g)` is no `max(b, c) + g`."""

    def shifted(algebra, numbers, g):
        own = {name: algebra.normal(1, [Factor(numbers[name], (I,), 1)]) for name in "bc"}
        return {"b": algebra.add(own["b"], g((I,))), "c": algebra.add(own["c"], g((I,)), 2)}

    proof = proof_of(lambda p: jnp.maximum(p["b"], p["c"]), {"b": "h", "c": "h"}, SHIFTS, shifted)
    shift = SHIFTS.entry(proof.algebra, (I,))
    laws = (Law(shift=shift), Law(shift=proof.algebra.scale(shift, 2)))
    effect = Effect(shift=sp.Integer(1), words="it moves along")
    with pytest.raises(Refused, match="two arguments move in two ways"):
        proof.do(Step("lemma", atom_of(proof, Application).number, laws=laws, effects=(None, effect)))


def test_two_arguments_that_are_multiplied_by_two_numbers():
    """`max(g b, 2 g c)` is no `g max(b, c)`."""

    def scaled(algebra, numbers, g):
        own = {name: algebra.multiply(algebra.normal(1, [Factor(numbers[name], (I,), 1)]), g((I,))) for name in "bc"}
        return {"b": own["b"], "c": algebra.scale(own["c"], 2)}

    proof = proof_of(lambda p: jnp.maximum(p["b"], p["c"]), {"b": "h", "c": "h"}, POSITIVE, scaled)
    scale = (Factor(proof.algebra.atoms._known["g"].number, (I,), 1),)
    effect = Effect(power=sp.Integer(1), words="it is homogeneous")
    laws = (Law(scale=scale), Law(Fraction(2), scale))
    with pytest.raises(Refused, match="two arguments move in two ways"):
        proof.do(Step("lemma", atom_of(proof, Application).number, laws=laws, effects=(effect, None)))


def test_two_arguments_that_are_permuted_in_two_ways():
    """`max(P b, P' c)` is no permutation of `max(b, c)`."""

    def twice(algebra, numbers, g):
        j = Free((-3, 1), H)
        rows = {"b": g((I, j)), "c": g((j, I))}
        return {n: algebra.multiply(r, algebra.normal(1, [Factor(numbers[n], (j,), 1)]), [j]) for n, r in rows.items()}

    proof = proof_of(lambda p: jnp.maximum(p["b"], p["c"]), {"b": "h", "c": "h"}, PERMUTE, twice)
    g, end = proof.algebra.atoms._known["g"].number, Bound(0, H)
    laws = tuple(Law(matrices=((I, (Factor(g, at, 1),), end),)) for at in ((I, end), (end, I)))
    with pytest.raises(Refused, match="two arguments are permuted in two ways"):
        proof.do(Step("lemma", atom_of(proof, Application).number, laws=laws))


def test_a_shift_that_varies_along_what_is_reduced():
    """`max_i (b_i + g_i)` is no `max_i b_i + g_i`."""
    plus = lambda algebra, numbers, g: {"b": algebra.add(algebra.normal(1, [Factor(numbers["b"], (I,), 1)]), g((I,)))}
    proof = proof_of(lambda p: jnp.max(p["b"]), {"b": "h"}, SHIFTS, plus)
    touched = Free((1, 0), H)
    effect = Effect(shift=sp.Integer(1), words="of a common shift, it moves along")
    law = Law(shift=SHIFTS.entry(proof.algebra, (touched,)))
    with pytest.raises(Refused, match="what moves varies along"):
        proof.do(Step("lemma", atom_of(proof, Reduction).number, laws=(law,), effects=(None, effect)))


@pytest.mark.parametrize(("image", "power"), [("b * b", -1), ("s * b", Fraction(1, 2)), ("b + 1", -1), ("-b", -1),
                                              ("-4 * b", Fraction(1, 2)), ("-2 * b", -1), ("s * b", -2)])  # fmt: skip
def test_a_power_of_a_monomial_is_its_value_or_is_not_said(image, power):
    """`(alpha T)^p = alpha^p T^p` where that is so: T occurs once, to the first power, and roots are of positives."""
    proof = proof_of(lambda p: p["b"] + p["c"], {"b": "h", "c": "h"}, Element("sign", (), H), lambda *_: {})
    algebra, number = proof.algebra, proof.sheet.parameters["b"]
    b, s = proof.entry(number), proof.element.entry(algebra, (I,))
    poly = {"b * b": lambda: algebra.multiply(b, b), "s * b": lambda: algebra.multiply(s, b),
            "b + 1": lambda: algebra.add(b, {(): Fraction(1)}), "-b": lambda: algebra.scale(b, -1),
            "-4 * b": lambda: algebra.scale(b, -4), "-2 * b": lambda: algebra.scale(b, -2)}[image]()  # fmt: skip
    found = proof._monomial_power(number, poly, power)
    values = {"b": np.array([0.7, 1.3]), "c": np.ones(2)}
    numbers = Numbers(algebra.atoms, {"h": 2}, values, given={algebra.atoms._known["g"].number: [-1.0, 1.0]})
    assert (found is None) == (image in ("b * b", "b + 1") or (power == Fraction(1, 2)))
    if found is not None:
        np.testing.assert_allclose(numbers.poly(found, [I]), numbers.poly(poly, [I]) ** float(power), rtol=1e-12)


@pytest.mark.parametrize("kind", ["permutation", "orthogonal"])
@pytest.mark.parametrize("image", ["g T", "g g T", "T g' row", "g T^2", "2 g T", "g T + T", "g_ii T", "s T"])
def test_only_a_permuted_entry_is_one(image, kind):
    """What a guard asks: `T'` is `T` at places that are a permutation of its own."""
    element = Element(kind, (), H)
    proof = proof_of(lambda p: p["b"] + p["c"], {"b": "h", "c": "h"}, element, lambda *_: {})
    algebra, number = proof.algebra, proof.sheet.parameters["b"]
    g, j, k = algebra.atoms._known["g"].number, Bound(0, H), Bound(1, H)
    poly = {
        "g T": [(1, [Factor(g, (I, j), 1), Factor(number, (j,), 1)])],
        "g g T": [(1, [Factor(g, (I, k), 1), Factor(g, (k, j), 1), Factor(number, (j,), 1)])],
        "T g' row": [(1, [Factor(g, (j, I), 1), Factor(number, (j,), 1)])],
        "g T^2": [(1, [Factor(g, (I, j), 1), Factor(number, (j,), 2)])],
        "2 g T": [(2, [Factor(g, (I, j), 1), Factor(number, (j,), 1)])],
        "g T + T": [(1, [Factor(g, (I, j), 1), Factor(number, (j,), 1)]), (1, [Factor(number, (I,), 1)])],
        "g_ii T": [(1, [Factor(g, (j, j), 1), Factor(number, (I,), 1)])],
        "s T": [(1, [Factor(proof.sheet.parameters["c"], (I,), 1), Factor(number, (I,), 1)])],
    }[image]
    proof.images[number] = {tuple(term): Fraction(c) for c, term in poly}
    expected = image in ("g T", "g g T", "T g' row") and kind == "permutation"
    assert proof._permuted_entry(proof.entry(number)) is expected


def test_a_law_of_a_lemma_has_whole_entries():
    """A factor of a law with an index too few is refused before anything is computed with it."""
    proof = proof_of(lambda p: jnp.tanh(p["b"]), {"b": "h"}, POSITIVE, scaled_claim())
    g = proof.algebra.atoms._known["g"].number
    for law in (Law(scale=(Factor(g, (), 1),)), Law(matrices=((I, (Factor(g, (I, Bound(0, H)), 1),), Bound(0, H)),)),
                Law(shift={(Factor(g, (I, I), 1),): Fraction(1)})):  # fmt: skip
        with pytest.raises(Refused, match="an entry of g with the wrong indices"):
            check_law(proof, law)


def test_the_law_of_a_carry_reads_it_at_its_own_time():
    """Not at the time before, not at two times, and not where time is part of another index."""
    proof, carry = carried()
    time = slot(0, H.plus(1))
    for at in (ix.affine(H, -1, time, time.extent), Fixed(Size.of(0), time.extent)):
        with pytest.raises(Refused, match="the law of a carry depends on time"):
            timeless(proof, carry, {(Factor(carry, (at,), 1),): Fraction(1)})
    with pytest.raises(Refused, match="the law of a carry depends on time"):
        timeless(proof, carry, {(Factor(carry, (time,), 1), Factor(carry, (Fixed(H, time.extent),), 1)): Fraction(1)})
    timeless(proof, carry, proof.entry(carry))


def test_a_selection_moves_with_the_position_that_it_reads():
    """`a[c > 0]` is not read where it was when c changes its sign."""
    model = lambda p: p["a"][(p["c"][0] > 0).astype(int)]
    for name, at in (("c", ()), ("a", (slot(0, Size.of(2)),))):
        proof = proof_of(model, {"a": "2", "c": "1"}, Element("sign", (), None), by_a_number(name, at))
        atoms = [a for a in proof.algebra.atoms.made if isinstance(a.what, Application | NamedSum)]
        selection = atom_of(proof, Selection)
        for atom in (a for a in atoms if a.number < selection.number):
            proof.do(Step("congruence", atom.number))
        if name == "a":
            assert proof.image(selection.number) == proof.entry(selection.number)
        else:
            with pytest.raises(Refused, match=r"nothing says how \[position=·\] moves"):
                proof.image(selection.number)


def test_a_carry_is_not_read_twice_at_its_time():
    """`C[t, t]` depends on time, whatever the other slots are."""
    proof, _ = carried()
    square = proof.algebra.atoms.make("square", Carry(), "C", (H, H))
    with pytest.raises(Refused, match="the law of a carry depends on time"):
        timeless(proof, square.number, {(Factor(square.number, (I, I), 1),): Fraction(1)})
    timeless(proof, square.number, proof.entry(square.number))


def test_the_power_of_a_sum_of_factors():
    """`(sum_k s_ki T_i)^-1` is no `sum_k s_ki^-1 T_i^-1`."""
    copies = Element("positive", (Size.of("k"),), H)
    proof = proof_of(lambda p: 1 / p["b"], {"b": "h"}, copies, lambda *_: {})
    number, g = proof.sheet.parameters["b"], proof.algebra.atoms._known["g"].number
    summed = {(Factor(g, (Bound(0, Size.of("k")), I), 1), Factor(number, (I,), 1)): Fraction(1)}
    assert proof._monomial_power(number, summed, -1) is None


def test_a_place_in_order_is_not_permuted_where_rows_are_too():
    """`argmax_j b_ij` along the second of two dimensions that are both permuted."""

    def both(algebra, numbers, g):
        k, m = Free((-3, 1), H), Free((-3, 2), H)
        moved = algebra.multiply(g((slot(0, H), k)), algebra.normal(1, [Factor(numbers["b"], (k, m), 1)]), [k])
        return {"b": algebra.multiply(g((slot(1, H), m)), moved, [m])}

    proof = proof_of(lambda p: jnp.argmax(p["b"], 1) * 1.0, {"b": "h h"}, PERMUTE, both)
    matrices = (*permuting(proof.algebra, I), *permuting(proof.algebra, Free((1, 0), H)))
    with pytest.raises(Refused, match="depends on the order of what it reads"):
        proof.do(Step("lemma", atom_of(proof, Reduction).number, laws=(Law(matrices=matrices),)))


def test_the_law_of_a_mask_is_not_one_of_what_it_is_composed_with():
    """`mask(tanh(g b))` is no `g mask(tanh(b))`, though a positive factor comes out of the mask itself."""
    model = lambda p: jnp.where(jnp.arange(p["b"].shape[0]) > 1, jnp.tanh(p["b"]), -jnp.inf)
    proof = proof_of(model, {"b": "h"}, POSITIVE, scaled_claim())
    mask = next(a for a in proof.algebra.atoms.made if a.name == "mask")
    g = proof.algebra.atoms._known["g"].number
    _, symbols, _ = arguments_of(proof, mask, 1)
    laws = (Law(scale=(Factor(g, (I,), 1),)), *(Law() for _ in symbols[1:]))
    effect = Effect(power=sp.Integer(1), words="a common positive factor comes out of it")
    for atom in (a for a in proof.algebra.atoms.made if isinstance(a.what, Application) and a.number < mask.number):
        proof.do(Step("congruence", atom.number))
    with pytest.raises(Refused, match="no proof that"):
        proof.do(Step("lemma", mask.number, laws=laws, effects=(effect, None), composed=1))


@pytest.mark.parametrize(("moves", "proved"), [("bc", True), ("b", False), ("c", False)])
def test_a_place_moves_with_the_entry_that_it_is_of(moves, proved):
    """`c[argmax b]` keeps its value when both are permuted, and not when one is."""
    model = qx.architecture(params={"b": "h", "c": "h"}, inputs={})(lambda p: p["c"][jnp.argmax(p["b"])])
    action = qx.Symmetry("permuted", qx.Permutation("h"), {name: f"g @ {name}" for name in moves}).bind(model.params)
    assert prove_for_every_width(model, action).proved is proved


@pytest.mark.parametrize("scale", ["same", "none", None])
def test_an_extreme_moves_as_numbers_do(scale):
    """A maximum and its place, of positive multiples and of shifts; nothing is said of a flip."""
    rule = Extreme(scale, {"same": True, "none": False, None: None}[scale])
    positive, shift = extreme_effect(rule, "positive"), extreme_effect(rule, "shift")
    assert extreme_effect(rule, "sign") is extreme_effect(rule, "nonzero") is None
    if scale is None:
        assert positive is shift is None
        return
    values, compute = np.array([-1.0, 3.0, 2.0]), np.max if scale == "same" else np.argmax
    assert compute(2.5 * values) == 2.5 ** float(positive.power) * compute(values)
    assert compute(values + 0.5) == compute(values) + 0.5 * float(shift.shift)


def test_a_carry_that_becomes_its_reciprocal():
    """Where the carry becomes one, it does not become its reciprocal, of which no turn has been looked at."""
    model = lambda p: jax.lax.scan(lambda t, x: (x, None), p["c"][0], p["b"])[0]
    proof = proof_of(model, {"b": "h", "c": "1"}, POSITIVE, lambda *_: {key: {(): Fraction(1)} for key in "bc"})
    (carry,) = proof.sheet.loops[0].carries
    ((entry,),) = proof.entry(carry)
    proof.do(Step("assume", 0, ({(entry._replace(power=-1),): Fraction(1)},)))
    for atom in [a for a in proof.algebra.atoms.made if isinstance(a.what, NamedSum)]:
        proof.do(Step("inline", atom.number))
    with pytest.raises(Refused, match="the law of a carry has a power of it"):
        proof.do(Step("discharge", 0))


def test_the_root_of_a_square_that_may_vanish():
    """`(s² T)^(1/2) = |s| T^(1/2)` for s that is never zero; of one that may be, nothing is said."""
    for kind, said in (("nonzero", True), ("vector", False)):
        proof = proof_of(lambda p: p["b"], {"b": "h"}, Element(kind, (), H), lambda *_: {})
        number, g = proof.sheet.parameters["b"], proof.algebra.atoms._known["g"].number
        poly = {(Factor(number, (I,), 1), Factor(g, (I,), 2)): Fraction(1)}
        assert (proof._monomial_power(number, poly, Fraction(1, 2)) is not None) is said
