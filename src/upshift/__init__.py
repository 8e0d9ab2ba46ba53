"""upshift makes the PyTorch training run a person already has faster, and proves that it is the same run."""

__all__ = ["__version__"]

__version__ = "0.1.0"
