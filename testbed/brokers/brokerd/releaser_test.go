package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nsqio/nsq/nsqd"
)

const testToken = "of-this-test"

// testIngress has a real nsqd behind it, which serves, as the control port does; nothing listens for publishers unless
// the test runs it.
func testIngress(t *testing.T, slabs bool) *ingress {
	t.Helper()
	collection := map[bool]string{true: "friendly", false: "default"}[slabs]
	its := options{
		data: "127.0.0.1:0", nsqd: "127.0.0.1:0", control: "127.0.0.1:0", path: t.TempDir(), stamps: "kernel",
		gc: collection, memoryQueue: 10_000, topicBytes: 64 << 20, bytes: 128 << 20, rows: 100_000,
	}
	return opened(t, its)
}

func opened(t *testing.T, its options) *ingress {
	t.Helper()
	in, _ := openedBoth(t, its)
	return in
}

func openedBoth(t testing.TB, its options) (*ingress, *control) {
	t.Helper()
	in, control, err := its.open([]byte(testToken))
	if err != nil {
		t.Fatal(err)
	}
	go control.run()
	begin(t, in.nsqd, its.path)
	t.Cleanup(func() {
		in.close()
		_ = control.listener.Close()
		in.nsqd.Exit()
	})
	return in, control
}

// begin lets nsqd run. Its Exit must not come while its Main still begins, so a topic passes through all of it.
func begin(t testing.TB, broker *nsqd.NSQD, path string) {
	t.Helper()
	go func() { _ = broker.Main() }()
	broker.GetTopic("begin")
	await(t, "nsqd has begun", func() bool {
		text, err := os.ReadFile(filepath.Join(path, "nsqd.dat"))
		return err == nil && bytes.Contains(text, []byte("begin"))
	})
	if err := broker.DeleteExistingTopic("begin"); err != nil {
		t.Fatal(err)
	}
}

func testTopic(t *testing.T, in *ingress, name string) *topic {
	t.Helper()
	found, err := in.acquire(name)
	if err != nil {
		t.Fatal(err)
	}
	found.keep(true, 1000)
	return found
}

func stamped(count int, stampNs int64) []*nsqd.Message {
	messages := make([]*nsqd.Message, count)
	for i := range messages {
		messages[i] = &nsqd.Message{Body: []byte{byte(i)}, Timestamp: stampNs}
	}
	return messages
}

// waitEmpty waits until nothing waits for tokens.
func waitEmpty(t *testing.T, its *topic) {
	t.Helper()
	for until := time.Now().Add(10 * time.Second); time.Now().Before(until); time.Sleep(time.Millisecond) {
		if its.headNs.Load() == never {
			return
		}
	}
	t.Fatal("messages wait without end")
}

func waitingIn(its *topic) int {
	its.mutex.Lock()
	defer its.mutex.Unlock()
	return its.line.length
}

func TestReleasesInOrderAndNeverEarly(t *testing.T) {
	its := testTopic(t, testIngress(t, true), "ordered")
	if err := its.setBucket(1e6, 3*token, true); err != nil { // a token a millisecond
		t.Fatal(err)
	}
	stampNs := now()
	for i := 0; i < 4; i++ {
		if err := its.admit(stamped(5, stampNs), 1, reading{stampNs, stampNs}); err != nil {
			t.Fatal(err)
		}
	}
	waitEmpty(t, its)
	rows, dropped := its.recorded()
	if len(rows) != 20 || dropped != 0 || its.queue.Depth() != 20 {
		t.Fatalf("%d rows, %d dropped, %d at nsqd", len(rows), dropped, its.queue.Depth())
	}
	model := bucket{limited: true, rate: 1e6, capacity: 3 * token, level: 3 * token, atNs: stampNs}
	lastNs := int64(0)
	for i, r := range rows {
		if dueNs := model.take(r.stampNs); r.releasedAtNs < dueNs || r.releasedAtNs < lastNs {
			t.Errorf("message %d left at %d, due at %d, after %d", i, r.releasedAtNs, dueNs, lastNs)
		}
		lastNs = r.releasedAtNs
	}
}

func TestAnEarlierMessageOfAnotherTopicWakesTheReleaser(t *testing.T) {
	in := testIngress(t, true)
	late, soon := testTopic(t, in, "late"), testTopic(t, in, "soon")
	_ = late.setBucket(1, token, true) // a token in 1,000 s
	_ = soon.setBucket(1e8, token, true)
	_ = late.admit(stamped(2, now()), 1, reading{now(), now()})
	time.Sleep(20 * time.Millisecond) // the releaser sleeps
	_ = soon.admit(stamped(10, now()), 1, reading{now(), now()})
	waitEmpty(t, soon)
	if waiting := waitingIn(late); waiting != 1 {
		t.Errorf("%d wait in the other topic", waiting)
	}
}

func TestANewBucketRearmsTheLine(t *testing.T) {
	its := testTopic(t, testIngress(t, true), "rearmed")
	_ = its.setBucket(1, token, true)
	_ = its.admit(stamped(10, now()), 1, reading{now(), now()})
	if waiting := waitingIn(its); waiting != 9 {
		t.Fatalf("%d wait", waiting)
	}
	_ = its.setBucket(1e8, token, false) // those that wait keep their debt, repaid at the new rate
	waitEmpty(t, its)
	_ = its.setBucket(1, token, true)
	_ = its.admit(stamped(10, now()), 1, reading{now(), now()})
	_ = its.openBucket()
	if waiting := waitingIn(its); waiting != 0 || its.queue.Depth() != 20 {
		t.Errorf("%d wait, %d at nsqd", waiting, its.queue.Depth())
	}
}

func TestAReleasedTopicAdmitsNothing(t *testing.T) {
	in := testIngress(t, true)
	its := testTopic(t, in, "gone")
	_ = its.setBucket(1, token, true)
	_ = its.admit(stamped(3, now()), 1, reading{now(), now()})
	left, err := in.release(its, "CLOSE", 50*time.Millisecond)
	if err != nil || left != 3 {
		t.Errorf("%d unfinished, %v", left, err)
	}
	if err := its.admit(stamped(1, now()), 1, reading{now(), now()}); err != errReleased {
		t.Errorf("admitted: %v", err)
	}
}

func TestALineGrowsAroundItsRing(t *testing.T) {
	var l line
	next, expected := int64(0), int64(0)
	for round := 0; round < 300; round++ {
		for i := 0; i < 3; i++ {
			l.push(waiting{dueNs: next})
			next++
		}
		for i := 0; i < 2; i++ {
			if l.first().dueNs != expected {
				t.Fatalf("%d came, not %d", l.first().dueNs, expected)
			}
			expected++
			l.pop()
		}
	}
	if l.length != 300 || l.at(299).dueNs != next-1 {
		t.Errorf("%d left", l.length)
	}
}
