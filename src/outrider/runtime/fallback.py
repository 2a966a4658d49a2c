"""Fallback: whether another model may answer what one could not, and what is said if none could."""

from __future__ import annotations

import re
from collections.abc import Sequence

from outrider.errors import ContextExceededError, MissingKeyError, ProviderError, RequestRefusedError
from outrider.providers.base import Provider
from outrider.providers.catalogue.windows import window_of

_BILLING = r"billing|credit|quota|insufficient (?:funds|balance)|spending limit"
_THIS_REQUEST = (None, 400, 413, 422)
"""The status of a request that is itself wrong: another model would refuse it as well, or must not answer it."""


def may_follow(error: ProviderError, failed: Provider, other: Provider) -> bool:
    """Return whether another model may answer after this error, whose retries are used up.

    A request that is itself wrong, or that a filter refuses, is not sent elsewhere; one that is too long is sent only
    to a larger context window.
    """
    if isinstance(error, ContextExceededError):
        window, larger = error.window or window_of(failed), window_of(other)
        return window is not None and larger is not None and larger > window
    if isinstance(error, RequestRefusedError) and error.status in _THIS_REQUEST:
        return re.search(_BILLING, str(error), re.IGNORECASE) is not None
    return True


def all_failed(failures: Sequence[tuple[Provider, ProviderError]]) -> ProviderError:
    """Return the error of a request that no model could answer: it names each with its reason."""
    if len(failures) == 1:
        return failures[0][1]
    said = [f"{provider.name}: {getattr(error, 'sentence', error)}" for provider, error in failures]
    sentence = f"none of the models could answer. {'. '.join(said)}"
    if all(isinstance(error, MissingKeyError) for _, error in failures):
        return MissingKeyError(sentence)
    return ProviderError(sentence, status=failures[-1][1].status)
