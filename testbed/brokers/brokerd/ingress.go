package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nsqio/nsq/nsqd"
)

const (
	topicsMaximum = 1000 // a publisher makes a topic by naming it
	subscription  = "sub"
)

var errTopics = fmt.Errorf("there are %d topics already", topicsMaximum)

// ingress is the publishers' port: their connections and the topics that they publish.
type ingress struct {
	nsqd         *nsqd.NSQD
	releaser     *releaser
	listener     *net.TCPListener
	kernelStamps bool
	slabs        bool
	isCommanded  bool // only commands make topics
	lobby        *lobby
	finished     *finishes
	room         *room
	rowsMaximum  int           // of all records together, as the run has announced
	ended        chan struct{} // closed at the end

	mutex       sync.Mutex
	topics      map[string]*topic
	connections map[*connection]struct{}
}

func newIngress(address string, broker *nsqd.NSQD, kernelStamps, slabs bool) (*ingress, error) {
	releaser, err := newReleaser()
	if err != nil {
		return nil, err
	}
	config := net.ListenConfig{Control: stampArrivals} // kept in the records, whatever the buckets go by
	listener, err := config.Listen(context.Background(), "tcp", address)
	if err != nil {
		return nil, err
	}
	if err := awaitStamps(); err != nil && kernelStamps {
		return nil, err
	}
	return &ingress{
		nsqd:         broker,
		releaser:     releaser,
		listener:     listener.(*net.TCPListener),
		kernelStamps: kernelStamps,
		slabs:        slabs,
		finished:     newFinishes(broker),
		ended:        make(chan struct{}),
		topics:       map[string]*topic{},
		connections:  map[*connection]struct{}{},
	}, nil
}

// run accepts publishers until the listener is closed.
func (in *ingress) run() {
	go in.recount()
	for {
		tcp, err := in.listener.AcceptTCP()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // out of descriptors, say
			log.Printf("accept: %v", err)
			time.Sleep(10 * time.Millisecond)
			continue
		}
		c, err := newConnection(in, tcp)
		if err != nil {
			_ = tcp.Close()
			continue
		}
		c.guest = in.lobby.enter(tcp)
		if in.lobby.isOpen {
			c.widen()
		}
		counters.accepted.Add(1)
		counters.connections.Add(1)
		in.mutex.Lock()
		in.connections[c] = struct{}{}
		in.mutex.Unlock()
		go c.serve()
	}
}

// close ends it: nobody is accepted any more, nothing is released.
func (in *ingress) close() {
	_ = in.listener.Close()
	close(in.ended)
	in.releaser.end()
	in.mutex.Lock()
	defer in.mutex.Unlock()
	for c := range in.connections {
		_ = c.tcp.Close()
	}
}

// forget closes a connection.
func (in *ingress) forget(c *connection) {
	_ = c.tcp.Close()
	in.lobby.leave(c.guest)
	in.mutex.Lock()
	delete(in.connections, c)
	in.mutex.Unlock()
	counters.connections.Add(-1)
}

// enter gives a connection the topic that it publishes. Where only commands make topics, one that is not there is as
// good as fenced, and stays so for this connection when it is opened.
func (in *ingress) enter(c *connection, name string) (t *topic, err error) {
	in.mutex.Lock()
	defer in.mutex.Unlock()
	if t = c.holding(name); t != nil {
		return t, nil
	}
	switch {
	case in.topics[name] != nil, !in.isCommanded:
		t, err = in.acquired(name)
	case len(c.topics) < topicsMaximum:
		t = &topic{name: name, fenced: true}
	default:
		err = errTopics
	}
	if err == nil {
		c.topics[t] = struct{}{}
	}
	return t, err
}

// serves is whether a topic is there, or whoever names it may make it.
func (in *ingress) serves(name string) bool {
	in.mutex.Lock()
	defer in.mutex.Unlock()
	return !in.isCommanded || in.topics[name] != nil
}

// acquire finds a topic that stays, or makes it without a limit.
func (in *ingress) acquire(name string) (*topic, error) {
	in.mutex.Lock()
	defer in.mutex.Unlock()
	t, err := in.acquired(name)
	if err == nil && t.leaves {
		return nil, errReleased
	}
	return t, err
}

// acquired is acquire, of any topic. The caller holds the mutex.
func (in *ingress) acquired(name string) (*topic, error) {
	if t := in.topics[name]; t != nil {
		return t, nil
	}
	if len(in.topics) == topicsMaximum {
		return nil, errTopics
	}
	t := newTopic(name, in)
	in.topics[name] = t
	in.watch()
	return t, nil
}

// watch tells the releaser which topics there are. The caller holds the mutex.
func (in *ingress) watch() { in.releaser.watch(in.sorted()) }

// all is every topic, by name.
func (in *ingress) all() []*topic {
	in.mutex.Lock()
	defer in.mutex.Unlock()
	return in.sorted()
}

func (in *ingress) sorted() []*topic {
	topics := make([]*topic, 0, len(in.topics))
	for _, t := range in.topics {
		topics = append(topics, t)
	}
	slices.SortFunc(topics, func(a, b *topic) int { return strings.Compare(a.name, b.name) })
	return topics
}

// find is the topic of a name, or an error that says what to do.
func (in *ingress) find(name string) (*topic, error) {
	in.mutex.Lock()
	defer in.mutex.Unlock()
	if t := in.topics[name]; t != nil {
		return t, nil
	}
	return nil, fmt.Errorf("no topic %q here; acquire it first", name)
}

// dismissal is what became of the publishers that were to leave.
type dismissal struct {
	Told    int     `json:"told_count"`   // ours, who got the frame and close when they are done
	Closed  int     `json:"closed_count"` // stock clients
	Missing []int64 `json:"missing"`      // publishers that are not connected
}

// dismiss sends a topic's publishers away: all of them, or those with these numbers.
func (in *ingress) dismiss(t *topic, numbers []int64, frame string) dismissal {
	wanted := make(map[int64]bool, len(numbers)) // number -> whether it is still to be found
	for _, number := range numbers {
		wanted[number] = true
	}
	found := dismissal{Missing: []int64{}}
	in.mutex.Lock()
	defer in.mutex.Unlock()
	for c := range in.connections {
		_, its := c.topics[t]
		_, named := wanted[c.publisher]
		switch {
		case !c.admitted, numbers == nil && !its, numbers != nil && !named:
			continue
		case c.publisher == publisherUnknown:
			found.Closed++
		default:
			found.Told++
			wanted[c.publisher] = false
		}
		c.dismiss(frame)
	}
	for _, number := range numbers {
		if wanted[number] {
			found.Missing = append(found.Missing, number)
		}
	}
	return found
}

// release gives a topic up: its publishers leave, what waits is delivered, nsqd forgets it. What takes
// longer than the limit is cut off; it returns how many messages no subscriber had finished by then.
func (in *ingress) release(t *topic, frame string, limit time.Duration) (int64, error) {
	deadline := time.Now().Add(limit)
	if err := in.begin(t); err != nil {
		return 0, err
	}
	in.dismiss(t, nil, frame)
	for !in.deserted(t, false) && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond)
	}
	in.deserted(t, true)
	if err := t.shut(); err != nil { // before it settles: what were acknowledged from here on would be deleted
		return 0, err
	}
	left := in.settle(t, deadline)
	// Both at once: a publisher that comes back makes a new topic of that name, in nsqd as here.
	in.mutex.Lock()
	defer in.mutex.Unlock()
	delete(in.topics, t.name)
	in.watch()
	t.vacate(nil)
	return left, in.nsqd.DeleteExistingTopic(t.name)
}

// begin is a release's: from now on nobody acquires or opens the topic, which would go with it.
func (in *ingress) begin(t *topic) error {
	in.mutex.Lock()
	defer in.mutex.Unlock()
	if t.leaves || in.topics[t.name] != t {
		return errReleased
	}
	t.leaves = true
	return nil
}

// deserted is whether a topic has no publishers any more; those that it has can be closed.
func (in *ingress) deserted(t *topic, cut bool) bool {
	in.mutex.Lock()
	defer in.mutex.Unlock()
	deserted := true
	for c := range in.connections {
		if _, its := c.topics[t]; its {
			deserted = false
			if cut {
				_ = c.tcp.Close()
			}
		}
	}
	return deserted
}

// settle waits until subscribers have finished all of a topic's messages, and counts what they have not. That nsqd has
// copied them it waits for in any case: no subscriber is needed for that.
func (in *ingress) settle(t *topic, deadline time.Time) int64 {
	for {
		its := in.queueOf(t)
		if its.settled {
			return 0
		}
		if its.copied && time.Now().After(deadline) {
			return its.left
		}
		time.Sleep(time.Millisecond)
	}
}
