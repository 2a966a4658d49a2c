"""Sessions in the hands of other processes."""
