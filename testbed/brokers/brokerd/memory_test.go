package main

import (
	"bytes"
	"math"
	"runtime"
	"strings"
	"testing"
)

// What garbage collection is blamed for must be there to be avoided: a stock broker's allocations
// for each message in one mode, next to none in the other.
func TestAllocationsPerMessage(t *testing.T) {
	const rounds, count = 4, 1000
	for _, slabs := range []bool{false, true} {
		in := testIngress(t, slabs)
		go in.run()
		conn := dial(t, in)
		command, answer := pub("t", strings.Repeat("m", 150)), make([]byte, 10)
		publish := func(times int) {
			for i := 0; i < times; i++ {
				_, _ = conn.Write(command)
				if _, err := conn.Read(answer); err != nil || !bytes.HasSuffix(answer, []byte("OK")) {
					t.Fatalf("%q, %v", answer, err)
				}
			}
		}
		publish(100)
		each, size := math.Inf(1), uint64(0)
		for i := 0; i < rounds; i++ { // the least: what earlier tests left running, or a collection, only adds
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			publish(count)
			runtime.ReadMemStats(&after)
			if its := float64(after.Mallocs-before.Mallocs) / count; its < each {
				each, size = its, (after.TotalAlloc-before.TotalAlloc)/count
			}
		}
		if slabs && each > 0.5 || !slabs && each < 2.5 {
			t.Errorf("slabs %v: %.2f allocations a message", slabs, each)
		}
		t.Logf("slabs %v: %.2f allocations, %d bytes a message", slabs, each, size)
	}
}
