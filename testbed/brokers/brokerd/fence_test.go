package main

import (
	"net"
	"strconv"
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

// Where only commands make topics, nobody else does: not by publishing, not by subscribing, on neither port.
func TestWhereOnlyCommandsMakeTopicsTheOthersAreFenced(t *testing.T) {
	in := testIngress(t, true)
	in.isCommanded = true
	go in.run()
	conn := dial(t, in)
	write(t, conn, append(pub("moves", "one"), mpub("moves", "two", "three")...))
	expect(t, conn, frameError, "E_FENCED moves")
	expect(t, conn, frameError, "E_FENCED moves")
	for _, command := range [][]byte{[]byte("SUB moves a\n"), pub("moves", "x"), mpub("moves", "x")} {
		stranger := dialNsqd(t, in)
		write(t, stranger, command)
		expect(t, stranger, frameError, "E_FENCED moves")
		expectEnd(t, stranger)
	}
	if made := in.nsqd.GetStats("", "", false).Topics; len(made)+len(in.all()) != 0 {
		t.Errorf("they made %v", made)
	}
	openTopic(t, in, "moves", "a")
	write(t, conn, append(pub("moves", "two"), pub("others", "x")...)) // nothing overtakes what was refused
	expect(t, conn, frameError, "E_FENCED moves")
	expect(t, conn, frameError, "E_FENCED others")
	second, reader := dial(t, in), subscribe(t, in, "moves", "a", 1)
	write(t, second, pub("moves", "one"))
	expect(t, second, frameResponse, "OK")
	finish(t, reader)
}

// await waits until something holds, which depends on nsqd's goroutines.
func await(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for until := time.Now().Add(20 * time.Second); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("never: %s", what)
		}
	}
}

// subscribe is a subscriber that wants so many messages at a time.
func subscribe(t *testing.T, in *ingress, topic, channel string, ready int) net.Conn {
	t.Helper()
	conn := dialNsqd(t, in)
	write(t, conn, append([]byte("IDENTIFY\n"), sized(`{"output_buffer_size":-1}`)...))
	expect(t, conn, frameResponse, "OK")
	write(t, conn, []byte("SUB "+topic+" "+channel+"\n"))
	expect(t, conn, frameResponse, "OK")
	write(t, conn, []byte("RDY "+strconv.Itoa(ready)+"\n"))
	return conn
}

// receive takes the next message, and returns its id and body.
func receive(t *testing.T, conn net.Conn) (string, []byte) {
	t.Helper()
	kind, data := frame(t, conn)
	if kind != frameMessage || len(data) < 26 {
		t.Fatalf("no message, but frame %d %q", kind, data)
	}
	return string(data[10:26]), data[26:]
}

func finish(t *testing.T, conn net.Conn) {
	t.Helper()
	id, _ := receive(t, conn)
	write(t, conn, []byte("FIN "+id+"\n"))
}

func TestDrainedIsFencedAndFinished(t *testing.T) {
	in := testIngress(t, true)
	its := openTopic(t, in, "moves", "a", "b")
	if err := its.admit(stamped(3, now()), 1, reading{}); err != nil {
		t.Fatal(err)
	}
	its.fence()
	if err := its.admit(stamped(1, now()), 1, reading{}); err != errFenced {
		t.Errorf("a fenced topic answers %v", err)
	}
	await(t, "three messages are copied to two channels", func() bool { return in.queueOf(its).copies == 6 })
	if seen := in.queueOf(its); seen.drained || seen.depth != 6 || seen.taken != 3 {
		t.Errorf("nobody has had any: %+v", seen)
	}
	first := subscribe(t, in, "moves", "a", 10)
	for i := 0; i < 3; i++ {
		finish(t, first)
	}
	second := subscribe(t, in, "moves", "b", 10)
	finish(t, second)
	finish(t, second)
	id, _ := receive(t, second)
	await(t, "five are finished", func() bool { return in.queueOf(its).finished == 5 })
	_ = first.Close()
	if seen := in.queueOf(its); seen.drained || seen.inFlight != 1 {
		t.Errorf("one is on its way: %+v", seen)
	}
	write(t, second, []byte("FIN "+id+"\n"))
	_ = second.Close()
	await(t, "all are finished, by subscribers that are gone", func() bool { return in.queueOf(its).drained })
	if kept := openTopic(t, in, "moves", "a"); in.queueOf(kept).taken != 0 {
		t.Error("it begins anew")
	}
}

// A message on its way inside nsqd is in no queue, and who knows for how long: empty queues say nothing.
func TestEmptyIsNotDrained(t *testing.T) {
	in := testIngress(t, true)
	its := openTopic(t, in, "moves", "a")
	if err := its.admit(stamped(2, now()), 1, reading{}); err != nil {
		t.Fatal(err)
	}
	its.fence()
	await(t, "they are copied", func() bool { return in.queueOf(its).copies == 2 })
	channel, err := its.queue.GetExistingChannel("a")
	if err != nil {
		t.Fatal(err)
	}
	if err := channel.Empty(); err != nil {
		t.Fatal(err)
	}
	for i := 0; i < 100; i++ {
		if seen := in.queueOf(its); seen.drained || seen.depth+seen.inFlight != 0 {
			t.Fatalf("nobody has finished them: %+v", seen)
		}
	}
}

// Whoever looks while subscribers leave never sees more finished than there was, nor less than before.
func TestWhoLeavesIsCountedOnce(t *testing.T) {
	in := testIngress(t, true)
	const each = 3
	channels := make([]string, 30)
	for i := range channels {
		channels[i] = "c" + strconv.Itoa(i)
	}
	its := openTopic(t, in, "moves", channels...)
	if err := its.admit(stamped(each, now()), 1, reading{}); err != nil {
		t.Fatal(err)
	}
	its.fence()
	await(t, "they are copied", func() bool { return in.queueOf(its).copies == int64(each*len(channels)) })
	done := make(chan struct{})
	looked := make(chan queue, 1)
	go func() {
		defer close(looked)
		last := queue{}
		for {
			seen := in.queueOf(its)
			if seen.finished < last.finished || seen.finished > seen.copies || seen.drained != (seen.finished == seen.copies) {
				t.Errorf("%+v, then %+v", last, seen)
			}
			last = seen
			select {
			case <-done:
				looked <- seen
				return
			default:
			}
		}
	}()
	for _, channel := range channels {
		conn := subscribe(t, in, "moves", channel, each)
		for i := 0; i < each; i++ {
			finish(t, conn)
		}
		_ = conn.Close()
	}
	await(t, "all is finished", func() bool { return in.queueOf(its).drained })
	close(done)
	<-looked
}

// What has been passed on stays so: rates between two looks are made of it.
func TestADeletedChannelTakesNoCopyBack(t *testing.T) {
	in := testIngress(t, true)
	its := openTopic(t, in, "moves", "a", "b")
	if err := its.admit(stamped(3, now()), 1, reading{}); err != nil {
		t.Fatal(err)
	}
	await(t, "they are copied", func() bool { return in.queueOf(its).copies == 6 })
	s := &session{ingress: in}
	if _, err := s.leave(request{Topic: "moves", Channels: []string{"a"}}); err != nil {
		t.Fatal(err)
	}
	if seen := in.queueOf(its); seen.copies != 6 || seen.left != 3 {
		t.Errorf("those of a are nobody's any more, and were made: %+v", seen)
	}
	if err := its.admit(stamped(1, now()), 1, reading{}); err != nil {
		t.Fatal(err)
	}
	await(t, "one more is copied, to b", func() bool { return in.queueOf(its).copies == 7 })
	if _, err := s.leave(request{Topic: "moves", Channels: []string{"b"}}); err != nil {
		t.Fatal(err)
	}
	if seen := in.queueOf(its); seen.copies != 7 || seen.left != 0 {
		t.Errorf("nobody waits: %+v", seen)
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
	await(t, "three messages are copied", func() bool { return in.queueOf(fresh).copies == 3 })
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
	await(t, "a message is copied", func() bool { return in.queueOf(its).copies > 0 })
	if found := in.queueOf(its); found.copies != 1 || found.taken != 3 {
		t.Errorf("%+v", found)
	}
}
