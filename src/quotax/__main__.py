"""`python -m quotax` is the command `quotax`."""

from quotax.cli import main

if __name__ == "__main__":
    main()
