"""Makes the helper modules of this folder (`judge`, `casefolder`, `noise`) importable from every test below it."""
