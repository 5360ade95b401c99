"""What follows from the flight-recorder dumps of all ranks together: pure folds, one file per question of state."""
