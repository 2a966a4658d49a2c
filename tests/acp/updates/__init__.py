"""The update engine, against an observer that knows nothing but the specification."""
