"""The names of spans, attributes and metrics.

They follow the GenAI semantic conventions of OpenTelemetry in version 1.41.0, whose status is "development". What the
conventions have no name for is under `outrider.`; `gen_ai.usage.cost` is the name that Langfuse and others read.
"""

from __future__ import annotations

from typing import Final

SCHEMA_URL: Final = "https://opentelemetry.io/schemas/1.41.0"

# Operations

CHAT: Final = "chat"
EXECUTE_TOOL: Final = "execute_tool"
INVOKE_AGENT: Final = "invoke_agent"

# Attributes of the conventions

AGENT_NAME: Final = "gen_ai.agent.name"
CONVERSATION_ID: Final = "gen_ai.conversation.id"
ERROR_TYPE: Final = "error.type"
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
INPUT_MESSAGES: Final = "gen_ai.input.messages"
OPERATION_NAME: Final = "gen_ai.operation.name"
OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
PROVIDER_NAME: Final = "gen_ai.provider.name"
REQUEST_MODEL: Final = "gen_ai.request.model"
SYSTEM_INSTRUCTIONS: Final = "gen_ai.system_instructions"
TIME_TO_FIRST_CHUNK: Final = "gen_ai.response.time_to_first_chunk"
TOKEN_TYPE: Final = "gen_ai.token.type"
TOOL_CALL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
TOOL_CALL_RESULT: Final = "gen_ai.tool.call.result"
TOOL_NAME: Final = "gen_ai.tool.name"
TOOL_TYPE: Final = "gen_ai.tool.type"
CACHE_CREATION_TOKENS: Final = "gen_ai.usage.cache_creation.input_tokens"
CACHE_READ_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
REASONING_TOKENS: Final = "gen_ai.usage.reasoning.output_tokens"

# Attributes and spans without a convention

COST: Final = "gen_ai.usage.cost"
TURN: Final = "turn"
TURN_NUMBER: Final = "outrider.turn"
COMPACTION: Final = "compaction"
COMPACTION_REASON: Final = "outrider.compaction.reason"
TOKENS_BEFORE: Final = "outrider.compaction.tokens_before"
TOKENS_AFTER: Final = "outrider.compaction.tokens_after"
RUN_COST: Final = "outrider.run.cost"
RUN_INPUT_TOKENS: Final = "outrider.run.input_tokens"
RUN_OUTPUT_TOKENS: Final = "outrider.run.output_tokens"
RUN_STATUS: Final = "outrider.run.status"
RUN_TURNS: Final = "outrider.run.turns"
TOOL_EFFECT: Final = "outrider.tool.effect"
TASK: Final = "outrider.subagent.task"
RETRY: Final = "outrider.retry"
DISCARDED: Final = "outrider.reply_discarded"

# Metrics

OPERATION_DURATION: Final = "gen_ai.client.operation.duration"
TOKEN_USAGE: Final = "gen_ai.client.token.usage"
TOTAL_COST: Final = "outrider.cost"

DURATION_BUCKETS: Final = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
TOKEN_BUCKETS: Final = tuple(4.0**power for power in range(14))

_PROVIDERS = {
    "azure": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "gemini": "gcp.gemini",
    "mistral": "mistral_ai",
    "openai-chat": "openai",
    "vertex": "gcp.vertex_ai",
    "xai": "x_ai",
}
"""The names of the conventions, where they are not those of the providers here."""


def provider_and_model(name: str) -> tuple[str, str]:
    """Return the provider and the model of a model's name, as the conventions name them.

    >>> provider_and_model("gemini/gemini-3-pro"), provider_and_model("openrouter/qwen/qwen3")
    (('gcp.gemini', 'gemini-3-pro'), ('openrouter', 'qwen/qwen3'))
    """
    provider, _, model = name.partition("/")
    return _PROVIDERS.get(provider, provider), model or name
