package main

import (
	"fmt"
	"runtime/debug"
	"time"

	"github.com/nsqio/nsq/nsqd"
)

const (
	friendlyLimit = 512 << 20 // bytes of heap before a collection
	offLimit      = 4 << 30   // what keeps a broker that never collects from taking the machine down
	slabMessages  = 64
	slabBytes     = 16 << 10
)

// setCollection chooses how the Go runtime collects garbage.
//
//	default   as Go does: at twice the live heap, and at least every two minutes
//	friendly  on demand only, at a memory limit; messages come from slabs
//	off       never, below a limit that is there for safety; messages come from slabs
//
// Without a percentage the runtime forces no periodic collection either.
func setCollection(mode string) error {
	switch mode {
	case "default":
	case "friendly":
		debug.SetGCPercent(-1)
		debug.SetMemoryLimit(friendlyLimit)
		go raiseLimit(friendlyLimit)
	case "off":
		debug.SetGCPercent(-1)
		debug.SetMemoryLimit(offLimit)
	default:
		return fmt.Errorf("-gc %s: use default, friendly or off", mode)
	}
	return nil
}

// raiseLimit keeps a live heap that grows from being collected without end.
func raiseLimit(limit int64) {
	for range time.Tick(time.Second) {
		if live := int64(collection().LiveBytes); live > limit/2 {
			limit = 4 * live
			debug.SetMemoryLimit(limit)
		}
	}
}

// arena gives a connection memory for its messages. They belong to nsqd until a subscriber has
// finished them, so no slot is used twice; but in slabs 64 of them cost two allocations, not 128.
type arena struct {
	slabs    bool
	messages []nsqd.Message
	bytes    []byte
}

func (a *arena) body(size int) []byte {
	if !a.slabs || size > slabBytes/4 {
		return make([]byte, size)
	}
	if size > len(a.bytes) {
		a.bytes = make([]byte, slabBytes)
	}
	body := a.bytes[:size:size]
	a.bytes = a.bytes[size:]
	return body
}

func (a *arena) message() *nsqd.Message {
	if !a.slabs {
		return new(nsqd.Message)
	}
	if len(a.messages) == 0 {
		a.messages = make([]nsqd.Message, slabMessages)
	}
	message := &a.messages[0]
	a.messages = a.messages[1:]
	return message
}
