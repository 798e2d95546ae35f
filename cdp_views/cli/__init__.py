"""The command `cdp-views`: nothing heavy is imported until a command runs."""

from cdp_views.cli.app import main as main

__all__ = ["main"]
