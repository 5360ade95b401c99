"""Pure folds over events: the same result for any order of sources."""
