"""The models of a session: of its agent, of sub-agents, and of the title."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from outrider.coding.config.settings import Settings
from outrider.environment import default_model
from outrider.errors import OutriderError, UnknownModelError
from outrider.providers.base import Provider
from outrider.providers.resolution import resolve, resolve_all, several
from outrider.subagents.profile import Profile, model_for


class SessionModels:
    """The providers of a session, one for each model."""

    def __init__(self, settings: Settings, meter: Callable[[Provider], Provider] | None) -> None:
        """`meter` wraps each provider."""
        self._settings = settings
        self._meter = meter
        self._providers: dict[str, Provider] = {}
        self.agent_provider: Provider | None = None
        """The provider of the agent, once there is one."""

    @property
    def default(self) -> str:
        """The model of a session for which none was chosen."""
        return self._settings.model or default_model()

    def stored(self, model: str | None) -> str | None:
        """Return the model of a stored session. One of a Python program is not known here: then the chosen one.

        One of several chosen models comes with the others: they are its fallbacks.
        """
        if model and "," in self.default and model in {name for each in _names(self.default) for name in each}:
            return self.default
        return model if not model or not self._settings.model or _is_known(model) else self._settings.model

    def for_subagent(self, profile: Profile, tier: str) -> Provider:
        """Return the provider of a sub-agent. A project's profile cannot choose another vendor."""
        agents = self.agent_provider or resolve(self.default)
        model = model_for(tier or profile.model, agents, from_project=profile.from_project)
        return self._provider(model) if isinstance(model, str) else model

    def for_title(self, provider: Provider) -> Provider | None:
        """Return the fast model of the session's vendor; None if that is not known."""
        try:
            model = model_for("fast", provider)
            return self._provider(model) if isinstance(model, str) else None
        except OutriderError:
            return None

    def _provider(self, model: str) -> Provider:
        if model not in self._providers:
            self._providers[model] = self.metered(resolve(model))
        return self._providers[model]

    def check(self, model: str) -> None:
        """Raise ConfigError if a model is not allowed on this machine, and UnknownModelError."""
        for provider in resolve_all(model):
            self._settings.managed.check_model(provider)

    def metered(self, provider: Provider) -> Provider:
        """Return the provider with the meter around it, if there is one. Raises ConfigError if it is not allowed."""
        self._settings.managed.check_model(provider)
        return self._meter(provider) if self._meter else provider


def _names(models: str) -> Iterator[tuple[str, str]]:
    """Yield the names of models, as they are given and in full."""
    for name, provider in zip(several(models), resolve_all(models), strict=True):
        yield str(name), provider.name


def _is_known(model: str) -> bool:
    try:
        resolve(model)
    except UnknownModelError:
        return False
    return True
