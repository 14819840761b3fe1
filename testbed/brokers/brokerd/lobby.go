package main

import (
	"container/list"
	"crypto/subtle"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

const (
	guestsMaximum  = 256                    // of a port at once
	guestPatience  = 100 * time.Millisecond // that each has at least, where others wait for its place
	guestTimeout   = 5 * time.Second        // in which it must show the token
	identityGuest  = 4 << 10                // bytes of an IDENTIFY before that
	tokenMaximum   = 1 << 10                // bytes of an AUTH
	litterMaximum  = 16 << 20
	nsqdGuestBytes = 56 << 10 // what nsqd makes for a connection
	guestBytes     = 8 << 10  // what we do
	authFirst      = "E_AUTH_FIRST AUTH required before "
)

// lobby is where the connections of a port are until they have shown the run's token: few of them, for a short time,
// with little memory each, so that strangers cost the broker next to nothing. Where it is full, whoever has been there
// longest goes.
type lobby struct {
	token  []byte
	isOpen bool  // nobody needs the token
	bytes  int64 // that a guest leaves for the garbage collector

	mutex  sync.Mutex
	guests list.List // the oldest first
}

func newLobby(token []byte, bytes int64, isOpen bool) *lobby {
	return &lobby{token: token, bytes: bytes, isOpen: isOpen}
}

// guest is a connection's place in the lobby.
type guest struct {
	conn  io.Closer
	since time.Time
	place *list.Element // nil: it has left
}

// enter waits for a place, for as long as the guests' patience at most.
func (l *lobby) enter(conn io.Closer) *guest {
	for !l.isOpen {
		l.mutex.Lock()
		if l.guests.Len() == guestsMaximum {
			if oldest := l.guests.Front().Value.(*guest); time.Since(oldest.since) > guestPatience {
				l.part(oldest)
				_ = oldest.conn.Close()
				sweep(l.bytes)
			}
		}
		if l.guests.Len() < guestsMaximum {
			g := &guest{conn: conn, since: time.Now()}
			g.place = l.guests.PushBack(g)
			l.mutex.Unlock()
			return g
		}
		l.mutex.Unlock()
		time.Sleep(time.Millisecond)
	}
	return &guest{}
}

// admit lets a guest in that shows the token.
func (l *lobby) admit(g *guest, shown []byte) bool {
	if subtle.ConstantTimeCompare(shown, l.token) != 1 {
		counters.refusedTokens.Add(1)
		return false
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.part(g)
}

// leave is for a connection that ends; one that was let in has left already.
func (l *lobby) leave(g *guest) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.part(g) {
		sweep(l.bytes)
	}
}

// clear sends everybody away.
func (l *lobby) clear() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for l.guests.Len() > 0 {
		g := l.guests.Front().Value.(*guest)
		l.part(g)
		_ = g.conn.Close()
	}
}

// part takes a guest from the list, unless it has left. The caller holds the mutex.
func (l *lobby) part(g *guest) bool {
	if g.place == nil {
		return false
	}
	l.guests.Remove(g.place)
	g.place = nil
	return true
}

var litter atomic.Int64 // bytes that strangers have left since the last sweep

// sweep collects what strangers leave behind: where collection waits for a limit of memory, they would fill it.
func sweep(bytes int64) {
	counters.strangers.Add(1)
	if litter.Add(bytes) > litterMaximum {
		litter.Store(0)
		go runtime.GC()
	}
}
