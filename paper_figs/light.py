"""Names of heavy libraries' types, for signatures: importing this loads none of them.

Where types are checked these are the real ones; where code runs, placeholders.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing
    from matplotlib.figure import SubFigure
    from numpy import float64
    from numpy.typing import NDArray
    from pandas import DataFrame as Frame
    from pandas import Series
    from pyspark.sql import Column
    from pyspark.sql import DataFrame as SparkFrame

    from analysis.tables import Data

    Floats = NDArray[float64]
    Values = Sequence[float] | Series | Floats
else:
    Artist = Axes = Drawing = SubFigure = Frame = Series = Column = SparkFrame = Data = Floats = Values = object

__all__ = ["Artist", "Axes", "Column", "Data", "Drawing", "Floats"]
__all__ += ["Frame", "Series", "SparkFrame", "SubFigure", "Values"]
