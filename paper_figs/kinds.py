"""What figures speak of, for annotations alone: panels and drawings, small tables (pandas) and large ones (Spark)."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing
    from pandas import DataFrame as Frame
    from pandas import Series
    from pyspark.sql import DataFrame as SparkFrame

    from analysis.spark import Data

__all__ = ["Axes", "Data", "Drawing", "Frame", "Series", "SparkFrame"]
