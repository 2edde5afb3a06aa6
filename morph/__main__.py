"""``python -m morph`` is the ``morph`` command."""

from morph.cli import main

if __name__ == "__main__":
    main()
