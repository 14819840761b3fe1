package main

import (
	"errors"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/nsqio/nsq/nsqd"
)

const (
	waitingMaximum       = 1 << 20 // messages of a topic; its debt stays inside 64 bits, too
	never          int64 = math.MaxInt64
)

var (
	errReleased = errors.New("the topic was released")
	errWaiting  = errors.New("too many messages wait for tokens")
)

// topic is the ingress' side of one of nsqd's topics: its bucket, and what waits for tokens.
type topic struct {
	name     string
	queue    *nsqd.Topic
	leaves   bool // it is being released; under the ingress' mutex
	releaser *releaser
	room     *room
	headNs   atomic.Int64 // when the first waiting message may leave; never if none waits

	mutex        sync.Mutex
	bucket       bucket
	line         line
	ready        []*nsqd.Message // of drain
	sequence     uint64
	released     bool
	fenced       bool
	holding      holding
	channels     map[string]struct{} // of a topic that was opened; nil of others
	before       uint64              // messages taken before it was opened
	parted       int64               // copies to channels that have been deleted
	record       *record
	observations []*observation
}

// observation is what one reader of reports has not seen yet.
type observation struct {
	sinceNs       int64
	messages      int64
	lowestLevel   int64 // of level - capacity: minus the largest unfinished work
	lowestBalance int64 // of the level: minus the largest debt
}

func newTopic(name string, in *ingress) *topic {
	t := &topic{name: name, queue: in.nsqd.GetTopic(name), releaser: in.releaser, room: in.room}
	t.observations = []*observation{{sinceNs: now()}} // of the topic's whole life
	t.headNs.Store(never)
	return t
}

// admit takes a token for each message, in order; those that may leave at once do, the others wait.
func (t *topic) admit(messages []*nsqd.Message, publisher int64, read reading) error {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.released {
		return errReleased
	}
	if t.fenced {
		return errFenced
	}
	if t.line.length+len(messages) > waitingMaximum {
		return errWaiting
	}
	if err := t.reserve(messages); err != nil {
		return err
	}
	for _, message := range messages {
		dueNs := t.bucket.take(message.Timestamp)
		t.sequence++
		message.ID = messageID(t.sequence)
		t.line.push(waiting{message, dueNs, t.record.arrival(message, publisher, read)})
	}
	for _, o := range t.observations {
		o.messages += int64(len(messages))
		if t.bucket.limited { // a command's level only falls
			o.lowestLevel = min(o.lowestLevel, t.bucket.level-t.bucket.capacity)
			o.lowestBalance = min(o.lowestBalance, t.bucket.level)
		}
	}
	return t.drain(now())
}

// drain passes on to nsqd what may leave by now, first in first out. The caller holds the mutex.
func (t *topic) drain(nowNs int64) error {
	t.ready = t.ready[:0]
	for t.line.length > 0 {
		first := t.line.first()
		if first.dueNs > nowNs {
			break
		}
		if first.dueNs > first.message.Timestamp {
			counters.waited(nowNs - first.dueNs)
		}
		if first.row != nil {
			first.row.releasedAtNs = nowNs
		}
		t.ready = append(t.ready, first.message)
		t.line.pop()
	}
	headNs := never
	if t.line.length > 0 {
		headNs = t.line.first().dueNs
	}
	if t.headNs.Swap(headNs) > headNs {
		t.releaser.hurry(headNs)
	}
	if len(t.ready) == 0 {
		return nil
	}
	if t.channels != nil && len(t.channels) == 0 { // nsqd would keep it for whoever comes first
		clear(t.ready)
		return nil
	}
	err := t.queue.PutMessages(t.ready)
	if err != nil {
		counters.lost.Add(int64(len(t.ready)))
	}
	for i := range t.ready {
		t.ready[i] = nil // nsqd's now
	}
	return err
}

// setBucket gives the topic a new bucket, and those that wait their new times.
func (t *topic) setBucket(rate, capacity int64, full bool) error {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.bucket.set(rate, capacity, full, int64(t.line.length), now())
	for i := 0; i < t.line.length; i++ {
		t.line.at(i).dueNs = t.bucket.due(int64(t.line.length - 1 - i))
	}
	return t.drain(now())
}

// openBucket takes the bucket away: what waits leaves now.
func (t *topic) openBucket() error {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.letGo()
}

// shut takes no message any more, and lets go of what waits.
func (t *topic) shut() error {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.released = true
	return t.letGo()
}

// letGo is openBucket. The caller holds the mutex.
func (t *topic) letGo() error {
	t.bucket = bucket{}
	nowNs := now()
	for i := 0; i < t.line.length; i++ {
		t.line.at(i).dueNs = nowNs
	}
	return t.drain(nowNs)
}

// observe begins to count for a reader of reports. Its first report covers the topic's life.
func (t *topic) observe() *observation {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	o := *t.observations[0]
	t.observations = append(t.observations, &o)
	return &o
}

func (t *topic) ignore(o *observation) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.observations = slices.DeleteFunc(t.observations, func(its *observation) bool { return its == o })
}

// report tells what an observation has seen, and begins it anew.
func (t *topic) report(o *observation) map[string]int64 {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	nowNs := now()
	report := map[string]int64{
		"message_count":  o.messages,
		"span_ns":        nowNs - o.sinceNs,
		"lowest_level":   o.lowestLevel,
		"lowest_balance": o.lowestBalance,
		"waiting_count":  int64(t.line.length),
	}
	*o = observation{sinceNs: nowNs}
	return report
}

// keep begins a new record, or ends the recording.
func (t *topic) keep(on bool, rows int) {
	var fresh *record
	if on {
		fresh = newRecord(rows)
	}
	t.mutex.Lock()
	t.record = fresh
	t.mutex.Unlock()
}

// recorded is a copy of the rows so far, and how many found no room.
func (t *topic) recorded() ([]row, int64) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.record == nil {
		return nil, 0
	}
	return slices.Clone(t.record.rows[:t.record.used]), t.record.dropped
}

// messageID numbers a topic's messages. nsqd's own numbers begin with the time: the two never meet.
func messageID(number uint64) (id nsqd.MessageID) {
	for i := len(id) - 1; i >= 0; i-- {
		id[i] = "0123456789abcdef"[number&15]
		number >>= 4
	}
	return id
}

// waiting is a message that has its token from dueNs on.
type waiting struct {
	message *nsqd.Message
	dueNs   int64
	row     *row // nil when nothing is recorded
}

// line is a queue in a ring that doubles when it is full.
type line struct {
	ring          []waiting
	begin, length int
}

func (l *line) at(i int) *waiting { return &l.ring[(l.begin+i)&(len(l.ring)-1)] }

func (l *line) first() *waiting { return &l.ring[l.begin] }

func (l *line) push(w waiting) {
	if l.length == len(l.ring) {
		l.grow()
	}
	l.length++
	*l.at(l.length - 1) = w
}

func (l *line) pop() {
	l.ring[l.begin] = waiting{}
	l.begin = (l.begin + 1) & (len(l.ring) - 1)
	l.length--
}

func (l *line) grow() {
	size := 2 * len(l.ring)
	if size == 0 {
		size = 64
	}
	larger := make([]waiting, size)
	for i := 0; i < l.length; i++ {
		larger[i] = *l.at(i)
	}
	l.ring, l.begin = larger, 0
}
