"""`python -m upshift`."""

from upshift.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
