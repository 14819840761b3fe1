package main

import (
	"os"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

// counters are the process', since its start.
var counters tally

type tally struct {
	accepted, connections, commands, messages atomic.Int64
	reads, mergedReads, missingStamps         atomic.Int64
	errors, refusedTokens, lost, panics       atomic.Int64
	waitedMessages, lateSumNs, lateMaximumNs  atomic.Int64
	refused, strangers                        atomic.Int64
}

// waited counts a message that left so long after its time.
func (c *tally) waited(lateNs int64) {
	c.waitedMessages.Add(1)
	c.lateSumNs.Add(lateNs)
	for {
		maximum := c.lateMaximumNs.Load()
		if lateNs <= maximum || c.lateMaximumNs.CompareAndSwap(maximum, lateNs) {
			return
		}
	}
}

func (c *tally) snapshot() map[string]any {
	gc := collection()
	return map[string]any{
		"accepted_count": c.accepted.Load(), "connection_count": c.connections.Load(),
		"command_count": c.commands.Load(), "message_count": c.messages.Load(),
		"read_count": c.reads.Load(), "merged_read_count": c.mergedReads.Load(),
		"missing_stamp_count": c.missingStamps.Load(), "error_count": c.errors.Load(),
		"refused_token_count": c.refusedTokens.Load(), "lost_count": c.lost.Load(),
		"refused_message_count": c.refused.Load(), "stranger_count": c.strangers.Load(),
		"panic_count": c.panics.Load(), "waited_count": c.waitedMessages.Load(),
		"late_sum_ns": c.lateSumNs.Load(), "late_maximum_ns": c.lateMaximumNs.Load(),
		"gc_cycle_count": gc.Cycles, "gc_forced_count": gc.Forced,
		"gc_pause_sum_ns": gc.PauseSumNs, "gc_cpu_ns": gc.CPUNs,
		"heap_bytes": gc.LiveBytes, "rss_bytes": residentBytes(), "clock_ns": now(),
		"cpu_ns": processorNs(),
	}
}

// processorNs is the processor time of all threads so far, in user mode and in the kernel.
func processorNs() int64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return usage.Utime.Nano() + usage.Stime.Nano()
}

type collected struct {
	Cycles, Forced, LiveBytes uint64
	PauseSumNs, CPUNs         int64
}

// collection is what garbage collection has done so far.
func collection() collected {
	samples := []metrics.Sample{
		{Name: "/gc/cycles/total:gc-cycles"},
		{Name: "/gc/cycles/forced:gc-cycles"},
		{Name: "/gc/heap/live:bytes"},
		{Name: "/cpu/classes/gc/total:cpu-seconds"},
	}
	metrics.Read(samples)
	var found collected
	for i, to := range []*uint64{&found.Cycles, &found.Forced, &found.LiveBytes} {
		if samples[i].Value.Kind() == metrics.KindUint64 {
			*to = samples[i].Value.Uint64()
		}
	}
	if samples[3].Value.Kind() == metrics.KindFloat64 {
		found.CPUNs = int64(samples[3].Value.Float64() * 1e9)
	}
	var pauses debug.GCStats
	debug.ReadGCStats(&pauses)
	found.PauseSumNs = int64(pauses.PauseTotal)
	return found
}

func residentBytes() int64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize())
}
