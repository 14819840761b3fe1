package main

import (
	"errors"
	"log"
	"net"
	"os"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/nsqio/nsq/nsqd"
)

const (
	inputBytes    = 32 << 10
	inputGuest    = 512 // bytes, before the token: more than a line
	outputBytes   = 16 << 10
	writeTimeout  = 5 * time.Second // of a client that does not read its answers
	silentMaximum = 2               // heartbeats that may stay unanswered
)

// connection is one publisher's. A single goroutine reads, answers and beats its heart: other
// goroutines that want something of it (see dismiss) leave a note and end its wait for bytes.
type connection struct {
	ingress *ingress
	tcp     *net.TCPConn
	reader  reader
	arena   arena
	output  []byte          // answers that wait for the next flush
	batch   []*nsqd.Message // of the command in hand
	topic   *topic          // published last

	// Under the ingress' mutex, written by this goroutine only.
	topics    map[*topic]struct{} // that it has published
	publisher int64
	admitted  bool

	guest     *guest
	admitBy   time.Time // when its time as a guest ends
	greeted   bool
	inCommand bool
	inRead    int // publications that ended in the bytes read last

	interval time.Duration // of heartbeats; 0 = none
	beatAt   time.Time
	silent   int                    // heartbeats since the client said anything
	leave    atomic.Pointer[string] // the farewell that somebody wants to be sent
}

var (
	errSilent    = errors.New("no answer to heartbeats")
	errDismissed = errors.New("dismissed")
)

func newConnection(ingress *ingress, tcp *net.TCPConn) (*connection, error) {
	c := &connection{
		ingress:   ingress,
		tcp:       tcp,
		arena:     arena{slabs: ingress.slabs},
		admitBy:   time.Now().Add(guestTimeout),
		topics:    map[*topic]struct{}{},
		publisher: publisherUnknown,
		interval:  intervalDefault,
	}
	c.reader.buffer = make([]byte, inputGuest)
	c.reader.wait = c.wait
	return c, c.reader.open(tcp, ingress.kernelStamps)
}

// serve reads commands until the client is gone or has gone wrong.
func (c *connection) serve() {
	defer c.ingress.forget(c)
	defer func() {
		if bug := recover(); bug != nil { // one connection's end, not the broker's
			counters.panics.Add(1)
			log.Printf("connection %s: %v\n%s", c.tcp.RemoteAddr(), bug, debug.Stack())
		}
	}()
	err := c.greet()
	for err == nil {
		err = c.next()
	}
	var refused refusal
	if errors.As(err, &refused) {
		counters.errors.Add(1)
		c.output = appendFrame(c.output, frameError, refused.Error())
	}
	_ = c.flush() // it may be gone
}

// greet waits for the protocol's four bytes.
func (c *connection) greet() error {
	if err := c.tcp.SetReadDeadline(c.nextAt()); err != nil {
		return err
	}
	var hello [len(magic)]byte
	if err := c.reader.full(hello[:]); err != nil {
		return err
	}
	if string(hello[:]) != magic {
		return refusal{"E_BAD_PROTOCOL", "this is NSQ's V2"}
	}
	c.greeted = true
	c.setHeartbeat(c.interval)
	return nil
}

func (c *connection) next() error {
	line, err := c.reader.line()
	if err != nil {
		return err
	}
	c.inCommand = true
	err = c.command(line)
	c.inCommand = false
	counters.commands.Add(1)
	if err == nil && c.leave.Load() != nil {
		return c.bidFarewell()
	}
	return err
}

// countPublication notes that a PUB or MPUB is whole; two in one read share its stamp.
func (c *connection) countPublication() {
	if c.inRead++; c.inRead == 2 {
		counters.mergedReads.Add(1)
	}
}

func (c *connection) answer(text string) { c.say(frameResponse, text) }

func (c *connection) say(kind uint32, text string) {
	if len(c.output)+8+len(text) > outputBytes {
		_ = c.flush() // the next wait fails, too
	}
	c.output = appendFrame(c.output, kind, text)
}

func (c *connection) flush() error {
	if len(c.output) == 0 {
		return nil
	}
	if err := c.tcp.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	_, err := c.tcp.Write(c.output)
	c.output = c.output[:0]
	if err != nil {
		_ = c.tcp.Close()
	}
	return err
}

// wait sends the answers so far and waits for bytes, beating its heart meanwhile.
func (c *connection) wait(into []byte) (int, error) {
	for {
		if err := c.flush(); err != nil {
			return 0, err
		}
		count, err := c.reader.receive(into)
		if err == nil {
			c.inRead, c.silent = 0, 0
			counters.reads.Add(1)
			if c.reader.kernel && !c.reader.stamped {
				counters.missingStamps.Add(1)
			}
			return count, nil
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return 0, err
		}
		if err := c.interrupted(); err != nil {
			return 0, err
		}
	}
}

// interrupted is called when a wait for bytes ended without any: a heartbeat is due, or somebody left a note.
func (c *connection) interrupted() error {
	if c.isGuest() && !time.Now().Before(c.admitBy) {
		return errSilent
	}
	if c.greeted && c.interval > 0 && !time.Now().Before(c.beatAt) {
		if c.silent == silentMaximum {
			return errSilent
		}
		c.silent++
		c.beatAt = time.Now().Add(c.interval)
		c.answer("_heartbeat_")
	}
	if err := c.tcp.SetReadDeadline(c.nextAt()); err != nil {
		return err
	}
	// After the deadline was set: a note that came before has ended no wait.
	if c.leave.Load() != nil && !c.inCommand {
		return c.bidFarewell()
	}
	return nil
}

func (c *connection) setHeartbeat(interval time.Duration) {
	c.interval, c.silent, c.beatAt = interval, 0, time.Time{}
	if interval > 0 {
		c.beatAt = time.Now().Add(interval)
	}
	_ = c.tcp.SetReadDeadline(c.nextAt()) // fails only on a closed connection
}

// nextAt is when a wait for bytes ends without any; zero: never.
func (c *connection) nextAt() time.Time {
	if !c.isGuest() || (!c.beatAt.IsZero() && c.beatAt.Before(c.admitBy)) {
		return c.beatAt
	}
	return c.admitBy
}

func (c *connection) isGuest() bool { return !c.admitted || !c.greeted }

// widen gives a connection that has shown the token the memory of a publisher's.
func (c *connection) widen() {
	c.ingress.mutex.Lock()
	c.admitted = true
	c.ingress.mutex.Unlock()
	rest := c.reader.buffer[c.reader.begin:c.reader.end]
	c.reader.buffer = make([]byte, inputBytes)
	c.reader.begin, c.reader.end = 0, copy(c.reader.buffer, rest)
	c.output = append(make([]byte, 0, outputBytes), c.output...)
	c.setHeartbeat(c.interval)
}

// dismiss is for other goroutines: after the answer to the command in hand the publisher is told to leave.
func (c *connection) dismiss(frame string) {
	c.leave.Store(&frame)
	_ = c.tcp.SetReadDeadline(time.Unix(1, 0)) // ends its wait
}

// bidFarewell sends our publishers the frame, and goes on until they close; it closes stock clients at once.
func (c *connection) bidFarewell() error {
	frame := *c.leave.Swap(nil) // nobody else takes it away
	if c.publisher == publisherUnknown {
		return errDismissed
	}
	c.answer(frame)
	return nil
}

// enter makes a topic the current one.
func (c *connection) enter(name []byte) error {
	if c.topic != nil && c.topic.name == string(name) {
		return nil
	}
	entered, err := c.ingress.enter(c, string(name))
	if err != nil {
		return refusal{"E_PUB_FAILED", err.Error()}
	}
	c.topic = entered
	return nil
}

func (c *connection) setPublisher(number int64) {
	c.ingress.mutex.Lock()
	c.publisher = number
	c.ingress.mutex.Unlock()
}
