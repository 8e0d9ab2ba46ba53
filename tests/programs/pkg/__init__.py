"""A small package, trained by `python -m pkg.train`."""
