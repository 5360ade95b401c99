"""Makes the common modules of this folder (`judge`, `casefolder`, `noise`, `checks`) importable from every test below it."""
