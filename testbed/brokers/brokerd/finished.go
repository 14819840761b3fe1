package main

import (
	"sync"

	"github.com/nsqio/nsq/nsqd"
)

// finishes counts what subscribers have finished, those that are gone included: nsqd forgets a client's counter with
// the client.
type finishes struct {
	nsqd *nsqd.NSQD

	mutex sync.Mutex
	gone  map[*nsqd.Channel]*departed
}

// departed are a channel's subscribers that are gone: what they had finished, all together; and those that nsqd may
// still have in its list, each.
type departed struct {
	finished int64
	leaving  map[subscriber]int64
}

type subscriber struct {
	address     string
	connectedAt int64
}

func newFinishes(broker *nsqd.NSQD) *finishes {
	return &finishes{nsqd: broker, gone: map[*nsqd.Channel]*departed{}}
}

// remember is called by a subscriber's own goroutine, when all that it asked is done, before nsqd forgets it. One that
// ends otherwise, by an error of its own, is not remembered: then its channel counts as unfinished.
func (f *finishes) remember(topicName, channelName, address string) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	for channel := range f.gone {
		if channel.Exiting() {
			delete(f.gone, channel)
		}
	}
	topic, err := f.nsqd.GetExistingTopic(topicName)
	if err != nil {
		return
	}
	channel, err := topic.GetExistingChannel(channelName)
	if err != nil {
		return
	}
	for _, its := range f.nsqd.GetStats(topicName, channelName, true).Topics {
		for _, stats := range its.Channels {
			for _, who := range subscribers(stats) {
				if who.RemoteAddress == address {
					f.leaves(channel, who)
				}
			}
		}
	}
}

func (f *finishes) leaves(channel *nsqd.Channel, who nsqd.ClientV2Stats) {
	gone := f.gone[channel]
	if gone == nil {
		gone = &departed{leaving: map[subscriber]int64{}}
		f.gone[channel] = gone
	}
	gone.leaving[subscriber{who.RemoteAddress, who.ConnectTime}] = int64(who.FinishCount)
}

// stats is nsqd's of a topic, and how many messages its channels' subscribers have finished, by channel: of one instant,
// so that nobody is counted twice who leaves meanwhile.
func (f *finishes) stats(topic *nsqd.Topic, name string) (nsqd.TopicStats, map[string]int64) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	finished := map[string]int64{}
	for _, its := range f.nsqd.GetStats(name, "", true).Topics {
		for _, stats := range its.Channels {
			if channel, err := topic.GetExistingChannel(stats.ChannelName); err == nil {
				finished[stats.ChannelName] = f.of(channel, stats)
			}
		}
		return its, finished
	}
	return nsqd.TopicStats{}, finished
}

// of counts for a channel. Its subscribers that are gone from nsqd's list as well become one number.
func (f *finishes) of(channel *nsqd.Channel, stats nsqd.ChannelStats) int64 {
	gone := f.gone[channel]
	if gone == nil {
		gone = &departed{}
	}
	finished, there := gone.finished, map[subscriber]bool{}
	for _, who := range subscribers(stats) {
		key := subscriber{who.RemoteAddress, who.ConnectTime}
		there[key] = true
		if _, leaves := gone.leaving[key]; !leaves {
			finished += int64(who.FinishCount)
		}
	}
	for key, count := range gone.leaving {
		finished += count
		if !there[key] {
			gone.finished += count
			delete(gone.leaving, key)
		}
	}
	return finished
}

func subscribers(stats nsqd.ChannelStats) []nsqd.ClientV2Stats {
	clients := make([]nsqd.ClientV2Stats, 0, len(stats.Clients))
	for _, client := range stats.Clients {
		if its, known := client.(nsqd.ClientV2Stats); known {
			clients = append(clients, its)
		}
	}
	return clients
}
