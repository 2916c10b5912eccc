"""`python -m nbaudio` is the command `nbaudio`."""

from nbaudio.cli import main

if __name__ == "__main__":
    main()
