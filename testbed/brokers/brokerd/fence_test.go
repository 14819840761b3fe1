package main

import (
	"testing"
	"time"
)

func openTopic(t *testing.T, in *ingress, name string, channels ...string) *topic {
	t.Helper()
	if err := in.open(name, channels); err != nil {
		t.Fatal(err)
	}
	found, err := in.find(name)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// What a connection was refused is the end of what it sent: opening the topic again lets nothing later slip in.
func TestAFencedConnectionStaysFenced(t *testing.T) {
	in := testIngress(t, true)
	go in.run()
	its := openTopic(t, in, "moves", "a")
	conn := dial(t, in)
	write(t, conn, pub("moves", "one"))
	expect(t, conn, frameResponse, "OK")
	its.fence()
	write(t, conn, append(pub("moves", "two"), pub("moves", "three")...))
	expect(t, conn, frameError, "E_FENCED moves")
	expect(t, conn, frameError, "E_FENCED moves")
	fresh := openTopic(t, in, "moves", "a")
	if fresh == its {
		t.Fatal("a topic that was fenced begins anew")
	}
	write(t, conn, append(pub("others", "x"), pub("moves", "four")...))
	expect(t, conn, frameResponse, "OK")
	expect(t, conn, frameError, "E_FENCED moves")
	second := dial(t, in)
	write(t, second, pub("moves", "two"))
	expect(t, second, frameResponse, "OK")
	if again := openTopic(t, in, "moves", "b"); again != fresh {
		t.Error("one that is open only gets more channels")
	}
}

func TestDrainedIsFencedAndEmpty(t *testing.T) {
	in := testIngress(t, true)
	its := openTopic(t, in, "moves", "a", "b")
	if err := its.admit(stamped(3, now()), 1, reading{}); err != nil {
		t.Fatal(err)
	}
	its.fence()
	if err := its.admit(stamped(1, now()), 1, reading{}); err != errFenced {
		t.Errorf("a fenced topic answers %v", err)
	}
	found := in.queueOf(its)
	if found.drained || found.copies != 6 || found.depth != 6 {
		t.Errorf("three messages in two channels: %+v", found)
	}
	for _, name := range []string{"a", "b"} { // nobody was sent any: what is thrown away is not held
		channel, err := its.queue.GetExistingChannel(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := channel.Empty(); err != nil {
			t.Fatal(err)
		}
	}
	if in.queueOf(its).drained {
		t.Error("without subscribers that have finished everything, it takes some time")
	}
	time.Sleep(settleTime + 10*time.Millisecond)
	if !in.queueOf(its).drained {
		t.Error("empty for long enough")
	}
	if kept := openTopic(t, in, "moves", "a"); in.queueOf(kept).taken != 0 {
		t.Error("it begins anew")
	}
}

func TestATopicThatStillHoldsMessagesKeepsThem(t *testing.T) {
	in := testIngress(t, true)
	its := openTopic(t, in, "moves", "a")
	if err := its.admit(stamped(2, now()), 1, reading{}); err != nil {
		t.Fatal(err)
	}
	its.fence()
	fresh := openTopic(t, in, "moves", "a")
	if err := fresh.admit(stamped(1, now()), 1, reading{}); err != nil {
		t.Fatal(err)
	}
	for until := time.Now().Add(5 * time.Second); in.queueOf(fresh).copies < 3; time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("%+v", in.queueOf(fresh))
		}
	}
}

func TestNobodyWaitsForATopicWithoutSubscribers(t *testing.T) {
	in := testIngress(t, true)
	its := openTopic(t, in, "moves")
	if err := its.admit(stamped(2, now()), 1, reading{}); err != nil {
		t.Fatal(err)
	}
	its.fence()
	if found := in.queueOf(its); !found.drained || found.taken != 2 {
		t.Errorf("it is drained: %+v", found)
	}
}

// nsqd keeps the messages of a topic without channels for the first one.
func TestWhoSubscribesGetsNothingFromBefore(t *testing.T) {
	in := testIngress(t, true)
	its := openTopic(t, in, "moves")
	if err := its.admit(stamped(2, now()), 1, reading{}); err != nil {
		t.Fatal(err)
	}
	openTopic(t, in, "moves", "late")
	if err := its.admit(stamped(1, now()), 1, reading{}); err != nil {
		t.Fatal(err)
	}
	for until := time.Now().Add(5 * time.Second); in.queueOf(its).copies < 1; time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("%+v", in.queueOf(its))
		}
	}
	if found := in.queueOf(its); found.copies != 1 || found.taken != 3 {
		t.Errorf("%+v", found)
	}
}
