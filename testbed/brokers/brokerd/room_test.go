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
	fill := func(topic string, count int, why string) {
		t.Helper()
		conn, refused := dial(t, in), counters.refused.Load()
		for i := 0; i < count; i++ {
			write(t, conn, pub(topic, body))
			expect(t, conn, frameResponse, "OK")
		}
		write(t, conn, pub(topic, body))
		expect(t, conn, frameError, "E_PUB_FAILED no room: "+why)
		expectEnd(t, conn)
		if counters.refused.Load() != refused+1 {
			t.Error("a refusal that is not counted")
		}
	}
	openTopic(t, in, "unread", "sub")
	its := openTopic(t, in, "second", "sub")
	fill("unread", each, "the topic holds")
	fill("unread", 0, "the topic holds")
	fill("second", each/2, "the broker holds")
	conn := dial(t, in) // in all or nothing
	write(t, conn, mpub("second", "x", body))
	expect(t, conn, frameError, "E_PUB_FAILED")
	if taken := in.queueOf(its).taken; taken != each/2 {
		t.Errorf("%d messages were taken", taken)
	}
	reader := subscribe(t, in, "unread", "sub", 10)
	for i := 0; i < each; i++ {
		finish(t, reader)
	}
	await(t, "they are finished", func() bool { return in.queueOf(openTopic(t, in, "unread")).finished == each })
	await(t, "the room is given back", func() bool { return in.room.held.Load() <= limit })
	fill("second", each-each/2, "the topic holds")
	fill("unread", each/2, "the broker holds") // beside more in the other topic
	left, err := in.release(its, "CLOSE", 1)
	if err != nil || left != each {
		t.Errorf("%d left, %v", left, err)
	}
	fill("unread", each-each/2, "the topic holds")
}

// Any number of small messages, and then a large one: those that are finished take no room.
func TestRoomIsNotUsedUp(t *testing.T) {
	in := opened(t, options{
		data: "127.0.0.1:0", nsqd: "127.0.0.1:0", control: "127.0.0.1:0", path: t.TempDir(), stamps: "kernel",
		memoryQueue: 1000, topicBytes: 10_000, bytes: 10_000,
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
