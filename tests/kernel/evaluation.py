"""Numbers for polynomials in named indices, by brute force; nothing of the rewriting is used.

A term is evaluated at all values of all its indices at once, each index an axis of its own, and summed over the bound
ones. Every atom is what its kind says: a named sum is its definition, a function is evaluated, a carry is turned.
"""

import ast
import itertools
import re

import jax
import numpy as np
import sympy as sp

from quotax.kernel import atoms as kinds
from quotax.kernel import indices as ix
from quotax.kernel.indices import Affine, Bound, Fixed, Free, Pair
from quotax.kernel.polynomials import slot
from quotax.kernel.sizes import Size

MOST = 1e6
"""Places that a term may be evaluated at."""


class OutOfBounds(AssertionError):
    """An index is not within its extent."""


class TooMany(Exception):
    """A term is summed over more places than there is memory for."""


class Opaque(Exception):
    """A function of which the sheet says nothing but its name."""


class Numbers:
    """Values of polynomials at these sizes of the axes and these arrays, by name for parameters and inputs.

    `given` has the values of atoms by number, before all else: those of a group element, or of atoms made by hand.
    """

    def __init__(self, atoms, sizes, values=None, loops=(), given=None):
        self.atoms, self.sizes, self.loops = atoms, sizes, loops
        self.values = values or {}
        self.given = {n: np.asarray(v, float) for n, v in (given or {}).items()}
        self.cache = dict(self.given)

    def size(self, size):
        return Size.of(size).at(self.sizes)

    # --- polynomials

    def poly(self, poly, labels=None):
        """The array of values, one axis for each label; by default the free indices that occur, in their order."""
        if labels is None:
            labels = sorted(
                {i for t in poly for _, at, _ in t for j in at for i in ix.parts(j) if isinstance(i, Free)},
                key=lambda i: i.place,
            )
        shape = tuple(self.size(i.extent) for i in labels)
        total = np.zeros(shape)
        with np.errstate(all="ignore"):
            for term, coefficient in poly.items():
                total = total + float(coefficient) * self.term(term, labels)
        return total

    def term(self, term, labels):
        parts = {i for _, at, _ in term for j in at for i in ix.parts(j) if isinstance(i, (Free, Bound))}
        bound = sorted((i for i in parts if isinstance(i, Bound)), key=lambda i: (i.number, str(i.extent)))
        assert parts - set(bound) <= set(labels), f"stray free indices {parts - set(bound) - set(labels)}"
        axes = [*labels, *bound]
        shape = [self.size(i.extent) for i in axes]
        if 0 in shape:
            return np.zeros(shape[: len(labels)])
        if np.prod(shape, dtype=float) > MOST:
            raise TooMany(f"{np.prod(shape, dtype=float):.0f} places")
        grid = {
            i: np.arange(n).reshape([n if k == j else 1 for j in range(len(axes))])
            for k, (i, n) in enumerate(zip(axes, shape, strict=True))
        }
        product = np.ones(())
        for number, at, power in term:
            array, extents = self.atom(number), self.atoms[number].slots
            assert array.shape == tuple(map(self.size, extents)), self.atoms[number]
            if [i.extent for i in at] != list(extents):
                raise OutOfBounds(f"{self.atoms[number].name} has other slots than {at}")
            positions = tuple(self.position(i, grid) for i in at)
            for position, index, extent in zip(positions, at, extents, strict=True):
                if np.any(position < 0) or np.any(position >= self.size(extent)):
                    raise OutOfBounds(f"{index} of {self.atoms[number].name}")
            factor = array[positions] if positions else array
            product = product * (factor if power == 1 else factor ** float(power))
        whole = np.broadcast_to(product, shape)
        return whole.sum(axis=tuple(range(len(labels), len(axes))))

    def position(self, index, grid):
        """The position that an index is, where free and bound ones have these values."""
        if isinstance(index, Fixed):
            return np.asarray(self.size(index.position))
        if isinstance(index, Pair):
            inner = self.size(index.inner.extent)
            return self.position(index.outer, grid) * inner + self.position(index.inner, grid)
        if isinstance(index, Affine):
            return self.size(index.start) + index.stride * self.position(index.of, grid)
        return grid[index]

    # --- atoms

    def atom(self, number):
        if number not in self.cache:
            value = np.asarray(self._atom(self.atoms[number]), float)
            self.cache[number] = np.broadcast_to(value, tuple(map(self.size, self.atoms[number].slots)))
        return self.cache[number]

    def key(self, atom):
        return next(k for k, a in self.atoms._known.items() if a is atom)

    def _atom(self, atom):
        shape = tuple(map(self.size, atom.slots))
        slots = [slot(k, extent) for k, extent in enumerate(atom.slots)]
        match atom.what:
            case kinds.Parameter() | kinds.Input() | kinds.TokenInput():
                return np.asarray(self.values[atom.name], float).reshape(shape)
            case kinds.Extent(symbol):
                return Size.of(symbol).at(self.sizes)
            case kinds.Ramp():
                return np.arange(shape[0])
            case kinds.Delta():
                return np.eye(shape[0])
            case kinds.Order():
                return np.triu(np.ones(shape))
            case kinds.Window(stride, dilation, low, base):
                at, tap, entry = np.ogrid[tuple(slice(n) for n in shape)]
                return stride * at + dilation * tap - self.size(low) == base * entry
            case kinds.Constant(array):
                return np.array(array, float)
            case kinds.Rational(value):
                return float(value)
            case kinds.Real(None):
                raise Opaque(atom.name)
            case kinds.Real(value) | kinds.Infinite(value):
                return np.asarray(value, float)
            case kinds.NamedSum(poly):
                return self.poly(poly, slots)
            case kinds.Selection(poly):
                row = self.poly(poly, slots[:-1])
                if self.key(atom)[:2] == ("positions", "clipped"):  # JAX reads at positions that it clips to the array
                    row = np.clip(row, 0, shape[-1] - 1)
                return row[..., None] == np.arange(shape[-1])
            case kinds.Magnitude(of):
                return np.abs(self.atom(of))
            case kinds.Logarithm(of):
                return np.log(np.abs(self.atom(of)))
            case kinds.Exponential(poly):
                return np.exp(self.poly(poly, slots))
            case kinds.Application(function, arguments, _):
                with np.errstate(all="ignore"):
                    return evaluated(function, [self.poly(a, slots) for a in arguments])
            case kinds.Reduction():
                return self._reduction(atom.what, slots, shape)
            case kinds.Carry():
                return self._carry(atom)
        raise AssertionError(f"{atom.what} has no numbers of its own")

    def _reduction(self, made, slots, shape):
        kept = slots[: len(slots) - len(made.new)]
        value = self.poly(made.definition, [*kept, *made.touched])
        lead, own = value.shape[: len(kept)], value.shape[len(kept) :]
        flat = value.reshape(*lead, -1)
        count, new = flat.shape[-1], shape[len(kept) :]
        match made.name:
            case "max":
                return flat.max(-1, initial=-np.inf)
            case "and":
                return flat.min(-1, initial=1)
            case "min":
                return flat.min(-1, initial=np.inf)
            case "or":
                return flat.max(-1, initial=0)
            case "prod":
                return flat.prod(-1)
            case "argmax" | "argmin":
                return getattr(np, made.name)(flat, -1)
            case "argmax place" | "argmin place":
                return getattr(np, made.name.split()[0])(flat, -1)[..., None] == np.arange(count)
            case "top k places place":
                chosen = np.argsort(-flat, -1, kind="stable")[..., : int(np.prod(new[:-1]))]
                return chosen.reshape(*lead, *new[:-1])[..., None] == np.arange(count)
            case "sort":
                return np.sort(flat, -1).reshape(*lead, *own)
            case "top k" | "top k places":
                chosen = np.argsort(-flat, -1, kind="stable")[..., : int(np.prod(new))]
                found = chosen if made.name.endswith("places") else np.take_along_axis(flat, chosen, -1)
                return found.reshape(*lead, *new)
            case "cummax" | "cummin" | "cumprod" | "cumlogsumexp":
                ufunc = {"cummax": np.maximum, "cummin": np.minimum, "cumprod": np.multiply}.get(
                    made.name, np.logaddexp
                )
                step = -1 if made.settings else 1
                return ufunc.accumulate(flat[..., ::step], -1)[..., ::step].reshape(*lead, *own)
            case "window max" | "window min":
                return self._window(made, value, len(kept), new)
        raise AssertionError(f"no numbers for a reduction {made.name}")

    def _window(self, made, value, lead, new):
        """The extreme over windows of dimensions that have one index each."""
        windows, strides, padding, base, dilation = ast.literal_eval(made.settings)
        assert len(windows) == value.ndim - lead, "a dimension that no window slides along"
        worst, best = (-np.inf, max) if made.name == "window max" else (np.inf, min)
        out = np.full((*value.shape[:lead], *new), worst)
        for place in np.ndindex(*out.shape):
            found = [worst]
            for taps in itertools.product(*map(range, windows)):
                at = []
                for d, tap in enumerate(taps):
                    position = place[lead + d] * strides[d] + tap * dilation[d] - padding[d][0]
                    entry, rest = divmod(position, base[d])
                    at.append(None if rest or not 0 <= entry < value.shape[lead + d] else entry)
                if None not in at:
                    found.append(value[(*place[:lead], *at)])
            out[place] = best(found)
        return out

    def _carry(self, atom):
        """All carries of the loop, turned from the start; what a turn may not read yet is no number."""
        loop = next(one for one in self.loops if atom.number in one.carries)
        length = self.size(loop.length)
        carries = {}
        for number, init in zip(loop.carries, loop.inits, strict=True):
            extents = self.atoms[number].slots
            labels = [slot(k, e) for k, e in enumerate(extents) if k]
            carries[number] = np.full(tuple(map(self.size, extents)), np.nan)
            carries[number][0] = self.poly(init, labels)
        for turn in range(length):
            now = Numbers(self.atoms, self.sizes, self.values, self.loops, {**self.given, **carries})
            for number, following in zip(loop.carries, loop.nexts, strict=True):
                extents = self.atoms[number].slots
                labels = [slot(0, loop.length), *(slot(k, e) for k, e in enumerate(extents) if k)]
                carries[number][turn + 1] = now.poly(following, labels)[turn]
        self.cache.update(carries)
        return carries[atom.number]


def contradicted(numbers):
    """The atoms that have been evaluated and are not what is known of their signs and of their selections."""
    found = []
    for number, value in numbers.cache.items():
        atom = numbers.atoms[number]
        finite = value[np.isfinite(value)]
        holds = {
            "positive": finite > 0,
            "nonnegative": finite >= 0,
            "nonzero": finite != 0,
            "sign": np.abs(finite) == 1,
            "boolean": finite * (finite - 1) == 0,
            "real": True,
        }
        wrong = not np.all(holds[atom.sign])
        for rows, columns, total in atom.rows:
            hits = np.moveaxis(value, columns, range(len(columns))).reshape(-1, *(value.shape[r] for r in rows)).sum(0)
            wrong |= not np.all(hits == 1 if total else hits <= 1)
        if wrong:
            found.append((atom.name, atom.what, atom.sign, atom.rows))
    return found


def evaluated(function, arguments):
    """A function of the sheet at arrays."""
    name = type(function.expression).__name__
    if name.startswith("masked"):
        hidden, level = name.removeprefix("masked").split("_")
        value, kept = arguments
        return np.where((kept != 0) == (hidden == "0"), value, float(level))
    names = {type(f).__name__ for f in function.expression.atoms(sp.core.function.AppliedUndef)}
    meanings = {n: opaque(n) for n in names}
    compute = sp.lambdify(function.symbols, function.expression, [meanings, "scipy", "numpy"])
    return compute(*arguments)


def opaque(name):
    """What the primitive that names an opaque function computes: `min_int64_int64_int64`."""
    primitive, *dtypes = re.findall(r"^[a-z_]+?(?=_[a-z]+\d)|[a-z]+\d+|bool", name)
    if primitive == "convert_element_type":
        return lambda z: np.asarray(z).astype(dtypes[0]).astype(dtypes[1]).astype(float)
    bound = getattr(jax.lax, f"{primitive}_p", None)
    if bound is None or f"{primitive}_{'_'.join(dtypes)}" != name:
        raise Opaque(name)
    kinds = dtypes[:-1]
    return lambda *zs: np.asarray(
        bound.bind(
            *(jax.numpy.asarray(np.asarray(z), k) for z, k in zip(np.broadcast_arrays(*zs), kinds, strict=True))
        ),
        float,
    )


def element_values(element, atoms, sizes, rng):
    """A random group element: the values of its atoms by number, those that its relations speak of too."""
    numbers = {
        name: a.number
        for name in ("g", "inv(g)", "re g", "im g", "1/|g|^2", "g of pairs", "w of g", "w of inv(g)")
        if (a := atoms._known.get(name))
    }
    if "g" not in numbers:
        return {}
    shape = tuple(s.at(sizes) for s in element.slots)
    size = shape[-1] if shape else 1
    lead = shape[:-2] if element.is_matrix else ()
    out = {}
    match element.kind:
        case "positive":
            g = np.exp(rng.normal(size=shape))
        case "nonzero":
            g = np.exp(rng.normal(size=shape)) * rng.choice([-1.0, 1.0], shape)
        case "paired":
            half = size // 2
            s, g = np.exp(rng.normal(size=(*shape[:-1], half))), np.zeros(shape)
            for k in range(half):
                for i in (2 * k, 2 * k + 1) if element.pairs == "adjacent" else (k, half + k):
                    g[..., i] = s[..., k]
            if "g of pairs" in numbers:
                out[numbers["g of pairs"]] = s
        case "sign":
            g = rng.choice([-1.0, 1.0], shape)
        case "vector":
            g = rng.normal(size=shape)
        case "permutation":
            g = np.stack([np.eye(size)[rng.permutation(size)] for _ in range(int(np.prod(lead)))]).reshape(shape)
        case "orthogonal":
            g = np.linalg.qr(rng.normal(size=shape))[0]
        case "fixing":
            frame = np.linalg.svd(np.ones((1, size)))[2][1:]
            h = np.linalg.qr(rng.normal(size=(*lead, size - 1, size - 1)))[0]
            g = frame.T @ h @ frame + np.full((size, size), 1 / size)
        case "centred":
            w = rng.normal(size=shape[:-1])
            v = -w / (1 + w.sum(-1, keepdims=True))
            g = np.eye(size) + w[..., None]
            out |= {numbers[name]: x for name, x in (("w of g", w), ("w of inv(g)", v)) if name in numbers}
        case "general":
            g = rng.normal(size=shape) + 2 * np.eye(size)
        case "complex":
            half = size // 2
            a, b = rng.normal(size=(*lead, half)), rng.normal(size=(*lead, half))
            g = np.zeros(shape)
            for k in range(half):
                i, j = (2 * k, 2 * k + 1) if element.pairs == "adjacent" else (k, half + k)
                g[..., i, i] = g[..., j, j] = a[..., k]
                g[..., i, j], g[..., j, i] = -b[..., k], b[..., k]
            for name, value in (("re g", a), ("im g", b), ("1/|g|^2", 1 / (a**2 + b**2))):
                if name in numbers:
                    out[numbers[name]] = value
    out[numbers["g"]] = g
    if "inv(g)" in numbers:
        out[numbers["inv(g)"]] = np.linalg.inv(g)
    return out


def output_array(numbers, poly, shape):
    """An output in JAX's shape: free indices are factors of dimensions, and one that does not occur is repeated."""
    free = {i for t in poly for _, at, _ in t for j in at for i in ix.parts(j) if isinstance(i, Free)}
    labels = sorted(free, key=lambda i: i.place)
    value = numbers.poly(poly, labels)
    fine, full = [], []
    for d, size in enumerate(shape):
        own = {i.place[1]: numbers.size(i.extent) for i in labels if i.place[0] == d}
        missing = size // int(np.prod(list(own.values()))) if own else size
        places = range(max(own, default=-1) + 1)
        gaps = [f for f in places if f not in own] or [len(places)]
        assert len(gaps) == 1, "several factors of one dimension do not occur"
        for f in sorted({*own, gaps[0]}):
            fine.append(own.get(f, 1))
            full.append(own.get(f, missing))
    return np.broadcast_to(value.reshape(fine), full).reshape(shape)
