package main

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

const (
	spinNs       = 50_000 // the rest of a wait, which the kernel's timers would overshoot
	prSlack      = 29     // PR_SET_TIMERSLACK
	awake        = int64(math.MinInt64)
	releaserNice = -15
)

// releaser lets waiting messages leave at their time. Go's timers are late by up to a millisecond
// when the process is idle; this is one thread that sleeps in the kernel by high-resolution timers
// and spins to the end. It can be woken, by an eventfd, for a message that is due earlier.
type releaser struct {
	alarm   int          // eventfd; -1 at the end
	untilNs atomic.Int64 // what it sleeps until; awake when it does not sleep

	mutex    sync.Mutex
	topics   []*topic // replaced, never changed
	hasEnded bool
}

func newReleaser() (*releaser, error) {
	fd, _, errno := syscall.Syscall(syscall.SYS_EVENTFD2, 0, syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if errno != 0 {
		return nil, errno
	}
	r := &releaser{alarm: int(fd)}
	r.untilNs.Store(awake)
	go r.run()
	return r, nil
}

// watch replaces the topics that it serves.
func (r *releaser) watch(topics []*topic) {
	r.mutex.Lock()
	r.topics = topics
	r.mutex.Unlock()
	r.wake()
}

// hurry says that something is due at an instant: the sleeper is woken if it would sleep longer.
func (r *releaser) hurry(dueNs int64) {
	if dueNs < r.untilNs.Load() {
		r.wake()
	}
}

func (r *releaser) wake() {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.alarm >= 0 {
		one := [8]byte{1}
		_, _ = syscall.Write(r.alarm, one[:]) // full only when it rings already
	}
}

// end lets the thread end; nothing is released any more.
func (r *releaser) end() {
	r.mutex.Lock()
	r.hasEnded, r.topics = true, nil
	r.mutex.Unlock()
	r.wake()
}

func (r *releaser) run() {
	runtime.LockOSThread() // and not unlocked: a thread of this priority ends with the goroutine
	// Best effort: a machine that refuses has a later releaser, which the records show.
	_, _, _ = syscall.Syscall(syscall.SYS_PRCTL, prSlack, 1, 0)
	_ = syscall.Setpriority(syscall.PRIO_PROCESS, syscall.Gettid(), releaserNice)
	for {
		topics, hasEnded := r.served()
		if hasEnded {
			r.mutex.Lock()
			_ = syscall.Close(r.alarm)
			r.alarm = -1
			r.mutex.Unlock()
			return
		}
		dueNs := earliest(topics)
		r.untilNs.Store(dueNs)
		if earliest(topics) >= dueNs { // else a message came between, whose sender saw us awake
			r.sleep(dueNs)
		}
		r.untilNs.Store(awake)
		nowNs := now()
		for _, t := range topics {
			if t.headNs.Load() <= nowNs {
				t.mutex.Lock()
				_ = t.drain(now()) // counted as lost where nsqd refuses
				t.mutex.Unlock()
			}
		}
	}
}

func (r *releaser) served() (topics []*topic, hasEnded bool) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.topics, r.hasEnded
}

func earliest(topics []*topic) int64 {
	dueNs := never
	for _, t := range topics {
		dueNs = min(dueNs, t.headNs.Load())
	}
	return dueNs
}

// pollFd is the kernel's struct pollfd.
type pollFd struct {
	fd      int32
	events  int16
	revents int16
}

// sleep returns at an instant, or earlier when woken.
func (r *releaser) sleep(dueNs int64) {
	for {
		leftNs := dueNs - now()
		if leftNs <= spinNs {
			break
		}
		// Not longer than a second: the clock may be set meanwhile.
		span := syscall.NsecToTimespec(min(leftNs-spinNs, int64(time.Second)))
		poll := pollFd{fd: int32(r.alarm), events: 1} // POLLIN
		rang, _, _ := syscall.Syscall6(syscall.SYS_PPOLL,
			uintptr(unsafe.Pointer(&poll)), 1, uintptr(unsafe.Pointer(&span)), 0, 0, 0)
		if rang == 1 {
			var count [8]byte
			_, _ = syscall.Read(r.alarm, count[:])
			return
		}
	}
	for now() < dueNs {
	}
}
