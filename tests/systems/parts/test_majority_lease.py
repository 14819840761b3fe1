"""Leases by majority: known answers, and that no name has two holders whatever is lost, late or forgotten."""

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from core.units import NEVER_NS
from systems.parts.majority_lease import NOBODY, Voter, held_ns, majority, runs_out_ns

LEASE_NS = 100


def voter() -> Voter:
    """One whose first lease is over at 100."""
    made = Voter("v", LEASE_NS)
    made.begin(0)
    return made


def test_no_two_candidates_have_a_majority_each() -> None:
    assert [majority(count) for count in range(1, 8)] == [1, 2, 2, 3, 3, 4, 4]


def test_a_majority_runs_out_with_its_weakest_vote_that_is_needed() -> None:
    assert runs_out_ns([30, 10, 20], 2) == 20
    assert runs_out_ns([NEVER_NS, 10, 20], 3) == 10
    assert runs_out_ns([NEVER_NS], 2) < -(2**61)


def test_a_candidate_counts_less_than_its_voter() -> None:
    assert held_ns(LEASE_NS) == 90


def test_a_voter_that_begins_gives_no_vote_for_a_lease() -> None:
    made = voter()
    assert made.renew("a", 1, True, 50)
    assert made.vote("red", "a", 99) == NOBODY
    assert made.vote("red", "a", 100) == "a"


def test_a_vote_is_one_candidate_s_until_its_session_ends() -> None:
    made = voter()
    assert made.renew("a", 1, True, 100) and made.renew("b", 1, True, 100)
    assert made.vote("red", "a", 110) == "a"
    assert made.vote("red", "b", 110) == "a"
    assert made.renew("b", 1, False, 190)
    assert made.vote("red", "b", 199) == "a"
    assert made.vote("red", "b", 200) == "b"
    assert not made.renew("a", 1, False, 200)  # it is told
    assert not made.renew("a", 1, True, 200)  # a late opening opens nothing again
    assert made.renew("a", 2, True, 200)


def test_a_new_session_begins_without_votes_and_an_old_one_is_over() -> None:
    made = voter()
    assert made.renew("a", 1, True, 100)
    assert made.vote("red", "a", 100) == "a"
    assert made.renew("a", 7, True, 110)
    assert made.holder("red", 110) == NOBODY
    assert not made.renew("a", 1, False, 120)
    assert made.is_in("a", 7, 120) and not made.is_in("a", 1, 120)


def test_a_session_that_a_voter_does_not_know_is_over() -> None:
    assert not voter().renew("a", 5, False, 100)


def test_a_vote_goes_back_or_to_a_successor_that_lives() -> None:
    made = voter()
    assert made.renew("a", 1, True, 100) and made.renew("b", 1, True, 100)
    assert made.vote("red", "a", 100) == "a"
    made.give_back("red", "b", "", 101)  # not its own
    assert made.holder("red", 101) == "a"
    made.give_back("red", "a", "b", 102)
    assert made.holder("red", 102) == "b"
    made.give_back("red", "b", "c", 103)  # whom nobody knows
    assert made.holder("red", 103) == NOBODY


# --- one holder at a time ----------------------------------------------------------------------------------

VOTERS, CANDIDATES = 3, 2


@dataclass
class Candidate:
    """As ``gossip_broker`` counts: what was answered, from when it was sent."""

    name: str
    sessions: dict[int, int] = field(default_factory=dict)  # voter -> number, once it was answered
    valid_ns: dict[int, int] = field(default_factory=dict)
    votes: set[int] = field(default_factory=set)

    def holds(self, now_ns: int) -> bool:
        valid_ns = [self.valid_ns.get(voter, -NEVER_NS) for voter in self.votes]
        return runs_out_ns(valid_ns, majority(VOTERS)) > now_ns

    def lapsed(self, voter: int) -> None:
        self.sessions.pop(voter, None)
        self.votes.discard(voter)
        self.valid_ns.pop(voter, None)


EVENTS = st.tuples(
    st.sampled_from(["renew", "ask", "ask", "crash", "give back"]),
    st.integers(0, CANDIDATES - 1),
    st.integers(0, VOTERS - 1),
    st.sampled_from([0, 1, 7, 40]),  # passes before it arrives
    st.sampled_from([0, 3, 30]),  # and before the next
    st.booleans(),  # whether the answer comes
)


@settings(max_examples=300, deadline=None)
@given(st.lists(EVENTS, max_size=60))
def test_a_name_has_one_holder_at_a_time(events: list[tuple[str, int, int, int, int, bool]]) -> None:
    voters = [Voter(f"v{number}", LEASE_NS) for number in range(VOTERS)]
    for made in voters:
        made.begin(-LEASE_NS)
    candidates = [Candidate("a"), Candidate("b")]
    now_ns, number = 0, 0
    for kind, who, where, late_ns, pause_ns, answered in events:
        candidate, sent_ns = candidates[who], now_ns
        now_ns += late_ns
        opens = where not in candidate.sessions
        session = candidate.sessions.get(where, number := number + 1)
        if kind == "crash":
            voters[where] = Voter(f"v{where}", LEASE_NS)
            voters[where].begin(now_ns)
        elif kind == "renew":
            lives = voters[where].renew(candidate.name, session, opens, now_ns)
            if answered and lives:
                candidate.sessions[where] = session
                candidate.valid_ns[where] = sent_ns + held_ns(LEASE_NS)
            elif answered or opens:
                candidate.lapsed(where)
        elif kind == "ask" and not opens and voters[where].is_in(candidate.name, session, now_ns):
            if voters[where].vote("red", candidate.name, now_ns) == candidate.name and answered:
                candidate.votes.add(where)
        elif kind == "give back":
            candidate.votes.discard(where)
            voters[where].give_back("red", candidate.name, candidates[1 - who].name, now_ns)
        assert sum(one.holds(now_ns) for one in candidates) <= 1
        now_ns += pause_ns
        assert sum(one.holds(now_ns) for one in candidates) <= 1
