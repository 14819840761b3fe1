"""Names of heavy libraries' types, for signatures: importing this loads none of them.

Where types are checked these are the real ones; where code runs, placeholders.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing
    from pandas import DataFrame as Frame
    from pandas import Series
    from pyspark.sql import Column
    from pyspark.sql import DataFrame as SparkFrame

    from analysis.spark import Data
else:
    Artist = Axes = Drawing = Frame = Series = Column = SparkFrame = Data = Any

__all__ = ["Artist", "Axes", "Column", "Data", "Drawing", "Frame", "Series", "SparkFrame"]
