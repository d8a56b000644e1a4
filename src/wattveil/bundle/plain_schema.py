"""JSON schema of declared models as manifests state them, `declaration.to_plain`."""

from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

DECIMAL = {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?$", "maxLength": 40}
"""JSON schema of a non-negative float as text."""


class _PlainSchema(GenerateJsonSchema):
    """Schema of what `to_plain` writes."""

    def float_schema(self, schema: object) -> JsonSchemaValue:  # noqa: ARG002
        """Return that of a float as text."""
        return dict(DECIMAL)

    def default_schema(self, schema: Any) -> JsonSchemaValue:  # noqa: ANN401 - Pydantic's own
        """Return the schema without the default: every field is written."""
        return self.generate_inner(schema["schema"])

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ANN401, ARG002 - Pydantic's own
        """Return False: a title would repeat the name."""
        return False


def json_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON schema of what `to_plain` writes of a model: every field is there."""
    return model.model_json_schema(mode="serialization", schema_generator=_PlainSchema)
