"""`python -m firstfault` is `firstfault`."""

from firstfault.cli.main import main

if __name__ == "__main__":
    main()
