"""Training metrics: step tables from what trainers write, where they begin to go wrong, and how two runs differ."""
