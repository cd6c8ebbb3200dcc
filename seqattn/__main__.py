"""`python -m seqattn` is the same door as `seqattn`."""

from seqattn.cli import main

if __name__ == "__main__":
    main()
