"""Types and functions as JSON Schema, and what models write as values of those types.

`Schema` is a JSON Schema made from a type or given as such; `Signature` is a function as the parameters of a tool;
`inline_references` serves providers that do not follow `$ref`. The way down: signatures → schema → shapes (types to
schemas) → records, scalars, constraints → conversions (values back to types); violations and references beside them.
"""

from outrider.tools.schema.references import inline_references
from outrider.tools.schema.schema import Schema
from outrider.tools.schema.signatures import Signature

__all__ = ["Schema", "Signature", "inline_references"]
