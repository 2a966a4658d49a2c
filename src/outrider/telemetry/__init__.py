"""OpenTelemetry: spans and metrics made from the events of sessions."""
