package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"path/filepath"
	"testing"
	"time"
)

const (
	fuzzBytes = 1 << 20
	patience  = 5 * time.Second // of an input
)

// fuzzBroker is one broker for all inputs of a process: what an earlier one did is there for later ones.
func fuzzBroker(f *testing.F) (*ingress, *control) {
	f.Helper()
	in, control := openedBoth(f, options{
		data: "127.0.0.1:0", nsqd: "127.0.0.1:0", control: "127.0.0.1:0", path: f.TempDir(), stamps: "kernel",
		gc: "friendly", memoryQueue: 1_000, topicBytes: 16 << 20, bytes: 32 << 20, rows: 10_000,
	})
	go in.run()
	return in, control
}

// said is all that is answered to a script, until the connection ends; what takes longer than an input may is a hang.
func said(t *testing.T, address net.Addr, script []byte) []byte {
	t.Helper()
	conn, err := net.Dial("tcp", address.String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	go func() {
		_, _ = conn.Write(script) // it may be refused before its end
		_ = conn.(*net.TCPConn).CloseWrite()
	}()
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	answers, err := io.ReadAll(conn)
	if timeout, is := err.(net.Error); is && timeout.Timeout() {
		t.Fatal("it hangs")
	}
	return answers
}

// check sees that nothing has gone wrong inside, that a publisher is served, and gives up the topics.
func check(t *testing.T, in *ingress) {
	t.Helper()
	if counters.panics.Load() > 0 {
		t.Fatal("a panic was caught")
	}
	for _, its := range in.all() {
		_, _ = in.release(its, "CLOSE", time.Millisecond) // an ephemeral one may have gone by itself
	}
	conn := dial(t, in)
	write(t, conn, pub("sound", "body"))
	expect(t, conn, frameResponse, "OK")
	_ = conn.Close()
}

func FuzzIngress(f *testing.F) {
	scripts := [][]byte{
		[]byte(magic), []byte("  V1"), {},
		append([]byte(magic), pub("t", "body")...),
		append([]byte(magic), mpub("t#ephemeral", "one", "two")...),
		append([]byte(magic+"IDENTIFY\n"), sized(`{"client_id":"p7","heartbeat_interval":1000,"feature_negotiation":true}`)...),
		append([]byte(magic+"NOP\nCLS\r\n"), append([]byte("MPUB t\n"), counted(13, 1, 4)...)...),
	}
	for _, script := range scripts {
		f.Add(script)
	}
	in, _ := fuzzBroker(f)
	f.Fuzz(func(t *testing.T, script []byte) {
		if len(script) > fuzzBytes {
			t.Skip("longer ones say no more")
		}
		said(t, in.listener.Addr(), script) // a stranger
		if rest, is := bytes.CutPrefix(script, []byte(magic)); is {
			said(t, in.listener.Addr(), append(append([]byte(magic), showing(testToken)...), rest...))
		}
		check(t, in)
	})
}

// harmless is the request of a line with what would reach beyond the fuzzed broker cut down: its file, memory, time.
func harmless(line []byte, folder string) []byte {
	var asked request
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.DisallowUnknownFields()
	if decoder.Decode(&asked) != nil {
		return line // no command is carried out
	}
	if asked.Path != "" {
		asked.Path = filepath.Join(folder, "rows")
	}
	asked.Rows, asked.LimitNs = min(asked.Rows, 10_000), min(asked.LimitNs, int64(time.Millisecond))
	if asked.LimitNs <= 0 {
		asked.LimitNs = 1
	}
	text, _ := json.Marshal(asked)
	return text
}

func FuzzControl(f *testing.F) {
	begin := `{"do":"acquire","topic":"t"}` + "\n"
	for _, lines := range []string{
		begin + `{"do":"release","topic":"t","target":"127.0.0.1:4150","limit_ns":1000}`,
		begin + `{"do":"set_bucket","topic":"t","rate":1000000,"capacity":5000000000000000,"full":true}`,
		begin + `{"do":"report"}` + "\n" + `{"do":"set_bucket","topic":"t","rate":null}` + "\n" + `{"do":"report"}`,
		begin + `{"do":"move","topic":"t","publishers":[1,2],"target":"127.0.0.1:4150"}`,
		begin + `{"do":"record","topic":"t","on":true,"rows":10}` + "\n" + `{"do":"collect","path":"rows","topic":"t"}`,
		`{"do":"open","topic":"o","channels":["a","b"]}` + "\n" + `{"do":"fence","topic":"o"}` + "\n" + `{"do":"queues"}`,
		`{"do":"open","topic":"o","channels":["a#ephemeral"]}` + "\n" + `{"do":"leave","topic":"o","channels":["a"]}`,
		begin + `{"do":"move","topic":"t","target":"nowhere.example:4150"}`,
		`{"do":"stats"}`, `{"do":"dance"}`, `[]`, `{"do":"report","extra":1}`, "",
	} {
		f.Add([]byte(lines))
	}
	in, control := fuzzBroker(f)
	f.Fuzz(func(t *testing.T, lines []byte) {
		if len(lines) > fuzzBytes {
			t.Skip("longer ones say no more")
		}
		folder := t.TempDir()
		script := []byte(`{"token":"` + testToken + `"}` + "\n")
		for _, line := range bytes.Split(lines, []byte{'\n'}) {
			script = append(append(script, harmless(line, folder)...), '\n')
		}
		said(t, control.listener.Addr(), append(script, "an end without a newline"...))
		check(t, in)
	})
}
