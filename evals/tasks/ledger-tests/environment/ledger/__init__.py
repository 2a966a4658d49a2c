"""A household ledger: lines of text become a report."""
