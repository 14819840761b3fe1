package main

import (
	"errors"
	"sync"
	"testing"
	"time"
)

// A publisher that comes back while its topic is released finds the old topic, which refuses, or a new one, which
// works: a message that was taken is never deleted with the old one.
func TestReleaseTakesNoMessageThatItDeletes(t *testing.T) {
	in := testIngress(t, true)
	for round := 0; round < 30; round++ {
		its := testTopic(t, in, "rush")
		taken, who := map[*topic]int{}, &connection{topics: map[*topic]struct{}{}}
		done := make(chan struct{})
		var publisher sync.WaitGroup
		publisher.Add(1)
		go func() {
			defer publisher.Done()
			for {
				found, err := in.enter(who, "rush")
				if err != nil {
					t.Error(err)
					return
				}
				err = found.admit(stamped(1, now()), 1, reading{})
				if err == nil {
					taken[found]++
				} else if !errors.Is(err, errReleased) {
					t.Errorf("refused with %v", err)
				}
				select {
				case <-done:
					return
				default:
				}
			}
		}()
		time.Sleep(time.Millisecond)
		left, err := in.release(its, "CLOSE", 5*time.Millisecond) // nobody subscribes
		if err != nil {
			t.Fatal(err)
		}
		close(done)
		publisher.Wait()
		if int64(taken[its]) != left {
			t.Fatalf("the topic took %d messages, and was deleted with %d", taken[its], left)
		}
		fresh := testTopic(t, in, "rush")
		if depth := fresh.queue.Depth(); depth != int64(taken[fresh]) {
			t.Fatalf("the new topic took %d messages and has %d", taken[fresh], depth)
		}
		if _, err := in.release(fresh, "CLOSE", time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
}

// What was opened or acquired while a release of the topic lasts does not go with it.
func TestATopicThatIsReleasedIsNeitherOpenedNorAcquired(t *testing.T) {
	in := testIngress(t, true)
	s := &session{ingress: in}
	asked := map[string]func(request) (answer, error){"opened": s.open, "fenced": s.open, "acquired": s.acquire}
	for name, ask := range asked {
		its := openTopic(t, in, name, "a")
		if err := its.admit(stamped(1, now()), 1, reading{}); err != nil {
			t.Fatal(err)
		}
		if name == "fenced" {
			its.fence()
		}
		ended := make(chan error, 1)
		go func() {
			_, err := in.release(its, "CLOSE", time.Second) // nobody finishes the message
			ended <- err
		}()
		await(t, "it takes nothing more", func() bool {
			return errors.Is(its.admit(stamped(1, now()), 1, reading{}), errReleased)
		})
		_, refused := ask(request{Topic: name, Channels: []string{"a", "b"}})
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		if _, err := in.find(name); refused == nil && err != nil {
			t.Errorf("%s, and then %v", name, err)
		}
	}
}
