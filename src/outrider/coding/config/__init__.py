"""What the user has set: where things are kept, and how the terminal program and editors should work."""

from outrider.environment import config_file, data_folder, debug_file, default_model

__all__ = ["config_file", "data_folder", "debug_file", "default_model"]
