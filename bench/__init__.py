"""The promises about speed, measured: `make bench`. Ratios are taken in one interleaved run."""
