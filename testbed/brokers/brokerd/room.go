package main

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nsqio/nsq/nsqd"
)

const (
	messageBytes  = 128              // that a message takes beside its body, about
	fullFor       = time.Millisecond // until a topic that is full is counted again
	recountPeriod = 100 * time.Millisecond
)

// room is what messages may take, in bytes: those of one topic, and all.
type room struct {
	nsqd                  *nsqd.NSQD
	topicMaximum, maximum int64
	held                  atomic.Int64 // by all topics
}

// holding is a topic's share of the room. nsqd does not say which messages are finished: so what the rest takes is known
// to be at most what was taken in, and at most as much as so many of the largest size.
type holding struct {
	bytes   int64
	largest int64     // of the messages since the topic was last empty
	fullAt  time.Time // when it was last counted in vain
}

// reserve makes room for messages, or says why there is none. The caller holds the topic's mutex, as for all of this.
func (t *topic) reserve(messages []*nsqd.Message) error {
	bytes, largest := int64(0), int64(0)
	for _, message := range messages {
		size := int64(len(message.Body)) + messageBytes
		bytes, largest = bytes+size, max(largest, size)
	}
	err := t.fits(bytes)
	if err != nil && time.Since(t.holding.fullAt) > fullFor {
		t.recount()
		err = t.fits(bytes)
		t.holding.fullAt = time.Now()
	}
	if err != nil {
		return err
	}
	t.holding.largest, t.holding.fullAt = max(t.holding.largest, largest), time.Time{}
	t.hold(bytes)
	return nil
}

func (t *topic) fits(bytes int64) error {
	if t.holding.bytes+bytes > t.room.topicMaximum {
		return fmt.Errorf("no room: the topic holds %d of %d bytes, which nobody has finished", t.holding.bytes, t.room.topicMaximum)
	}
	if held := t.room.held.Load(); held+bytes > t.room.maximum {
		return fmt.Errorf("no room: the broker holds %d of %d bytes, which nobody has finished", held, t.room.maximum)
	}
	return nil
}

// hold adds to what the topic holds, or takes away.
func (t *topic) hold(bytes int64) {
	t.holding.bytes += bytes
	t.room.held.Add(bytes)
}

// recount finds out what has been finished. A body is there until the slowest channel has finished it; nsqd's pumps,
// the topic's and each client's, may have a message in hand that is in no queue. Messages move on while they are
// counted: each place is looked at after the one that they come from, so that one is counted twice rather than not at
// all.
func (t *topic) recount() {
	waiting, inHand := int64(t.line.length)+t.stats().Depth, int64(1)
	depths := map[string]int64{}
	for _, channel := range t.stats().Channels {
		depths[channel.ChannelName] = channel.Depth
	}
	slowest := int64(0)
	for _, channel := range t.stats().Channels {
		given := int64(channel.InFlightCount + channel.DeferredCount)
		slowest = max(slowest, depths[channel.ChannelName]+given)
		inHand += int64(channel.ClientCount)
	}
	waiting += slowest
	t.hold(min(0, (waiting+inHand)*t.holding.largest-t.holding.bytes))
	if waiting == 0 {
		t.holding.largest = 0
	}
}

// stats is what nsqd says of the topic now; nothing of one that it does not have.
func (t *topic) stats() nsqd.TopicStats {
	for _, its := range t.room.nsqd.GetStats(t.name, "", false).Topics {
		return its
	}
	return nsqd.TopicStats{}
}

// recount counts all topics anew while they seem to take much: one that is at rest does not do so by itself.
func (in *ingress) recount() {
	ticker := time.NewTicker(recountPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-in.ended:
			return
		case <-ticker.C:
		}
		if in.room.held.Load() < in.room.maximum/2 {
			continue
		}
		for _, t := range in.all() {
			t.mutex.Lock()
			t.recount()
			t.mutex.Unlock()
		}
	}
}

// vacate gives back what a topic holds, to the one that takes its place, if there is one.
func (t *topic) vacate(to *topic) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if to != nil {
		to.holding = t.holding
	} else {
		t.room.held.Add(-t.holding.bytes)
	}
	t.holding = holding{}
}
