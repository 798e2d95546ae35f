"""`python -m cdp_views.cli`, where the command is not on the path."""

from cdp_views.cli.app import main

main()
