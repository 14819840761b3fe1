package main

import (
	"encoding/json"
	"os"
	"testing"
)

// The vectors that the Python bucket is held to.
func TestVectors(t *testing.T) {
	text, err := os.ReadFile("../../../systems/parts/token_bucket_vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []struct {
		Rate, Capacity, Level int64
		Steps                 [][3]int64
	}
	if err := json.Unmarshal(text, &vectors); err != nil || len(vectors) < 10 {
		t.Fatalf("%d vectors, %v", len(vectors), err)
	}
	for number, v := range vectors {
		const begin = int64(1e18)
		b := bucket{limited: true, rate: v.Rate, capacity: v.Capacity, level: v.Level, atNs: begin}
		atNs := begin
		for i, step := range v.Steps {
			atNs += step[0]
			dueNs := b.take(atNs)
			if b.level != step[1] || dueNs-atNs != step[2] {
				t.Errorf("vector %d, step %d: level %d, wait %d; want %v", number, i, b.level, dueNs-atNs, step)
			}
		}
	}
}

func TestStampsThatCrossTakeFromTheLaterLevel(t *testing.T) {
	b := bucket{limited: true, rate: 1e6, capacity: token, level: token, atNs: 1000}
	if due := b.take(2000); due != 2000 {
		t.Errorf("the first leaves at %d", due)
	}
	if due := b.take(1500); due != 2000+1e6 {
		t.Errorf("the second, stamped earlier, leaves at %d: it may not use tokens twice", due)
	}
}

func TestANewBucket(t *testing.T) {
	var b bucket
	b.set(1e6, 5*token, false, 0, 1000)
	if b.level != 5*token {
		t.Errorf("without a limit before, it is full, not %d", b.level)
	}
	for i := 0; i < 4; i++ {
		b.take(1000)
	}
	b.set(2e6, 3*token, false, 0, 1000+5e5)
	if want := token + 5e5*1e6; b.level != int64(want) {
		t.Errorf("tokens stay: %d", b.level)
	}
	b.set(1e6, token, false, 0, 1000+5e5)
	if b.level != token {
		t.Errorf("cut to its size: %d", b.level)
	}
	b.take(1000 + 5e5)
	b.take(1000 + 5e5)
	b.take(1000 + 5e5)
	b.set(1e6, 4*token, true, 2, 1000+5e5)
	if b.level != 2*token {
		t.Errorf("full, less the tokens of the two that wait: %d", b.level)
	}
}

func TestDueTimesOfALine(t *testing.T) {
	b := bucket{limited: true, rate: 1e6, capacity: token, level: 0, atNs: 0}
	var want []int64
	for i := 0; i < 5; i++ {
		want = append(want, b.take(0))
	}
	for i, dueNs := range want {
		if due := b.due(int64(len(want) - 1 - i)); due != dueNs {
			t.Errorf("message %d of the line is due at %d, was at %d", i, due, dueNs)
		}
	}
}
