"""The conductor: grids become runs, runs become campaigns that resume, keep going and tell how far they are."""
