"""The base class of config sections, and the types of their values."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    PlainSerializer,
    WithJsonSchema,
)
from pydantic_core import PydanticCustomError

DISCRIMINATORS = ("name", "kind", "score", "schedule")


class Section(BaseModel):
    """The base class of config sections. Sections are frozen and strict."""

    model_config = ConfigDict(
        frozen=True,
        strict=True,
        extra="forbid",
        allow_inf_nan=False,
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


def discriminator(key: str, default: str) -> Discriminator:
    """Build the discriminator of a union, which selects the variant by the value of `key`. If the
    key is missing, the discriminator selects the variant `default`."""

    def tag(value: Any) -> str | None:
        if isinstance(value, dict):
            return str(value.get(key, default))
        return str(getattr(value, key)) if isinstance(value, Section) else None

    return Discriminator(tag)


def require_key(key: str) -> ConfigDict:
    """Return the pydantic config of a variant that is not the default. In the JSON Schema of such a
    variant, the discriminator is required."""
    return ConfigDict(json_schema_extra={"required": [key]})


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
