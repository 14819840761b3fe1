"""Every number that the DST paper prints and a figure or claim here uses, once, with where it stands.

As text where a claim is judged to every printed digit.  Our copy of the paper has no page numbers.  Tests hold
each against the digest of the paper.
"""

CYCLE = 0.02  # the update cycle, gamma or g: Section 6, Example 2
SERVERS = 10  # Example 2
CLIENTS = 1_000  # Example 2: at random, 100 a server
CYCLES = 1_000  # Example 2
OPTIMAL_CYCLE = {"dst-1": "0.4226", "dst-2": "0.2222"}  # Table 3
PHI_CR = {"dst-1": "0.9969", "dst-2": "0.9727"}  # Table 4, row 1
PHI_SS = {"dst-1": "334.7965", "dst-2": "69.3075"}  # Table 4, row 2
OVERTHROTTLING = {"dst-1": "6.2", "dst-2": "2.8"}  # Table 4, row 3: percent
