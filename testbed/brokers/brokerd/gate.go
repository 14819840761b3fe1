package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"reflect"
	"sync/atomic"
	"time"
	"unsafe"
)

const logMaximum = 1000 // lines

// gate is nsqd's port with a lobby before it. nsqd's own AUTH decides who may do what; but before that nsqd reads
// whole messages, never ends a silent connection, and counts none of them.
type gate struct {
	net.Listener
	lobby   *lobby
	ingress *ingress
}

// guard puts a gate before nsqd's port, before nsqd runs. nsqd takes no listener from whoever embeds it, and a relay
// would delay each delivery by two wake-ups: so its listener is wrapped where it is.
func guard(in *ingress, before *lobby) error {
	field := reflect.ValueOf(in.nsqd).Elem().FieldByName("tcpListener")
	if !field.IsValid() || field.Type() != reflect.TypeOf((*net.Listener)(nil)).Elem() {
		return errors.New("this version of nsqd keeps its listener elsewhere")
	}
	listener := (*net.Listener)(unsafe.Pointer(field.UnsafeAddr()))
	*listener = &gate{Listener: *listener, lobby: before, ingress: in}
	return nil
}

// Accept gives nsqd a connection that can do little before it has shown the token.
func (g *gate) Accept() (net.Conn, error) {
	conn, err := g.Listener.Accept()
	if err != nil {
		return nil, err
	}
	p := &passage{TCPConn: conn.(*net.TCPConn), gate: g, isWatched: true, part: make([]byte, 0, len(magic))}
	_ = p.TCPConn.SetReadDeadline(time.Now().Add(guestTimeout))
	p.guest, p.isAdmitted = g.lobby.enter(p.TCPConn), g.lobby.isOpen
	return p, nil
}

// Close ends the guests, too: nsqd waits for those that have said nothing.
func (g *gate) Close() error {
	err := g.Listener.Close()
	g.lobby.clear()
	return err
}

// passage is a connection of nsqd's. What its client says is looked at until it subscribes; from then on nsqd has the
// connection to itself. All but Close is called by the one goroutine in which nsqd reads.
type passage struct {
	*net.TCPConn
	gate  *gate
	guest *guest

	isAdmitted bool
	isWatched  bool
	hasEnded   bool
	deadlineAt time.Time // as nsqd wants it

	phase          phase
	part           []byte // of a line, a number, or the token
	verb           string // whose body comes
	left           int    // bytes of that
	topic, channel string // that it has subscribed to
}

type phase int

const (
	inMagic phase = iota
	inLine
	inSize
	inBody
)

// Read is nsqd's. When it fails nsqd has done all that the client asked, and is about to forget the client.
func (p *passage) Read(into []byte) (int, error) {
	count, err := p.TCPConn.Read(into)
	if p.isWatched && count > 0 {
		if refused := p.watch(into[:count]); refused != "" {
			counters.errors.Add(1)
			_, _ = p.TCPConn.Write(appendFrame(nil, frameError, refused)) // it may be gone
			count, err = 0, io.EOF
		}
	}
	if err != nil && !p.isAdmitted {
		err = io.EOF // which nsqd does not log
	}
	if err != nil && !p.hasEnded {
		p.hasEnded = true
		p.gate.lobby.leave(p.guest)
		if p.channel != "" {
			p.gate.ingress.finished.remember(p.topic, p.channel, p.TCPConn.RemoteAddr().String())
		}
	}
	return count, err
}

// SetReadDeadline is nsqd's: a heartbeat does not lengthen a guest's time.
func (p *passage) SetReadDeadline(at time.Time) error {
	p.deadlineAt = at
	if !p.isAdmitted {
		return nil
	}
	return p.TCPConn.SetReadDeadline(at)
}

// Close frees the guest's place, too.
func (p *passage) Close() error {
	p.gate.lobby.leave(p.guest)
	return p.TCPConn.Close()
}

// watch takes a client's commands apart as they pass. What it returns is why they may not.
func (p *passage) watch(data []byte) string {
	for len(data) > 0 && p.isWatched {
		switch p.phase {
		case inMagic, inSize:
			count := min(len(data), 4-len(p.part))
			p.part = append(p.part, data[:count]...)
			data = data[count:]
			if len(p.part) < 4 {
				continue
			}
			if refused := p.four(); refused != "" {
				return refused
			}
		case inLine:
			line, rest, isWhole := bytes.Cut(data, []byte{'\n'})
			if len(p.part)+len(line) > lineMaximum {
				return p.tooLong()
			}
			p.part, data = append(p.part, line...), rest
			if !isWhole {
				return ""
			}
			if refused := p.command(bytes.TrimSuffix(p.part, []byte{'\r'})); refused != "" {
				return refused
			}
			p.part = p.part[:0]
		case inBody:
			count := min(len(data), p.left)
			if p.verb == "AUTH" {
				p.part = append(p.part, data[:count]...)
			}
			data, p.left = data[count:], p.left-count
			if refused := p.body(); refused != "" {
				return refused
			}
		}
	}
	return ""
}

// four is called with the protocol's magic word, or with the size of a body.
func (p *passage) four() string {
	if p.phase == inMagic {
		if string(p.part) != magic {
			return "E_BAD_PROTOCOL"
		}
		p.phase, p.part = inLine, p.part[:0]
		return ""
	}
	p.left = int(int32(binary.BigEndian.Uint32(p.part)))
	p.part = p.part[:0]
	if p.left <= 0 { // nsqd refuses it
		p.isWatched = false
		return ""
	}
	if most := map[string]int{"IDENTIFY": identityGuest, "AUTH": tokenMaximum}[p.verb]; !p.isAdmitted && p.left > most {
		return fmt.Sprintf("E_BAD_BODY %s body too big %d > %d", p.verb, p.left, most)
	}
	p.phase = inBody
	return ""
}

func (p *passage) command(line []byte) string {
	verb, rest, _ := bytes.Cut(line, []byte{' '})
	p.verb = string(verb)
	switch p.verb {
	case "IDENTIFY", "AUTH":
		p.phase = inSize
	case "NOP":
	case "SUB", "PUB", "MPUB", "DPUB":
		if !p.isAdmitted {
			return authFirst + p.verb
		}
		topic, rest, _ := bytes.Cut(rest, []byte{' '})
		if !p.gate.ingress.serves(string(topic)) { // nsqd would make it
			return "E_FENCED " + string(topic)
		}
		if p.verb != "SUB" {
			p.phase = inSize
			return ""
		}
		channel, _, _ := bytes.Cut(rest, []byte{' '})
		p.topic, p.channel, p.isWatched = string(topic), string(channel), false
	default:
		if !p.isAdmitted {
			return fmt.Sprintf("E_INVALID invalid command %.32s", verb)
		}
	}
	return ""
}

// body is called with each part of a body that has passed.
func (p *passage) body() string {
	if p.left > 0 {
		return ""
	}
	p.phase = inLine
	if p.verb == "AUTH" && !p.isAdmitted {
		if !p.gate.lobby.admit(p.guest, p.part) {
			return "E_AUTH_FAILED AUTH failed"
		}
		p.isAdmitted = true
		_ = p.TCPConn.SetReadDeadline(p.deadlineAt)
	}
	p.part = p.part[:0]
	return ""
}

// brief is nsqd's log, which strangers cannot fill: it has a line for each client's error.
type brief struct {
	*log.Logger
	lines atomic.Int64
}

func (b *brief) Output(depth int, line string) error {
	switch lines := b.lines.Add(1); {
	case lines == logMaximum:
		line = "nsqd says no more"
	case lines > logMaximum:
		return nil
	}
	return b.Logger.Output(depth, line)
}

// tooLong is a line that NSQ has not: nsqd refuses it, too, when its own buffer is full.
func (p *passage) tooLong() string {
	if !p.isAdmitted {
		return "E_INVALID a line without an end"
	}
	p.isWatched = false
	return ""
}
