"""Decisions about calls where their files are: asked of the hands, and trusted only as far as they can do harm."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from outrider.coding.hands.connection import HandsConnection
from outrider.coding.hands.requests import HANDS_TOOLS, Judge, Judged, Stance
from outrider.coding.hands.tools import Forwarding
from outrider.coding.permissions.decision import Decision
from outrider.coding.permissions.pending_call import PendingCall, Preview
from outrider.coding.permissions.policy import Policy
from outrider.coding.permissions.rules import Rule
from outrider.errors import ConfigError, HandsError

MOST_RULES = 20
LONGEST_REASON = 4_000


class JudgeElsewhere:
    """Asks the hands. What they allow runs there; they cannot allow anything that runs here."""

    def __init__(
        self, connection: HandsConnection, policy: Callable[[], Policy], forwarding: Callable[[PendingCall], Forwarding]
    ) -> None:
        """`policy` returns the session's; `forwarding` returns what sends calls of a call's workspace."""
        self._connection = connection
        self._policy = policy
        self._forwarding = forwarding
        self._previews: dict[str, Preview] = {}

    def decides(self, tool: str) -> bool:
        """Return whether calls of a built-in tool are decided there."""
        return tool in HANDS_TOOLS

    async def decide(self, policy: Policy, call: PendingCall) -> Decision:
        """Decide about a call. It is denied if the hands do not answer.

        A call that only looks is sent together with the question: the hands run it if the rules allow it.
        """
        stance = None if policy is self._policy() else stance_of(policy)
        forwarding, use = self._forwarding(call), call.use
        to_do = forwarding.call(use.id, use.name, use.input)
        decision: Decision | None = None
        try:
            judging = self._connection.begin(Judge(to_do, stance), Judged)
            if stance is None:
                forwarding.begin(to_do)
            judged = (await self._connection.answered(judging)).value
            decision = sound(judged.decision, policy)
        except HandsError as error:
            return Decision("deny", f"the call could not be checked: {error}")
        finally:
            if decision is None or decision.verdict != "allow":
                forwarding.drop()
        self._previews = {call.use.id: judged.preview}
        return decision

    async def preview(self, call: PendingCall) -> Preview:
        """Return what a question shows of the call that was decided on last."""
        return self._previews.get(call.use.id) or Preview()


def sound(decision: Decision, policy: Policy) -> Decision:
    """Return a decision of the hands without what they must not say: rules for anything that runs here."""
    known = {rule.text for rule in policy.allow}
    return msgspec.structs.replace(
        decision,
        reason=decision.reason[:LONGEST_REASON],
        always=_rules_there(decision.always),
        prefix=_rules_there(decision.prefix),
        rules=tuple(rule for rule in decision.rules[:MOST_RULES] if rule in known),
        doubts=decision.doubts[:MOST_RULES],
    )


def _rules_there(rules: tuple[str, ...]) -> tuple[str, ...]:
    """Return the rules if each is about a tool of the hands, or none."""
    try:
        are_there = all(Rule.parse(rule).tool in HANDS_TOOLS for rule in rules)
    except ConfigError:
        return ()
    return rules if are_there and len(rules) <= MOST_RULES else ()


def stance_of(policy: Policy) -> Stance:
    """Return what the hands must know of a policy: the mode, and rules for their tools."""
    return Stance(
        mode=policy.mode,
        allow=tuple((rule.text, rule.shared) for rule in policy.allow if rule.tool in HANDS_TOOLS),
        ask=tuple(rule.text for rule in policy.ask if rule.tool in HANDS_TOOLS),
        deny=tuple(rule.text for rule in policy.deny if rule.tool in HANDS_TOOLS),
        accepted=policy.accepted,
    )
