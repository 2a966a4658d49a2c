"""What is known about models: names, tiers, capabilities, windows, prices."""
