"""The promises about speed, measured: `make bench`, `make bench-all`. Ratios are taken in one interleaved run."""
