"""Small public tables to try things on, as pandas data frames."""

from .census import midwest as midwest
from .paper import lafferty_blocks as lafferty_blocks
