"""The table store: what many run folders hold, a few sorted Parquet files a table.

    store/<table>/<part>-<n>.parquet   rows of the runs of a part, sorted by run id (``parts``)
    store/log/<number>.json            commits, append-only: which parts came and which went (``log``)
    store/claims/                      who reads and who writes just now (``claims``)

Run folders stay the record of truth: the store is made from them, again whenever it is gone or damaged (``keeping``).
A *part* is a set of runs with the rows that they have in every table; a run is in one part or in none.
"""
