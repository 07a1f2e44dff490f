"""Reading back what `found.save` wrote, for a model whose declaration is the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from quotax.artifacts import Certificate, Model
from quotax.derive.candidates.unnamed import FieldFamily, Leftover
from quotax.derive.found.symmetry_group import FORMAT, VERSION, SymmetryGroup, declared_data
from quotax.errors import SymmetryError
from quotax.presenting import Json
from quotax.symmetry import Action, Symmetry
from quotax.symmetry.plain import symmetry_of

Recall = Callable[[Model, Action, Certificate], Certificate]
"""A certificate that can be checked again against the model."""


def from_data(
    data: Json, model: Model, recall: Recall, more: Callable[[SymmetryGroup], Callable[..., Leftover]], where: str
) -> SymmetryGroup:
    """The group that `to_dict` wrote; `where` begins refusals and names the file.

    Its certificates say what the file says of them, until they are checked again: `read_from` names the file.
    """
    if not isinstance(data, Mapping) or data.get("format") != FORMAT:
        raise SymmetryError(
            f'{where} holds no symmetries: its "format" is not {FORMAT!r}; `found.save(path)` writes it.'
        )
    if data.get("version") != VERSION:
        raise SymmetryError(f"{where} is of version {data.get('version')!r}, this quotax reads version {VERSION}.")
    _check_declaration(data, model, where)

    def pair(one: Mapping[str, Json]) -> tuple[Symmetry, Certificate]:
        symmetry = symmetry_of(one, where)
        return symmetry, recall(model, symmetry.bind(model.params), Certificate.from_dict(one["certificate"]))

    try:
        ansatz = data["ansatz"]
        fields = [FieldFamily.from_dict(one, model, ansatz) for one in data["fields"]]
        others = [FieldFamily.from_dict(one, model, ansatz) for one in data["unproved fields"]]
        unproved: list[tuple[Symmetry | FieldFamily, Certificate]] = [pair(one) for one in data["unproved"]]
        group = SymmetryGroup(
            model,
            tuple(map(pair, data["families"])),
            tuple(map(pair, data["discrete"])),
            tuple(fields),
            (*unproved, *((f, f.certificate) for f in others)),
            tuple(symmetry_of(one, where) for one in data["declared"]),
            tuple(dict(sizes) for sizes in data["sizes"]),
            ansatz,
            unsearched=tuple(data["unsearched"]),
            read_from=where,
        )
    except (LookupError, TypeError, ValueError) as error:
        if isinstance(error, SymmetryError):
            raise error if str(error).startswith(where) else SymmetryError(f"{where}: {error}") from None
        raise SymmetryError(f"{where} is damaged: {type(error).__name__} {error}.") from error
    return replace(group, more=more(group))


def _check_declaration(data: Mapping[str, Json], model: Model, where: str) -> None:
    """Refuse a model that declares something else, by the names of what differs."""
    own = declared_data(model)
    for kind in ("params", "inputs"):
        saved = data.get(kind)
        if not isinstance(saved, Mapping):
            raise SymmetryError(f"{where} is damaged: it has no {kind!r}.")
        for name in dict.fromkeys((*saved, *own[kind])):
            if saved.get(name) != own[kind].get(name):
                raise SymmetryError(
                    f"{where} is of a model with {kind}[{name!r}] = {saved.get(name)!r}, "
                    f"but {model.name} has {own[kind].get(name)!r}."
                )
        if list(saved) != list(own[kind]):
            raise SymmetryError(
                f"{where} has the {kind} {', '.join(saved)}, {model.name} in another order: {', '.join(own[kind])}."
            )
