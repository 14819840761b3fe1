package main

import (
	"strings"
	"testing"
)

// What nobody reads is refused when there is no room for more, and only then.
func TestPublicationsBeyondTheRoomAreRefused(t *testing.T) {
	const size, limit = 100_000, 1 << 20
	in := opened(t, options{
		data: "127.0.0.1:0", nsqd: "127.0.0.1:0", control: "127.0.0.1:0", path: t.TempDir(), stamps: "kernel",
		memoryQueue: 1000, topicBytes: limit, bytes: limit * 3 / 2,
	})
	go in.run()
	body := strings.Repeat("x", size)
	const each = limit / (size + messageBytes)
	fill := func(topic, why string) (taken int) {
		t.Helper()
		conn, refused := dial(t, in), counters.refused.Load()
		for ; ; taken++ {
			write(t, conn, pub(topic, body))
			if kind, said := frame(t, conn); kind == frameError {
				if !strings.HasPrefix(string(said), "E_PUB_FAILED no room: "+why) {
					t.Errorf("%s, not: %s", said, why)
				}
				break
			}
		}
		expectEnd(t, conn)
		if counters.refused.Load() != refused+1 {
			t.Error("a refusal that is not counted")
		}
		return taken
	}
	its := openTopic(t, in, "unread", "sub")
	other := openTopic(t, in, "second", "sub")
	if first, again := fill("unread", "the topic holds"), fill("unread", "the topic holds"); first != each || again != 0 {
		t.Errorf("%d and %d, not %d", first, again, each)
	}
	if taken := fill("second", "the broker holds"); taken != each/2 {
		t.Errorf("%d, not %d", taken, each/2)
	}
	conn, counted := dial(t, in), counters.messages.Load() // all or nothing
	write(t, conn, mpub("second", "x", body))
	expect(t, conn, frameError, "E_PUB_FAILED")
	if counters.messages.Load() != counted {
		t.Error("messages that were refused are counted")
	}
	if taken := in.queueOf(other).taken; taken != each/2 {
		t.Errorf("%d messages were taken", taken)
	}
	reader := subscribe(t, in, "unread", "sub", 10)
	for i := 0; i < each; i++ {
		finish(t, reader)
	}
	_ = reader.Close()
	await(t, "they are finished", func() bool { return in.queueOf(its).finished == each })
	await(t, "the room is given back", func() bool { return in.room.held.Load() <= limit })
	if taken := fill("second", "the topic holds"); taken != each-each/2 {
		t.Errorf("%d, not %d", taken, each-each/2)
	}
	left, err := in.release(other, "CLOSE", 1)
	if err != nil || left != each {
		t.Errorf("%d left, %v", left, err)
	}
	if taken := fill("unread", "the topic holds"); taken > each || taken < each-2 { // nsqd may have some in hand
		t.Errorf("%d, not %d", taken, each)
	}
}

// Any number of small messages, and then a large one: those that are finished take no room.
func TestRoomIsNotUsedUp(t *testing.T) {
	in := opened(t, options{
		data: "127.0.0.1:0", nsqd: "127.0.0.1:0", control: "127.0.0.1:0", path: t.TempDir(), stamps: "kernel",
		memoryQueue: 1000, topicBytes: 20_000, bytes: 20_000,
	})
	go in.run()
	its := openTopic(t, in, "t", "sub")
	publisher, reader := dial(t, in), subscribe(t, in, "t", "sub", 1)
	for i := 0; i < 500; i++ {
		write(t, publisher, pub("t", strings.Repeat("x", 1+i%100*50)))
		expect(t, publisher, frameResponse, "OK")
		finish(t, reader)
		await(t, "it is finished", func() bool { return in.queueOf(its).finished == int64(i+1) })
	}
}

// One large message that is finished does not make small ones count as large.
func TestTheLargestSizeComesDownAgain(t *testing.T) {
	in := opened(t, options{
		data: "127.0.0.1:0", nsqd: "127.0.0.1:0", control: "127.0.0.1:0", path: t.TempDir(), stamps: "kernel",
		memoryQueue: 1000, topicBytes: 20_000, bytes: 1 << 20,
	})
	go in.run()
	its := openTopic(t, in, "t", "sub")
	publisher := dial(t, in)
	publish := func(size int) bool {
		write(t, publisher, pub("t", strings.Repeat("x", size)))
		kind, _ := frame(t, publisher)
		return kind == frameResponse
	}
	held := func() int64 {
		its.mutex.Lock()
		defer its.mutex.Unlock()
		return its.holding.bytes
	}
	reader := subscribe(t, in, "t", "sub", 1)
	count, before := int64(0), int64(0)
	for size := 5000; held() >= before; size = 10 { // until it is counted
		before = held()
		if !publish(size) {
			t.Fatal("no room, although all is finished")
		}
		finish(t, reader)
		count++
		await(t, "it is finished", func() bool { return in.queueOf(its).finished == count })
	}
	taken := 0
	for ; publish(10); taken++ {
		count++
		await(t, "it is copied", func() bool { return in.queueOf(its).copies == count })
	}
	if most := 20_000 / (10 + messageBytes); taken > most || taken < most*9/10 {
		t.Errorf("%d were taken, not %d", taken, most)
	}
}

func TestRowsAreBoundedByWhatTheRunAnnounced(t *testing.T) {
	in := testIngress(t, true)
	in.rowsMaximum = 100
	first, second := testTopic(t, in, "first"), testTopic(t, in, "second")
	first.keep(true, 60)
	second.keep(false, 0)
	for rows, fits := range map[int]bool{-1: false, 0: false, 1: true, 40: true, 41: false, 1 << 40: false} {
		if err := in.checkRows(second, rows); (err == nil) != fits {
			t.Errorf("%d rows: %v", rows, err)
		}
	}
	if err := in.checkRows(first, 100); err != nil {
		t.Errorf("its old record goes: %v", err)
	}
}
