package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net"
	"net/netip"
	"runtime/debug"
	"time"
)

const (
	requestMaximum = 4 << 20 // bytes of a line: the numbers of many publishers
	releaseLimit   = 5 * time.Second
)

// control is the management port: JSON lines, the first of them with the run's token.
type control struct {
	ingress  *ingress
	listener net.Listener
	lobby    *lobby
}

func (ct *control) run() {
	for {
		conn, err := ct.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			log.Printf("accept: %v", err)
			time.Sleep(10 * time.Millisecond)
			continue
		}
		go ct.serve(conn, ct.lobby.enter(conn))
	}
}

func (ct *control) serve(conn net.Conn, g *guest) {
	s := &session{ingress: ct.ingress, seen: map[*topic]*observation{}}
	defer conn.Close()
	defer ct.lobby.leave(g)
	defer s.end()
	defer func() {
		if bug := recover(); bug != nil {
			counters.panics.Add(1)
			log.Printf("control: %v\n%s", bug, debug.Stack())
		}
	}()
	out := json.NewEncoder(conn)
	_ = conn.SetReadDeadline(time.Now().Add(guestTimeout))
	lines := bufio.NewReaderSize(conn, tokenMaximum)
	line, err := readLine(lines, tokenMaximum)
	if err != nil {
		return
	}
	if secret, isAsked := askedByNsqd(line); isAsked {
		ct.lobby.vouch(g, secret, lines, conn)
		return
	}
	if !ct.admits(g, line) {
		_ = out.Encode(answer{"error": "wrong token"})
		return
	}
	_ = out.Encode(answer{"ok": "token"}) // a client that is gone shows at the next read
	_ = conn.SetReadDeadline(time.Time{})
	for {
		line, err := readLine(lines, requestMaximum)
		if err != nil {
			return
		}
		found, err := s.carryOut(line)
		if err != nil {
			found = answer{"error": err.Error()}
		}
		if out.Encode(found) != nil {
			return
		}
	}
}

// admits is whether a line shows the token.
func (ct *control) admits(g *guest, line []byte) bool {
	var shown struct{ Token string }
	if json.Unmarshal(line, &shown) != nil {
		shown.Token = ""
	}
	return ct.lobby.admit(g, []byte(shown.Token))
}

// readLine reads a line of bounded length.
func readLine(from *bufio.Reader, maximum int) ([]byte, error) {
	var line []byte
	for {
		part, err := from.ReadSlice('\n')
		line = append(line, part...)
		if err == nil {
			return line, nil
		}
		if err != bufio.ErrBufferFull {
			return nil, err
		}
		if len(line) > maximum {
			return nil, errors.New("line too long")
		}
	}
}

type answer map[string]any

// request holds the fields of every command; each looks at its own.
type request struct {
	Do         string
	Topic      string
	Channels   []string
	Rate       *int64 // units a nanosecond; null = no limit
	Capacity   int64  // units
	Full       bool
	Publishers []int64 // null = all
	Target     string  // ip:port
	On         bool
	Rows       int
	Path       string
	LimitNs    int64 `json:"limit_ns"`
}

// session is one control connection: it remembers what its reports have told.
type session struct {
	ingress *ingress
	seen    map[*topic]*observation
}

var commands = map[string]func(*session, request) (answer, error){
	"acquire":    (*session).acquire,
	"release":    (*session).release,
	"set_bucket": (*session).setBucket,
	"report":     (*session).report,
	"move":       (*session).move,
	"record":     (*session).record,
	"collect":    (*session).collect,
	"stats":      (*session).stats,
	"open":       (*session).open,
	"fence":      (*session).fence,
	"leave":      (*session).leave,
	"queues":     (*session).queues,
}

func (s *session) carryOut(line []byte) (answer, error) {
	var asked request
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&asked); err != nil {
		return nil, fmt.Errorf("no request: %w", err)
	}
	command := commands[asked.Do]
	if command == nil {
		return nil, fmt.Errorf("no command %q", asked.Do)
	}
	found, err := command(s, asked)
	if err != nil {
		return nil, err
	}
	if found == nil {
		found = answer{}
	}
	found["ok"] = asked.Do
	return found, nil
}

func (s *session) acquire(asked request) (answer, error) {
	if !validName([]byte(asked.Topic)) {
		return nil, fmt.Errorf("%q is no name of a topic", asked.Topic)
	}
	t, err := s.ingress.acquire(asked.Topic)
	if err == nil {
		t.queue.GetChannel(subscription)
	}
	return nil, err
}

func (s *session) release(asked request) (answer, error) {
	t, err := s.ingress.find(asked.Topic)
	if err != nil {
		return nil, err
	}
	frame, limit := "CLOSE", time.Duration(asked.LimitNs)
	if asked.Target != "" {
		frame = "MIGRATE " + asked.Target
	}
	if limit <= 0 {
		limit = releaseLimit
	}
	left, err := s.ingress.release(t, frame, limit)
	return answer{"unfinished_count": left}, err
}

func (s *session) setBucket(asked request) (answer, error) {
	t, err := s.ingress.find(asked.Topic)
	if err != nil {
		return nil, err
	}
	if asked.Rate == nil {
		return nil, t.openBucket()
	}
	if *asked.Rate <= 0 || *asked.Rate > maximumRate || asked.Capacity < token || asked.Capacity > maximumCapacity {
		return nil, fmt.Errorf("a bucket of rate %d, capacity %d is out of range", *asked.Rate, asked.Capacity)
	}
	return nil, t.setBucket(*asked.Rate, asked.Capacity, asked.Full)
}

func (s *session) report(request) (answer, error) {
	reports := answer{}
	seen := map[*topic]*observation{} // without topics that were released
	for _, t := range s.ingress.all() {
		o := s.seen[t]
		if o == nil {
			o = t.observe()
		}
		seen[t] = o
		reports[t.name] = t.report(o)
	}
	s.seen = seen
	return answer{"topics": reports}, nil
}

// end stops the counting for a reader of reports that is gone.
func (s *session) end() {
	for t, o := range s.seen {
		t.ignore(o)
	}
}

func (s *session) move(asked request) (answer, error) {
	t, err := s.ingress.find(asked.Topic)
	if err != nil {
		return nil, err
	}
	if _, err := netip.ParseAddrPort(asked.Target); err != nil { // not a name: looking that up may take seconds
		return nil, fmt.Errorf("target %q is no ip:port", asked.Target)
	}
	gone := s.ingress.dismiss(t, asked.Publishers, "MIGRATE "+asked.Target)
	return answer{"told_count": gone.Told, "closed_count": gone.Closed, "missing": gone.Missing}, nil
}

func (s *session) record(asked request) (answer, error) {
	t, err := s.ingress.find(asked.Topic)
	if err != nil {
		return nil, err
	}
	if asked.On {
		if err := s.ingress.checkRows(t, asked.Rows); err != nil {
			return nil, err
		}
	}
	t.keep(asked.On, asked.Rows)
	return nil, nil
}

func (s *session) collect(asked request) (answer, error) {
	if asked.Path == "" {
		return nil, errors.New("collect needs a path")
	}
	var rows []row
	dropped := int64(0)
	for _, t := range s.ingress.all() {
		if asked.Topic == "" || asked.Topic == t.name {
			its, missed := t.recorded()
			rows, dropped = append(rows, its...), dropped+missed
		}
	}
	return answer{"rows": len(rows), "dropped_rows": dropped}, writeRows(asked.Path, rows)
}

func (s *session) stats(request) (answer, error) {
	return counters.snapshot(), nil
}
