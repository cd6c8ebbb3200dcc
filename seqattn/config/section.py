"""The base class of config sections, and the types of their values."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PlainSerializer,
    WithJsonSchema,
)
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, PydanticKnownError, core_schema

DISCRIMINATORS = ("name", "kind", "score", "schedule")


class Section(BaseModel):
    """The base class of config sections. Sections are frozen and strict."""

    model_config = ConfigDict(
        frozen=True,
        strict=True,
        extra="forbid",
        allow_inf_nan=False,
        use_attribute_docstrings=True,
        protected_namespaces=(),  # older versions of pydantic reserve model_...
    )

    @classmethod
    def names(cls) -> list[str]:
        """Return the names of the section's keys. A discriminator, such as `kind`, comes first."""
        first = [key for key in DISCRIMINATORS if key in cls.model_fields]
        return first + [key for key in cls.model_fields if key not in first]


def name_of(value: Section | str) -> str:
    """Return the value itself if it is a name, or the value of its key `name` if it is a
    section."""
    return value if isinstance(value, str) else str(getattr(value, "name"))  # noqa: B009


def contradiction(key: str, message: str) -> PydanticCustomError:
    """Build the error for keys that contradict each other.

    Args:
        key: the key at the start of the message. The message states the line of this key.
        message: the part of the message that follows the name of the key.
    """
    return PydanticCustomError("contradiction", "{message}", {"key": key, "message": message})


def check_ordered(section: Section, low: str, high: str) -> None:
    """Check that the value of the key `low` is not above the value of the key `high`.

    Raises:
        PydanticCustomError: if the value of `low` is above the value of `high`.
    """
    lower, upper = getattr(section, low), getattr(section, high)
    if lower is not None and lower > upper:
        raise contradiction(low, f"is {lower}, more than {high}: {upper}")


class Variants:
    """The values that a key allows: the variants of a section, or names.

    An object of this class is an annotation of the key. If the annotated type is a union of
    sections, the value of the key is one of these sections. If the type is a `Literal`, the value
    is one of its names. Plugins can add sections to both. A section that was added to names can be
    written as its name alone, if it has a default for each of its keys.

    Attributes:
        key: the key whose value selects the section, such as "kind".
        default: the name of the section that has no such key; None if the key is required.
        noun: the mechanism that plugins can add, such as "score"; "" if they can add none.
        base: the base class of the sections that plugins can add.
        names: the names that are values by themselves.
        sections: the sections by name.
    """

    def __init__(
        self, key: str, default: str | None = None, *, noun: str = "", base: type[Section] = Section
    ) -> None:
        self.key, self.default, self.noun, self.base = key, default, noun, base
        self.names: tuple[str, ...] = ()
        self.sections: dict[str, type[Section]] = {}

    def add(self, name: str, section: type[Section]) -> None:
        """Add a section of a plugin. The section gets the key that selects it."""
        text = f"Name of the {self.noun}."
        field = FieldInfo(annotation=Literal[name], default=name, description=text)  # type: ignore[arg-type]
        section.model_fields[self.key] = field
        section.model_rebuild(force=True)
        self.sections[name] = section

    def validate(self, given: Any) -> Any:
        """Return the section or the name that a config gives.

        Raises:
            PydanticCustomError, PydanticKnownError: if the config gives neither.
            ValidationError: if the section is not valid; pydantic joins the errors of all sections.
        """
        if type(given) in self.sections.values():
            return given
        if self.names and not isinstance(given, dict):
            if given in self.names:
                return given
            if not (isinstance(given, str) and given in self.sections):
                raise self._not_a_choice("", given)
            given = {self.key: given}
        if not isinstance(given, dict):
            raise PydanticKnownError("dict_type")
        name = given.get(self.key, self.default)
        if name in self.names and len(given) == 1:
            return name
        if name in self.names:
            raise contradiction(self.key, f"is {name}, which has no keys. Write {name} alone")
        if self.key not in given and self.default is None:
            context = {"key": self.key, "choices": [*self.names, *self.sections]}
            raise PydanticCustomError("missing_name", "no name", context)
        if not (isinstance(name, str) and name in self.sections):
            raise self._not_a_choice(self.key, name)
        return self.sections[name].model_validate(given)

    def _not_a_choice(self, key: str, given: Any) -> PydanticCustomError:
        context = {"key": key, "choices": [*self.names, *self.sections], "given": given}
        if self.noun and isinstance(given, str) and PLUGIN_NAME.fullmatch(given):
            context["noun"] = self.noun
        return PydanticCustomError("not_a_choice", "not a choice", context)

    def __get_pydantic_core_schema__(
        self, annotated: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Take over the names or the sections of the annotated type."""
        if get_origin(annotated) is Literal:
            self.names = get_args(annotated)
        else:
            for each in get_args(annotated):
                self.sections.setdefault(each.model_fields[self.key].default, each)
        return core_schema.no_info_plain_validator_function(self.validate)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Return the choices as JSON Schema. Each section but the default requires its key."""
        names = core_schema.literal_schema([*self.names, *self.sections])
        if not self.sections:
            return handler(names)
        sections: dict[Any, CoreSchema] = {}
        for name, each in self.sections.items():
            core = each.__pydantic_core_schema__
            # A section that uses another one twice has a list of definitions, with its own in it.
            sections[name] = (
                core if core["type"] == "definitions"
                else {**core, "ref": f"{each.__module__}.{each.__qualname__}"}
            )  # fmt: skip
        choices = {"": names, **sections} if self.names else sections
        found = handler(core_schema.tagged_union_schema(choices, lambda _: None))
        for name, reference in zip(choices, found["oneOf"], strict=True):
            definition = handler.resolve_ref_schema(reference)
            if name and name != self.default:
                others = [key for key in definition.get("required", ()) if key != self.key]
                definition["required"] = [self.key, *others]
        return found


PLUGIN_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*( [A-Za-z0-9_]+)*")


Seed = Annotated[int, Field(ge=0, le=2**32 - 1)]
Count = Annotated[int, Field(ge=1, le=10_000_000)]
Width = Annotated[int, Field(ge=1, le=8192)]
Probability = Annotated[float, Field(ge=0, le=1)]
Share = Annotated[float, Field(gt=0, lt=1)]
FileName = Annotated[str, Field(min_length=1, max_length=4096)]
ColumnName = Annotated[str, Field(min_length=1, max_length=1000)]
ColumnNames = Annotated[list[ColumnName], Field(min_length=1, max_length=4096)]
OneOrMore = Annotated[
    ColumnNames,
    BeforeValidator(lambda given: [given] if isinstance(given, str) else given),
    PlainSerializer(lambda names: names[0] if len(names) == 1 else names),
    WithJsonSchema({"anyOf": [{"type": "string", "minLength": 1, "maxLength": 1000},
                              {"type": "array", "items": {"type": "string"}, "minItems": 1}]}),
]  # fmt: skip
"""A name or a list of names. A single name is written without a list."""
UnitTexts = Annotated[
    dict[ColumnName, Annotated[str, Field(min_length=1, max_length=40)]], Field(max_length=4096)
]
"""Units by feature. The mapping is one value and not a section, because names of features may
contain dots."""
Words = Annotated[
    list[Annotated[str, Field(max_length=100)]],
    BeforeValidator(
        lambda given: (
            [word if isinstance(word, str) else f"{word}" for word in given]
            if isinstance(given, list) and not any(isinstance(word, bool) for word in given)
            else given
        )
    ),
    Field(max_length=100),
]
"""Words or numbers, as they occur in a file."""
Noise = Annotated[float, Field(ge=0, le=10)]
PathLength = Annotated[int, Field(ge=1, le=10_000)]
NAME_PATTERN = r"^[A-Za-z0-9_][A-Za-z0-9._-]*$"
VariantName = Annotated[str, Field(pattern=NAME_PATTERN, max_length=100)]
