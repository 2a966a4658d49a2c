"""Convert Python types and functions to JSON Schema, and JSON values to values of those types.

`Schema` is a JSON Schema, made from a type or given. `Signature` describes a function as the parameters of a tool.
`inline_references` is for providers that do not support `$ref`. Imports go down: signatures → schema → shapes (types to
schemas) → records, scalars, constraints → conversions (JSON to Python values). `violations` writes the error sentences.
"""

from outrider.tools.schema.raw_schemas import inline_references
from outrider.tools.schema.schema import Schema
from outrider.tools.schema.signatures import Signature

__all__ = ["Schema", "Signature", "inline_references"]
