"""A look at a job that still runs, by what its recorder keeps writing; decides nothing about a fault."""
