package main

import (
	"errors"
	"fmt"
	"slices"
)

// A topic that moves from broker to broker: opened with the channels of its subscribers, fenced, drained.

var errFenced = errors.New("the topic is fenced")

// open lets a topic accept messages, which each of these channels gets from the first on. One that was fenced begins
// anew: connections from before stay with what they were fenced off from, so that nothing overtakes on them. What it
// still held then is delivered first.
func (in *ingress) open(name string, channels []string) error {
	in.mutex.Lock()
	defer in.mutex.Unlock()
	t, err := in.topics[name], error(nil)
	if t == nil && len(in.topics) == topicsMaximum {
		return errTopics
	}
	if t != nil && t.leaves { // with its channels
		return errReleased
	}
	if t == nil || t.isFenced() {
		if t, err = in.renewed(name, t); err != nil {
			return err
		}
		in.topics[name] = t
		in.watch()
	}
	t.join(channels) // before anybody can publish
	return nil
}

// renewed is a topic in the place of a fenced one, or of none. The caller holds the mutex.
func (in *ingress) renewed(name string, before *topic) (*topic, error) {
	if before == nil {
		return newTopic(name, in), nil
	}
	isDrained := in.queueOf(before).drained
	if isDrained {
		if err := in.nsqd.DeleteExistingTopic(name); err != nil {
			return nil, err
		}
	}
	t := newTopic(name, in)
	if isDrained {
		before.vacate(nil)
		return t, nil
	}
	before.vacate(t)
	t.sequence, t.before = before.sequence, before.sequence // nsqd tells messages apart by their number
	return t, before.openBucket()                           // nobody releases what waits there any more
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
	t.fenced = true
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

// queue is what nsqd and the ingress have of a topic, in messages.
type queue struct {
	taken    int64 // since the topic was opened
	copies   int64 // to channels, those that have been deleted included
	finished int64 // of those to the others, by subscribers, whether they are still there or not
	depth    int64 // that no subscriber has been sent
	inFlight int64 // sent, and not finished
	left     int64 // copies that are not finished; messages, where there are no channels
	fenced   bool
	copied   bool // nothing more is taken, and nsqd has put all into all channels
	settled  bool // copied, and every copy is finished
	drained  bool // fenced and settled, or fenced and nobody waits for it
}

// queueOf counts. A message on its way inside nsqd is in no queue for a moment, and in a process that stalls a moment
// is long: so it says nothing that the queues are empty. A topic is settled when nothing waits here, nsqd has copied
// all to every channel, and as many copies are finished as were made.
func (in *ingress) queueOf(t *topic) queue {
	t.mutex.Lock()
	its := queue{taken: int64(t.sequence - t.before), depth: int64(t.line.length), fenced: t.fenced}
	its.copied = (t.fenced || t.released) && t.line.length == 0
	parted := t.parted
	t.mutex.Unlock()
	if its.copied = its.copied && t.queue.Depth() == 0; its.copied {
		_ = t.queue.UnPause() // returns when nsqd has put what it had in hand into all channels
	}
	stats, finished := in.finished.stats(t.queue, t.name)
	its.depth += stats.Depth
	for _, channel := range stats.Channels {
		its.copies += int64(channel.MessageCount)
		its.finished += finished[channel.ChannelName]
		its.depth += channel.Depth
		its.inFlight += int64(channel.InFlightCount + channel.DeferredCount)
	}
	its.left = its.copies - its.finished
	its.settled = its.copied && its.left == 0
	its.copies += parted
	if len(stats.Channels) == 0 { // nobody takes anything
		its.copied, its.left, its.drained = true, its.depth, its.fenced
		return its
	}
	its.drained = its.fenced && its.settled
	return its
}

// copiedTo is how many messages nsqd has put into a channel.
func (in *ingress) copiedTo(t *topic, channel string) (copies int64) {
	for _, its := range in.nsqd.GetStats(t.name, channel, false).Topics {
		for _, stats := range its.Channels {
			copies += int64(stats.MessageCount)
		}
	}
	return copies
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
		parted := s.ingress.copiedTo(t, name)
		if err := t.queue.DeleteExistingChannel(name); err != nil {
			return nil, err
		}
		t.mutex.Lock()
		t.parted += parted
		t.mutex.Unlock()
	}
	return nil, nil
}

func (s *session) queues(request) (answer, error) {
	found := map[string]any{}
	for _, t := range s.ingress.all() {
		its := s.ingress.queueOf(t)
		found[t.name] = map[string]any{
			"message_count":    its.taken,
			"copy_count":       its.copies,
			"depth":            its.depth,
			"in_flight_count":  its.inFlight,
			"finished_count":   its.finished,
			"unfinished_count": its.left,
			"fenced":           its.fenced,
			"drained":          its.drained,
		}
	}
	return answer{"topics": found}, nil
}
