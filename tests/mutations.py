"""Does a test fail when a rule is broken?  ``python -m tests.mutations [WORD]`` breaks each rule below and looks.

Each row is one edit of a copy of this checkout and the tests that must then fail, in ``SECONDS_MAXIMUM``.  The tests
need neither root nor sockets.  WORD takes only the rows that have it in their file or in what they break.  Exit code 1
where an edit survives, or its old text is not found once, or its tests fail without it.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.tidy import ROOT, tracked_files

SECONDS_MAXIMUM = 120
_LINES_SHOWN = 40
_TESTS_FAILED = 1  # pytest's exit code; others say that it did not come to that


@dataclass(frozen=True)
class Mutation:
    """``old`` made ``new`` in ``file`` breaks a rule; ``tests`` are the node ids of which one must fail."""

    breaks: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


def _rows(file: str, test_file: str, *rows: tuple[str, str, str, str]) -> list[Mutation]:
    """Rows (what is broken, old, new, test) of one file and one file of tests."""
    return [Mutation(breaks, file, old, new, (f"{test_file}::{test}",)) for breaks, old, new, test in rows]


SRTM = _rows(
    "systems/distribution/srtm.py",
    "tests/systems/distribution/test_search_rules.py",
    (
        "a broker is given up although its load did not fall",
        "own_ns > fit.last_p99_ns and rate < fit.last_rps:",
        "own_ns > fit.last_p99_ns:",
        "test_srtm_gives_a_broker_up",
    ),
    (
        "a broker is given up although its p99 did not grow",
        "own_ns > fit.last_p99_ns and rate < fit.last_rps:",
        "rate < fit.last_rps:",
        "test_srtm_gives_a_broker_up",
    ),
    (
        "a broker that is given up keeps what it could keep before",
        "fit.low, fit.done = fit.members[:0], True",
        "fit.done = True",
        "test_srtm_gives_a_broker_up",
    ),
    (
        "a search ends although the pooled p99 is above the SLO",
        "(measured.p99_ns < band_ns or measured.p99_ns > slo_ns)",
        "measured.p99_ns < band_ns",
        "test_srtm_fits_a_broker",
    ),
    (
        "a broker violates the SLO although the topic meets it",
        "violated = measured.p99_ns > slo_ns and own_ns > slo_ns",
        "violated = own_ns > slo_ns",
        "test_srtm_fits_a_broker",
    ),
    (
        "a search goes on where no publisher lies between its ends",
        "if not fit.low_rps < rate < fit.high_rps:",
        "if not fit.low_rps <= rate < fit.high_rps:",
        "test_srtm_fits_a_broker",
    ),
    (
        "brokers search although the topic meets the SLO",
        "if measured.p99_ns > slo_ns and seen.p99_ns is not None",
        "if seen.p99_ns is not None",
        "test_srtm_fits_a_broker",
    ),
    (
        "a round that left publishers out is the best configuration",
        "if not (assignment == UNASSIGNED).any() and (state.best",
        "if (state.best",
        "test_srtm_runs_out_of_brokers",
    ),
    (
        "a broker that has searched is not full",
        "        state.full.add(broker)\n",
        "",
        "test_srtm_spreads_over_brokers",
    ),
    (
        "the even share counts brokers that were given up",
        "[i for i in state.order[:k] if i not in state.given_up]",
        "state.order[:k]",
        "test_srtm_spreads_over_brokers",
    ),
    (
        "everybody placed is enough, whatever the p99",
        "if len(state.unassigned()) == 0 and state.last_p99_ns <= problem.slo_ns:",
        "if len(state.unassigned()) == 0:",
        "test_srtm_spreads_over_brokers",
    ),
)
CONC = _rows(
    "systems/distribution/conc.py",
    "tests/systems/distribution/test_search_rules.py",
    (
        "a p99 at the SLO violates it",
        "measured.p99_ns <= problem.slo_ns",
        "measured.p99_ns < problem.slo_ns",
        "test_conc_and_max_min_try_one_broker_more_until_a_round_meets_the_slo",
    ),
    (
        "of equal configurations the last is the best",
        "measured.p99_ns < best[0]",
        "measured.p99_ns <= best[0]",
        "test_conc_and_max_min_try_one_broker_more_until_a_round_meets_the_slo",
    ),
    (
        "the search begins with one broker, whatever the capacities",
        "range(first, len(rcap_rps) + 1)",
        "range(1, len(rcap_rps) + 1)",
        "test_conc_and_max_min_try_one_broker_more_until_a_round_meets_the_slo",
    ),
)
CONCENTRATION = _rows(
    "systems/parts/concentration.py",
    "tests/systems/distribution/test_search_rules.py",
    (
        "what a small broker cannot take is not shared evenly",
        "left / (place + 1)",
        "rate_rps / len(rcap_rps)",
        "test_max_min_makes_the_smallest_share_as_large_as_can_be",
    ),
    (
        "brokers above the common level give to it",
        "if count == len(order) or level <= load_rps[order[count]]:",
        "if count == len(order):",
        "test_conc_makes_total_loads_equal",
    ),
)
TB_ADAPTOR = _rows(
    "systems/distribution/tb_adaptor.py",
    "tests/systems/distribution/test_tb_adaptor.py",
    (
        "a limit that was overtaken is taken",
        "                self.limits[topic] = limit\n",
        "",
        "test_an_agent_takes_new_limits_and_not_those_that_were_overtaken",
    ),
    (
        "a report as old as the window counts",
        "self.reports[0][0] <= now_ns - self.window_ns",
        "self.reports[0][0] < now_ns - self.window_ns",
        "test_reports_older_than_the_window_do_not_count",
    ),
    (
        "buckets change before every broker has reported",
        "        if silent:",
        "        if len(silent) == len(topic.history):",
        "test_nothing_changes_before_every_broker_has_reported",
    ),
    (
        "without a backlog the burst split is lost",
        'elif zero_backlog == "rates":',
        "else:",
        "test_without_backlogs_the_burst_split_is_kept_or_follows_the_rates",
    ),
)
TOKEN_BUCKET = _rows(
    "systems/parts/token_bucket.py",
    "tests/systems/parts/test_token_bucket.py",
    (
        "the largest part gives more than it has above the floor",
        "min(missing, parts[largest] - floor)",
        "missing",
        "test_a_part_gives_only_what_it_has_above_the_floor",
    ),
    (
        "what is left over goes to the smallest remainders",
        "key=lambda i: parts[i] - exact[i]",
        "key=lambda i: exact[i] - parts[i]",
        "test_what_is_left_over_goes_to_the_largest_remainders",
    ),
    (
        "a bucket without burst weights is split evenly",
        "burst_weights or rate_weights",
        "burst_weights or [1.0] * len(rate_weights)",
        "test_a_small_share_is_raised_at_the_expense_of_the_largest",
    ),
)
ENVELOPE = _rows(
    "studies/distribution/envelope_kernel.py",
    "tests/studies/distribution/test_envelope_kernel.py",
    (
        "one message too many may wait",
        "np.argmax(waiting <= allowed)",
        "np.argmax(waiting <= allowed + 1)",
        "test_profile_takes_ten_percent_more_than_the_rate_and_a_margin",
    ),
)
LIMITING = _rows(
    "systems/limiting/leases.py",
    "tests/systems/limiting/test_leases.py",
    (
        "an allocator's state weighs no leases",
        " + LEASE_BYTES * book.lease_count",
        "",
        "test_the_state_weighs_its_users_accounts_and_leases",
    ),
    (
        "an allocator that knows nothing lends at once",
        "        if not self.learning:\n            grants",
        "        if True:\n            grants",
        "test_a_restarted_allocator_learns_before_it_lends",
    ),
)
METRICS = _rows(
    "analysis/metrics.py",
    "tests/analysis/test_metrics.py",
    (
        "a round at the SLO violates it",
        'F.col("topic_p99_ns") > F.col("slo_ns")',
        'F.col("topic_p99_ns") >= F.col("slo_ns")',
        "test_time_in_violation_counts_rounds_above_the_slo_once",
    ),
)
VERDICTS = _rows(
    "analysis/verdicts.py",
    "tests/analysis/test_verdicts.py",
    (
        "a check holds though its interval leaves the tolerance",
        "and self.low <= interval.low and interval.high <= self.high:",
        "and self.low <= interval.mean <= self.high:",
        "test_the_interval_decides",
    ),
    (
        "too few repetitions decide",
        "if interval.count < minimum_repetitions or isnan(interval.mean):",
        "if isnan(interval.mean):",
        "test_too_few_samples_are_unsure_whatever_they_say",
    ),
    (
        "a substitute workload reproduces",
        "return Judgement.DIRECTION_ONLY if self.substitute else Judgement.REPRODUCED",
        "return Judgement.REPRODUCED",
        "test_a_substitute_earns_at_most_direction_only",
    ),
    (
        "a failed number contradicts though the direction is unsure",
        "if Status.FAILS in (direction or exact):",
        "if Status.FAILS in (*direction, *exact):",
        "test_verdicts",
    ),
)
WRITER = _rows(
    "collectors/writer.py",
    "tests/collectors/test_writer.py",
    (
        "a shortened log begins with a cut line",
        'head = head[: head.rfind(b"\\n") + 1] or head + b"\\n"\n',
        'head = head + b"\\n"\n',
        "test_logs_are_taken_over_long_ones_without_their_middle",
    ),
    (
        "a shortened log goes on inside a line",
        '    tail = tail[tail.find(b"\\n") + 1 :]\n',
        "",
        "test_logs_are_taken_over_long_ones_without_their_middle",
    ),
    (
        "what an error leaves half-written stays",
        "    finally:\n        shutil.rmtree(partial, ignore_errors=True)\n\n\ndef _rename",
        "    finally:\n        pass\n\n\ndef _rename",
        "test_interrupting_a_write_leaves_nothing",
    ),
    (
        "a failure outlives the success that follows it",
        "    _write_aside(folder, fill)\n    shutil.rmtree(failed_folder(folder), ignore_errors=True)\n",
        "    _write_aside(folder, fill)\n",
        "test_a_failure_is_recorded_and_forgotten_after_success",
    ),
)
INTEGRITY = (
    *_rows(
        "collectors/integrity.py",
        "tests/collectors/test_integrity.py",
        (
            "a table's bytes are not looked at",
            "if digest.hexdigest() != written[DIGEST]:",
            "if False:",
            "test_random_damage_is_always_seen",
        ),
        (
            "a table that was not written belongs to the run",
            "for name in sorted(there - listed.keys() - {MANIFEST, LOGS}):",
            "for name in ():",
            "test_damage_is_named",
        ),
        (
            "a whole run may lie under another's name",
            'if manifest.get("run_id") != os.path.basename(folder):',
            "if False:",
            "test_a_run_under_another_name_is_a_mix_up",
        ),
        (
            "a manifest's seal is not looked at",
            "if not is_sealed(manifest) and",
            "if False and",
            "test_damage_is_named",
        ),
    ),
    *_rows(
        "collectors/partials.py",
        "tests/collectors/test_integrity.py",
        (
            "processes of other namespaces count as dead",
            "(mark[2], int(mark[3])) != (_boot(), _namespace())",
            "mark[2] != _boot()",
            "test_only_folders_of_processes_that_are_provably_dead_are_removed",
        ),
        (
            "a process number that is used again keeps a folder",
            "return _start(int(mark[4])) != int(mark[5])",
            "return _start(int(mark[4])) == -1",
            "test_only_folders_of_processes_that_are_provably_dead_are_removed",
        ),
    ),
)
CODE_VERSION = _rows(
    "harness/code_version.py",
    "tests/harness/test_code_version.py",
    (
        "shipped tables do not belong to a run",
        "for name in _source(root, path).data]",
        "for name in ()]",
        "test_live_runs_hang_on_the_brokers_sources_and_virtual_ones_do_not",
    ),
    (
        "pinned packages do not belong to a run",
        'Path("requirements.lock"), ',
        "",
        "test_a_byte_of_any_file_that_a_run_uses_voids_it_and_of_no_other",
    ),
    (
        "every line of a registry belongs to a run",
        "        if _is_registry(node):",
        "        if False:",
        "test_a_new_file_or_a_new_line_in_a_registry_voids_nothing",
    ),
    (
        "the body for other testbeds belongs to a run",
        '_BY_SPEC = {"virtual", "live", ',
        "_BY_SPEC = {",
        "test_live_runs_hang_on_the_brokers_sources_and_virtual_ones_do_not",
    ),
)
CAMPAIGN = _rows(
    "harness/campaign.py",
    "tests/harness/test_campaign.py",
    (
        "a folder without a manifest is a finished run",
        "if is_whole(folder)}",
        "if folder.is_dir()}",
        "test_only_what_has_a_manifest_is_finished",
    ),
    (
        "a machine that fails does not end the campaign",
        "if finished.fatal:",
        "if False:",
        "test_an_error_of_the_machine_ends_a_campaign",
    ),
    (
        "what a run left half-written stays after the campaign",
        "        finally:\n            remove_partials(self.runs)",
        "        finally:\n            pass",
        "test_failures_are_told_and_returned_and_nothing_half_written_stays",
    ),
)
LOCAL_EXECUTOR = _rows(
    "harness/executors/local.py",
    "tests/harness/test_campaign.py",
    (
        "the first error of a live machine ends the campaign",
        "fatal=finished.fatal and failed_before",
        "fatal=finished.fatal",
        "test_one_error_of_the_machine_in_real_time_is_a_failed_run_two_in_a_row_are_the_end",
    ),
)
BATCHES = _rows(
    "harness/executors/batches.py",
    "tests/harness/executors/test_batches.py",
    (
        "a task takes as long as it likes",
        "if not batches or seconds > room_s:",
        "if not batches:",
        "test_every_run_is_in_one_batch_and_none_of_several_is_long",
    ),
)
ON_WORKERS = _rows(
    "harness/executors/worker.py",
    "tests/harness/executors/test_worker.py",
    (
        "workers compute whatever code they have",
        'if code != asked["code"]:',
        "if False:",
        "test_other_code_other_files_and_other_modules_are_refused_and_nothing_is_begun",
    ),
    (
        "a run ends executors for ever",
        "if _strikes(order, asked) < STRIKES:",
        "if True:",
        "test_a_run_over_which_two_executors_ended_is_not_begun_a_third_time",
    ),
    (
        "runs count as finished that are in no pack",
        "        packs.bring(",
        "        list(",
        "test_where_hosts_share_no_folder_what_finished_is_in_packs_and_nothing_stays_behind",
    ),
)
PACKS = _rows(
    "collectors/packs.py",
    "tests/collectors/test_packs.py",
    (
        "packs go that a commit is about to name",
        "> UNNAMED_S:",
        "> 0.0:",
        "test_packs_that_no_commit_names_go_when_they_are_a_day_old",
    ),
)
CLAIMS = _rows(
    "collectors/store/claims.py",
    "tests/collectors/store/test_claims.py",
    (
        "a killed command's claim counts for a week",
        "if is_dead(claim.name) or ",
        "if ",
        "test_dead_readers_go_where_there_is_no_garbage_either",
    ),
    (
        "who cannot be asked about is taken for dead",
        "with suppress(FileNotFoundError):",
        "with suppress(OSError):",
        "test_what_cannot_be_asked_about_just_now_may_live",
    ),
)
MATRIX = _rows(
    "harness/matrix.py",
    "tests/harness/test_specs.py",
    (
        "an empty list makes no run, in silence",
        "        if values == []:\n",
        "        if False:\n",
        "test_a_broken_matrix_file_is_named",
    ),
    (
        "an unknown key is ignored",
        "        if key not in (*AXES, *_OPTIONS):\n",
        "        if False:\n",
        "test_a_broken_matrix_file_is_named",
    ),
    (
        "a matrix takes only the first value of an option",
        "values if isinstance(values, list) else [values]",
        "values[:1] if isinstance(values, list) else [values]",
        "test_a_matrix_file_multiplies_its_lists",
    ),
)
LINKS = _rows(
    "testbed/links.py",
    "tests/testbed/virtual/test_network.py",
    (
        "a partition heals only when all do",
        "if side and other != hosts]",
        "if side]",
        "test_a_partition_loses_datagrams_until_it_heals",
    ),
    (
        "a host that moved is still reached by its old link",
        "            self._moved[host] = key\n",
        "",
        "test_a_host_that_moves_takes_its_link_along",
    ),
)
NETWORK = _rows(
    "testbed/virtual/network.py",
    "tests/testbed/virtual/test_network.py",
    (
        "a stream waits no round trip before it sends again",
        "first_wait_ns(2 * stream.route.one_way_delay_ns)",
        "first_wait_ns(0)",
        "test_a_lost_stream_message_is_sent_again_after_doubling_waits",
    ),
    (
        "what waited for a crashed node is delivered",
        "self.unordered.clear()",
        "pass",
        "test_a_crash_ends_the_streams_of_a_node",
    ),
    (
        "a stream's wait never begins anew",
        "            stream.wait_ns = 0\n",
        "            pass\n",
        "test_the_wait_begins_anew_once_the_first_comes_through",
    ),
)
RETRANSMISSION = _rows(
    "testbed/nodes/retransmission.py",
    "tests/testbed/virtual/test_network.py",
    (
        "a back-off without a maximum",
        "return min(2 * wait_ns, RETRANSMIT_MAXIMUM_NS)",
        "return 2 * wait_ns",
        "test_after_the_last_heal_all_is_there_within_a_second_and_a_delay",
    ),
)
STOPS = _rows(
    "collectors/stops.py",
    "tests/collectors/test_stops.py",
    (
        "a stop between two looks is not noticed",
        "elif went_on and",
        "elif False and",
        "test_stops_by_hand",
    ),
)
VALIDITY = _rows(
    "ratebed/validity.py",
    "tests/ratebed/test_validity.py",
    (
        "invalid runs end a command as valid ones do",
        "return 1 if are_invalid",
        "return 0 if are_invalid",
        "test_what_is_not_valid_is_said_with_the_reason",
    ),
)
MEMBER = _rows(
    "testbed/nodes/member.py",
    "tests/testbed/nodes/test_member.py",
    (
        "a timer that was set again rings twice",
        "if self._timers.get(timer) == serial:",
        "if timer in self._timers:",
        "test_a_timer_that_was_set_again_or_lost_in_a_crash_does_not_ring",
    ),
)
INCARNATIONS = _rows(
    "testbed/nodes/member.py",
    "tests/testbed/virtual/test_scheduler.py",
    (
        "timers outlive a crash",
        "        self._timers.clear()\n",
        "",
        "test_timers_die_with_their_incarnation_and_state_with_its_node",
    ),
)
SCHEDULER = _rows(
    "testbed/virtual/scheduler.py",
    "tests/testbed/virtual/test_scheduler.py",
    (
        "a stream outlives the incarnation it was sent to",
        "and member.incarnation != parcel.target_incarnation",
        "and False",
        "test_a_stream_does_not_outlive_the_incarnation_it_was_sent_to",
    ),
    (
        "a node's next life waits behind what was sent to the dead",
        "        self._network.end_streams(member.name)",
        "        pass",
        "test_nothing_waits_behind_what_was_sent_to_the_dead",
    ),
    (
        "the data plane lags behind the events",
        "            self._plane.advance(self.now_ns)\n",
        "            pass\n",
        "test_the_data_plane_is_advanced_before_it_is_asked_or_told",
    ),
)
# The rules of live runs, as pure functions from a run's records to its tables.
LIVE = [
    *_rows(
        "studies/placement/accounts.py",
        "tests/studies/placement/test_accounts.py",
        (
            "lateness is counted from when the process fired, not from the intended instant",
            "lateness_ns(sent.born_ns, sent.fired_ns)",
            "lateness_ns(sent.fired_ns, sent.sent_ns)",
            "test_lateness_counts_from_the_intended_instant",
        ),
    ),
    *_rows(
        "testbed/trust/accounts.py",
        "tests/testbed/trust/test_accounts.py",
        (
            "what was never released has a release instant",
            'np.where(rows["released_at_ns"] == 0, ABSENT, rows["released_at_ns"])',
            'rows["released_at_ns"]',
            "test_a_message_that_still_waits_at_its_broker_has_no_release",
        ),
    ),
    *_rows(
        "studies/limiting/accounts.py",
        "tests/studies/limiting/test_accounts.py",
        (
            "a single datagram lost on the way is not counted",
            "        if lost > 0:\n",
            "        if lost > 1:\n",
            "test_a_datagram_that_was_sent_and_did_not_come_is_lost",
        ),
        (
            "what a node wrote down counts more than what its user was told",
            "        if received_ns != NEVER:\n",
            "        if received_ns != NEVER and number not in verdicts:\n",
            "test_a_request_that_was_decided_twice_counts_once",
        ),
        (
            "a request without a verdict is not counted as lost",
            "for _, request in offered if request.id not in verdicts]",
            "for _, request in offered if request.id in verdicts]",
            "test_each_request_has_its_fate",
        ),
        (
            "an answer to no question is a decision",
            "            if number in journal.offered:\n",
            "            if True:\n",
            "test_an_answer_to_no_question_is_no_decision",
        ),
    ),
    *_rows(
        "testbed/nodes/witness.py",
        "tests/testbed/nodes/test_witness.py",
        (
            "what a timer decides without an answer passes where the node does not say so",
            "or is_silent or was_asked:",
            "or is_silent:",
            "test_what_a_timer_decides_was_not_answered_and_what_an_answer_decides_was",
        ),
        (
            "who never heard of its server may decide without a word",
            "if decision.unanswered or is_silent or ",
            "if decision.unanswered or ",
            "test_a_node_that_never_heard_of_its_server_decides_alone_when_and_how_it_ever_does",
        ),
    ),
    *_rows(
        "studies/limiting/live.py",
        "tests/studies/limiting/test_records.py",
        (
            "the drain ends while nodes hold unsent bytes",
            "over and not unsent and all(",
            "over and all(",
            "test_a_drain_goes_on_while_anything_is_left",
        ),
    ),
]

# Topics that come and go.
TOPICS = [
    *_rows(
        "testbed/virtual/cluster_kernel.py",
        "tests/testbed/virtual/test_cluster.py",
        (
            "what is tried counts as a resident",
            "counted = is_resident[its] and sent_ns < end_ns",
            "counted = sent_ns < end_ns",
            "test_only_residents_count_and_only_until_the_end",
        ),
        (
            "the way to a store takes no time",
            "wait = asked_ns + (",
            "wait = (",
            "test_a_store_is_one_bucket_a_round_trip_away",
        ),
        (
            "a topic's messages are late by another's SLO",
            "took_ns > slo_ns[its]",
            "took_ns > slo_ns[0]",
            "test_what_is_late_is_above_the_slo_of_its_own_topic",
        ),
    ),
    *_rows(
        "studies/topics/newcomer.py",
        "tests/studies/topics/test_topics.py",
        (
            "a topic on one broker asks a store",
            "self.rule.sharing == STORE and len(np.unique(assignment[assignment >= 0])) > 1:",
            "self.rule.sharing == STORE:",
            "test_a_store_takes_the_penalty_of_spreading_away_and_costs_a_single_broker_nothing",
        ),
    ),
    *_rows(
        "studies/topics/virtual.py",
        "tests/studies/topics/test_topics.py",
        (
            "a topic is taken in without room",
            "topic.schedule.population.total_rps > np.maximum(mcap_rps - loads_rps, 0.0).sum()",
            "topic.schedule.population.total_rps > np.inf",
            "test_a_topic_without_room_is_refused_and_sends_nothing",
        ),
        (
            "a stay begins with the arrival, not with the admission",
            "placed.until_ns = admitted_ns + topic.life_ns",
            "placed.until_ns = topic.arrives_ns + topic.life_ns",
            "test_counts_and_spans_add_up",
        ),
    ),
]

KEEPING = _rows(
    "testbed/brokers/moving/keeping.py",
    "tests/testbed/brokers/moving/test_keeping.py",
    (
        "a publisher leaves a broker whose OK it has, though not all is delivered",
        "        if not self._kept:\n            super()._maybe_leave()",
        "        super()._maybe_leave()",
        "test_it_leaves_when_all_has_its_receipt_and_goes_on_with_what_it_held",
    ),
    (
        "what a broker had when it died is not offered again",
        "if not _has_come(load, index) and not load.ended:",
        "if load.ended:",
        "test_what_has_no_receipt_when_its_broker_dies_is_offered_again_oldest_first",
    ),
    (
        "the newest is offered again first",
        "self._waiting.appendleft((load, index))",
        "self._waiting.append((load, index))",
        "test_who_is_on_its_way_when_its_broker_dies_offers_again_at_the_new_one",
    ),
    (
        "what came after all is offered again",
        "if load.ended or _has_come(load, index):",
        "if load.ended:",
        "test_what_has_no_receipt_when_its_broker_dies_is_offered_again_oldest_first",
    ),
    (
        "a broker that has no bucket yet is dialled",
        "if self.target in self._keeping.withheld:",
        "if self.target is None:",
        "test_a_broker_that_is_not_ready_is_not_dialled",
    ),
    (
        "a copy counts for the message that is missing",
        "        if self._received[place]:\n            return False\n",
        "",
        "test_an_emission_has_come_when_all_its_messages_have_each_counted_once",
    ),
)

JOINED = _rows(
    "studies/moving/joined.py",
    "tests/studies/moving/test_joined.py",
    (
        "a broker's row of a second copy is taken for the first",
        "(broker[message] == number) & (released - epoch_ns <= received_ns[message])",
        "True",
        "test_a_copy_that_came_before_counts_as_first_and_is_not_measured_by_the_second",
    ),
    (
        "what is lost is said to wait",
        "~came & (waits | is_in_line)",
        "~came",
        "test_what_is_gone_is_lost_and_what_waits_is_not",
    ),
)

MUTATIONS: tuple[Mutation, ...] = (
    *(*SRTM, *CONC, *CONCENTRATION, *TB_ADAPTOR, *TOKEN_BUCKET, *ENVELOPE, *LIMITING, *METRICS, *VERDICTS),
    *(*WRITER, *INTEGRITY, *CODE_VERSION, *CAMPAIGN, *LOCAL_EXECUTOR, *BATCHES, *ON_WORKERS, *PACKS, *CLAIMS),
    *(*MATRIX, *LINKS, *NETWORK, *RETRANSMISSION, *MEMBER),
    *(*INCARNATIONS, *SCHEDULER, *LIVE, *STOPS, *VALIDITY, *TOPICS, *KEEPING, *JOINED),
)


def problem_of(mutation: Mutation, root: Path = ROOT) -> str:
    """Why a row cannot be tried: its old text is not there once, or a test of that name is not; empty if it can."""
    path = root / mutation.file
    count = path.read_text().count(mutation.old) if path.is_file() else 0
    if count != 1:
        return f"{mutation.file} has {mutation.old!r} {count} times"
    for test in mutation.tests:
        file, _, name = test.partition("::")
        if not (root / file).is_file() or f"def {name.partition('[')[0]}(" not in (root / file).read_text():
            return f"there is no test {test}"
    return ""


def copied(folder: Path) -> None:
    """Copy what git knows of this checkout, as it is now, to ``folder``."""
    for path in tracked_files():
        target = folder / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target)


def outcome_of(tests: Sequence[str], root: Path, compile_modules: bool) -> tuple[int | None, str]:
    """pytest's exit code in the copy and what it printed; no code where it took too long.

    What is edited leaves nothing compiled behind.  The copy has no servers beside it, so none is demanded of it.
    """
    java = ROOT / ".java"
    environment = {"JAVA_HOME": str(java)} if java.is_dir() else {}
    environment |= {**os.environ, "PYTHONPATH": str(root), "RATEBED_NEEDS": ""}
    if not compile_modules:
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    try:
        limit_s = SECONDS_MAXIMUM * (1 + len(tests) // 10)
        run = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, timeout=limit_s)
    except subprocess.TimeoutExpired:
        return None, f"more than {limit_s} s"
    return run.returncode, run.stdout + run.stderr


def verdict_on(mutation: Mutation, root: Path) -> str:
    """Edit the copy, run the tests, and mend it again: "killed", or what happened instead."""
    path = root / mutation.file
    text, stat = path.read_text(), path.stat()
    path.write_text(text.replace(mutation.old, mutation.new))
    try:
        outcome, said = outcome_of(mutation.tests, root, compile_modules=False)
    finally:
        path.write_text(text)
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))  # what was compiled of it holds again
    if outcome is None:
        return f"UNDECIDED: {said}"
    return {0: "SURVIVED", _TESTS_FAILED: "killed"}.get(outcome, f"UNDECIDED: pytest ended with {outcome}")


def main(words: Sequence[str]) -> int:
    """Try the rows that have one of ``words``, all by default; 0 if all are killed."""
    chosen = [row for row in MUTATIONS if not words or any(word in f"{row.file} {row.breaks}" for word in words)]
    problems = [problem for row in chosen if (problem := problem_of(row))]
    if problems or not chosen:
        print("\n".join(problems or ["no row has that word"]))
        return 1
    with tempfile.TemporaryDirectory(prefix="ratebed-mutations-") as name:
        root = Path(name)
        copied(root)
        tests = list(dict.fromkeys(test for row in chosen for test in row.tests))
        outcome, said = outcome_of(tests, root, compile_modules=True)
        if outcome != 0:
            print("the tests do not pass as it is:", *said.splitlines()[-_LINES_SHOWN:], sep="\n")
            return 1
        not_killed = 0
        for number, row in enumerate(chosen, start=1):
            began_s = time.monotonic()
            verdict = verdict_on(row, root)
            not_killed += verdict != "killed"
            print(
                f"{number:3}/{len(chosen)} {time.monotonic() - began_s:5.1f} s  {verdict}  {row.file}: {row.breaks}",
                flush=True,
            )
    print(f"{len(chosen) - not_killed} of {len(chosen)} killed")
    return 1 if not_killed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
