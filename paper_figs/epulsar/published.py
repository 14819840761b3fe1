"""Every number of the ePulsar paper that its figures or claims use, and those of its public code: where it stands.

The paper's text is an extraction that has lost its page breaks (14 pages), so that a section or figure stands for the
page.  A test looks each number up in our digest.
"""

# Coordinates.
ERROR_MS = 3.5  # 5.3, Fig. 3b
ERROR_PERCENT = 6  # 5.3, Fig. 3c
FEWEST_NODES = 2  # 5.3
MOST_NODES = 128  # 5.3
SETTLED_MIN = 10  # 5.5.1
STABLE_MIN = 60  # 4
AGENT_CPU_PERCENT = 1  # 5.3
AGENT_MEMORY_MB = 15  # 5.3
QUERY_S = 5  # 4
REPORT_S = 5  # 4
# The game.
GAME_BOUND_MS = 100  # 5.1.2
GAME_ACCESS_MS = 5  # 5.1.2
GAME_CLIENTS = 1024  # 5.5.2, Fig. 4
GAME_GROUPS = 128  # 5.5.2, Fig. 4
GAME_CITIES = 5  # 5.8.2, Fig. 9
# Drones.
SWARM_BOUND_MS = 40  # 5.1.1
SWARMS = 16  # 5.5.3, Fig. 5
SWARM_MEMBERS = 8  # 5.5.3, Fig. 5
SWARM_ZONES = 4  # 5.8.1, Fig. 8
# How long, how often.
PERMUTATIONS = 1000  # 5.5.1
SWARM_RUN_MIN = 10  # 5.8.1
GAME_RUN_MIN = 10  # 5.8.2
# Migrations.
MOVED_TOPICS = 128  # 5.7, Fig. 7a
EXECUTORS = 16  # 5.7, Fig. 7a
WAN_MS = 40  # 5.7, Fig. 7b
# The data plane.
KNEE_KRPS = 1500  # 5.4
# The public code, an earlier version: periods in ms, the guard of a topic that moved, bytes of a topic's record.
CODE_LOCATE_S = 1  # public code
CODE_REPORT_MS = 1500  # public code
CODE_PLACE_MS = 2500  # public code
CODE_GUARD_S = 5  # public code
CODE_CENTROID_BYTES = 840  # public code
CODE_PAIRS_8_KB = 2.9  # public code
CODE_PAIRS_16_KB = 5.8  # public code
