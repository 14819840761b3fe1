"""The ground everyone stands on: units, seeds, errors, records."""

import os

# One thread for NumPy's linear algebra, unless somebody chose: how it rounds shall not depend on how many cores a
# machine has, and at its start each of a run's many processes would else keep a second core busy with waiting.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
