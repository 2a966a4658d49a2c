"""The programs in examples/, used as their users would."""
