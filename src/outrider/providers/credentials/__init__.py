"""Keys: finding, storing and masking them."""
