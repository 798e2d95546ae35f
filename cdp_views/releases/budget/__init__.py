"""What releases cost, and the ledger that holds them to a budget."""
