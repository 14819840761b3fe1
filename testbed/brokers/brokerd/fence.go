package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nsqio/nsq/nsqd"
)

// A topic that moves from broker to broker: opened with the channels of its subscribers, fenced, drained.

var errFenced = errors.New("the topic is fenced")

// open lets a topic accept messages, which each of these channels gets from the first on. One that was fenced begins
// anew: connections from before stay with what they were fenced off from, so that nothing overtakes on them. What it
// still held then is delivered first.
func (in *ingress) open(name string, channels []string) error {
	in.mutex.Lock()
	defer in.mutex.Unlock()
	t := in.topics[name]
	if t == nil && len(in.topics) == topicsMaximum {
		return fmt.Errorf("there are %d topics already", topicsMaximum)
	}
	if t == nil || t.isFenced() {
		sequence := uint64(0)
		if t != nil {
			if in.queueOf(t).drained {
				if err := in.nsqd.DeleteExistingTopic(name); err != nil {
					return err
				}
			} else {
				sequence = t.sequence // nsqd tells messages apart by their number
			}
		}
		t = newTopic(name, in.nsqd.GetTopic(name), in.releaser)
		t.sequence, t.before = sequence, sequence
		in.topics[name] = t
		in.watch()
	}
	t.join(channels) // before anybody can publish
	return nil
}

// join makes channels. Messages of a topic that has none are for nobody.
func (t *topic) join(channels []string) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.channels == nil {
		t.channels = map[string]struct{}{}
	}
	for _, name := range channels {
		t.queue.GetChannel(name)
		t.channels[name] = struct{}{}
	}
}

// fence takes no message any more; what was taken is delivered.
func (t *topic) fence() {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.fenced, t.emptySince = true, time.Time{}
}

func (t *topic) isFenced() bool {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.fenced
}

// holding is the topic that a connection was fenced off from, if it has published one of that name. The caller holds
// the mutex.
func (c *connection) holding(name string) *topic {
	for t := range c.topics {
		if t.name == name && t.isFenced() {
			return t
		}
	}
	return nil
}

// queue is what nsqd and the ingress hold of a topic.
type queue struct {
	taken    int64 // messages since the topic was opened
	copies   int64 // of them to channels
	depth    int64 // that no subscriber has been sent
	inFlight int64 // sent, and not finished
	fenced   bool
	drained  bool // fenced, and all of it finished
}

// queueOf looks at a topic. A message on its way inside nsqd is in no queue for a moment: so that a topic is drained
// either when the subscribers that are there have finished every message, or when nothing was held for some time, by
// subscribers of whom some are gone.
func (in *ingress) queueOf(t *topic) queue {
	found := queue{fenced: t.isFenced()}
	if found.fenced && t.queue.Depth() == 0 {
		_ = t.queue.UnPause() // returns when nsqd has put what it had in hand into all channels
	}
	unseen, wanted := int64(0), false
	for _, its := range in.nsqd.GetStats(t.name, "", true).Topics {
		found.depth, unseen, wanted = its.Depth, its.Depth, len(its.Channels) > 0
		for _, channel := range its.Channels {
			found.copies += int64(channel.MessageCount)
			found.depth += channel.Depth
			found.inFlight += int64(channel.InFlightCount + channel.DeferredCount)
			unseen += int64(channel.MessageCount) - finishedBy(channel)
		}
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	found.taken = int64(t.sequence - t.before)
	found.depth += int64(t.line.length)
	if !wanted { // nobody has subscribed: nobody waits for it
		found.drained = found.fenced
		return found
	}
	if found.depth+found.inFlight > 0 {
		t.emptySince = time.Time{}
		return found
	}
	if t.emptySince.IsZero() {
		t.emptySince = time.Now()
	}
	found.drained = found.fenced && (unseen == 0 || time.Since(t.emptySince) > settleTime)
	return found
}

// finishedBy counts what the subscribers that are there have finished.
func finishedBy(channel nsqd.ChannelStats) int64 {
	finished := uint64(0)
	for _, client := range channel.Clients {
		if subscriber, known := client.(nsqd.ClientV2Stats); known {
			finished += subscriber.FinishCount
		}
	}
	return int64(finished)
}

// --- commands of the control port ------------------------------------------------------------------------

func (s *session) open(asked request) (answer, error) {
	for _, name := range append([]string{asked.Topic}, asked.Channels...) {
		if !validName([]byte(name)) {
			return nil, fmt.Errorf("%q is no name of a topic or channel", name)
		}
	}
	return nil, s.ingress.open(asked.Topic, asked.Channels)
}

func (s *session) fence(asked request) (answer, error) {
	t, err := s.ingress.find(asked.Topic)
	if err == nil {
		t.fence()
	}
	return nil, err
}

// leave deletes channels of a topic, with what their subscribers have not got.
func (s *session) leave(asked request) (answer, error) {
	t, err := s.ingress.find(asked.Topic)
	if err != nil {
		return nil, err
	}
	t.mutex.Lock()
	for _, name := range asked.Channels {
		delete(t.channels, name)
	}
	t.mutex.Unlock()
	there := slices.DeleteFunc(slices.Clone(asked.Channels), func(name string) bool {
		_, err := t.queue.GetExistingChannel(name)
		return err != nil
	})
	for _, name := range there {
		if err := t.queue.DeleteExistingChannel(name); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

func (s *session) queues(request) (answer, error) {
	found := map[string]any{}
	for _, t := range s.ingress.all() {
		its := s.ingress.queueOf(t)
		found[t.name] = map[string]any{
			"message_count":   its.taken,
			"copy_count":      its.copies,
			"depth":           its.depth,
			"in_flight_count": its.inFlight,
			"fenced":          its.fenced,
			"drained":         its.drained,
		}
	}
	return answer{"topics": found}, nil
}
