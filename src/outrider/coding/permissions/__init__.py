"""May this call run? Modes, rules, and one decision for every front end."""
