"""Which model is likely to answer, guessed before the providers are loaded."""

from __future__ import annotations

import os


def is_without_key(model: str) -> bool:
    """Guess whether the demo model will answer because no key is set. An exact answer would take too long."""
    from outrider.providers import tiers
    from outrider.providers.secrets import MODEL_KEYS
    from outrider.providers.stored_keys import stored_values

    has_key = any(map(os.environ.get, MODEL_KEYS)) or bool(stored_values())
    return model in tiers.TIERS and not tiers.override_of(model) and not has_key
