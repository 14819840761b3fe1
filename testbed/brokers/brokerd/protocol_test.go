package main

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// connect opens a connection to a port and says the magic word.
func connect(t *testing.T, address net.Addr) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(2 * time.Minute)) // of all that a test does, on a busy machine
	write(t, conn, []byte(magic))
	return conn
}

// dial opens a connection to a running ingress and shows the token.
func dial(t *testing.T, in *ingress) net.Conn {
	t.Helper()
	return admitted(t, connect(t, in.listener.Addr()))
}

// dialNsqd is the same for nsqd's port.
func dialNsqd(t *testing.T, in *ingress) net.Conn {
	t.Helper()
	return admitted(t, connect(t, in.nsqd.RealTCPAddr()))
}

func admitted(t *testing.T, conn net.Conn) net.Conn {
	t.Helper()
	write(t, conn, showing(testToken))
	expect(t, conn, frameResponse, `{"identity"`)
	return conn
}

func showing(token string) []byte { return append([]byte("AUTH\n"), sized(token)...) }

func write(t *testing.T, conn net.Conn, text []byte) {
	t.Helper()
	if _, err := conn.Write(text); err != nil {
		t.Fatal(err)
	}
}

// frame reads what the broker says next.
func frame(t *testing.T, conn net.Conn) (uint32, []byte) {
	t.Helper()
	var head [8]byte
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		t.Fatalf("no frame, but %v", err)
	}
	data := make([]byte, binary.BigEndian.Uint32(head[:])-4)
	if _, err := io.ReadFull(conn, data); err != nil {
		t.Fatal(err)
	}
	return binary.BigEndian.Uint32(head[4:]), data
}

func expect(t *testing.T, conn net.Conn, kind uint32, begin string) {
	t.Helper()
	is, data := frame(t, conn)
	compare(t, is, data, kind, begin)
}

// expectPastHearts is for a client whose heart a busy machine lets beat at any time.
func expectPastHearts(t *testing.T, conn net.Conn, kind uint32, begin string) {
	t.Helper()
	is, data := frame(t, conn)
	for string(data) == "_heartbeat_" {
		is, data = frame(t, conn)
	}
	compare(t, is, data, kind, begin)
}

func compare(t *testing.T, is uint32, data []byte, kind uint32, begin string) {
	t.Helper()
	if is != kind || !strings.HasPrefix(string(data), begin) {
		t.Errorf("frame %d %q; want %d %q", is, data, kind, begin)
	}
}

func expectEnd(t *testing.T, conn net.Conn) {
	t.Helper()
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("the connection stays open")
	}
}

func counted(numbers ...int) []byte {
	var text []byte
	for _, number := range numbers {
		text = binary.BigEndian.AppendUint32(text, uint32(number))
	}
	return text
}

func sized(text string) []byte { return append(counted(len(text)), text...) }

func pub(topic, body string) []byte { return append([]byte("PUB "+topic+"\n"), sized(body)...) }

func mpub(topic string, bodies ...string) []byte {
	inner := counted(len(bodies))
	for _, body := range bodies {
		inner = append(inner, sized(body)...)
	}
	return append(append([]byte("MPUB "+topic+"\n"), counted(len(inner))...), inner...)
}

func TestRefusals(t *testing.T) {
	in := testIngress(t, true)
	go in.run()
	bad := []struct {
		text []byte
		code string
	}{
		{[]byte("SUB t c\n"), "E_INVALID"},
		{[]byte("\n"), "E_INVALID"},
		{bytes.Repeat([]byte("x"), lineMaximum+2), "E_INVALID"},
		{[]byte("PUB\n"), "E_BAD_TOPIC"},
		{[]byte("PUB t/\n"), "E_BAD_TOPIC"},
		{[]byte("PUB #ephemeral\n"), "E_BAD_TOPIC"},
		{[]byte("PUB " + strings.Repeat("t", nameMaximum+1) + "\n"), "E_BAD_TOPIC"},
		{append([]byte("PUB t\n"), counted(0)...), "E_BAD_MESSAGE"},
		{append([]byte("PUB t\n"), counted(-5)...), "E_BAD_MESSAGE"},
		{append([]byte("PUB t\n"), counted(messageMaximum+1)...), "E_BAD_MESSAGE"},
		{append([]byte("MPUB t\n"), counted(3)...), "E_BAD_BODY"},
		{append([]byte("MPUB t\n"), counted(bodyMaximum+1)...), "E_BAD_BODY"},
		{append([]byte("MPUB t\n"), counted(13, 0)...), "E_BAD_BODY"},
		{append([]byte("MPUB t\n"), counted(13, 3)...), "E_BAD_BODY"},
		{append([]byte("MPUB t\n"), counted(13, 1, -1)...), "E_BAD_MESSAGE"},
		{append([]byte("MPUB t\n"), counted(13, 1, 6)...), "E_BAD_BODY"},
		{append([]byte("MPUB t\n"), append(counted(13, 1, 4), "body"...)...), "E_BAD_BODY"},
		{append([]byte("IDENTIFY\n"), counted(0)...), "E_BAD_BODY"},
		{append([]byte("IDENTIFY\n"), sized("[1]")...), "E_BAD_BODY"},
		{append([]byte("IDENTIFY\n"), sized(`{"heartbeat_interval":10}`)...), "E_BAD_BODY"},
		{append([]byte("IDENTIFY\n"), sized(`{"heartbeat_interval":9223372036854775807}`)...), "E_BAD_BODY"},
	}
	for _, each := range bad {
		conn := dial(t, in)
		write(t, conn, each.text)
		expect(t, conn, frameError, each.code)
		if _, err := conn.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("%q: the connection stays open (%v)", each.text, err)
		}
	}
	if depth := testTopic(t, in, "t").queue.Depth(); depth != 0 {
		t.Errorf("%d messages of refused commands came through", depth)
	}
}

func TestCommandsInPiecesAndAtOnce(t *testing.T) {
	for _, slabs := range []bool{false, true} {
		in := testIngress(t, slabs)
		go in.run()
		its := testTopic(t, in, "t")
		conn := dial(t, in)
		large := strings.Repeat("y", 3*inputBytes+7)
		script := bytes.Join([][]byte{
			pub("t", "one"), []byte("NOP\n"), mpub("t", "two", large, "four"), pub("t", large), []byte("CLS\n"),
		}, nil)
		go func() {
			for begin, step := 0, 1; begin < len(script); begin, step = begin+step, step*2 {
				_, _ = conn.Write(script[begin:min(len(script), begin+step)])
				time.Sleep(time.Millisecond)
			}
		}()
		for _, answer := range []string{"OK", "OK", "OK", "CLOSE_WAIT"} {
			expect(t, conn, frameResponse, answer)
		}
		write(t, conn, bytes.Repeat(pub("t", "again"), 50)) // in one read, or few
		for i := 0; i < 50; i++ {
			expect(t, conn, frameResponse, "OK")
		}
		if its.queue.Depth() != 55 {
			t.Errorf("%d messages", its.queue.Depth())
		}
		if counters.mergedReads.Load() == 0 {
			t.Error("fifty commands in one write are read at once, uncounted")
		}
	}
}

func TestIdentityHeartbeatAndFarewell(t *testing.T) {
	t.Parallel()
	in := testIngress(t, true)
	go in.run()
	its := testTopic(t, in, "t")
	ours, stock := dial(t, in), dial(t, in)
	write(t, ours, append([]byte("IDENTIFY\n"),
		sized(`{"client_id":"p17","heartbeat_interval":1000,"feature_negotiation":true}`)...))
	expect(t, ours, frameResponse, `{"max_rdy_count"`)
	for _, conn := range []net.Conn{ours, stock} {
		write(t, conn, pub("t", "hello"))
		expectPastHearts(t, conn, frameResponse, "OK")
	}
	expect(t, ours, frameResponse, "_heartbeat_")
	write(t, ours, []byte("CLS\nPUB t\n")) // the answer to the first comes when the second is in hand
	expectPastHearts(t, ours, frameResponse, "CLOSE_WAIT")
	gone := in.dismiss(its, nil, "MIGRATE 10.0.0.1:4150")
	if gone.Told != 1 || gone.Closed != 1 {
		t.Errorf("%+v", gone)
	}
	if _, err := stock.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("a stock client is not closed: %v", err)
	}
	write(t, ours, sized("late"))
	expectPastHearts(t, ours, frameResponse, "OK")
	expectPastHearts(t, ours, frameResponse, "MIGRATE 10.0.0.1:4150")
	if gone := in.dismiss(its, []int64{17, 99}, "CLOSE"); gone.Told != 1 || len(gone.Missing) != 1 {
		t.Errorf("%+v", gone)
	}
	expectPastHearts(t, ours, frameResponse, "CLOSE")
}

// Whoever has not shown the token is nobody's publisher, whatever number it says it has.
func TestAGuestIsNotDismissed(t *testing.T) {
	in := testIngress(t, true)
	go in.run()
	its := testTopic(t, in, "t")
	guest := connect(t, in.listener.Addr())
	write(t, guest, append([]byte("IDENTIFY\n"), sized(`{"client_id":"p7","heartbeat_interval":-1}`)...))
	expect(t, guest, frameResponse, "OK")
	for _, told := range []int{0, 1} {
		if gone := in.dismiss(its, []int64{7}, "MIGRATE 10.0.0.1:4150"); gone.Told != told || len(gone.Missing) != 1-told {
			t.Errorf("%+v", gone)
		}
		if told == 0 {
			admitted(t, guest)
		}
	}
	expect(t, guest, frameResponse, "MIGRATE 10.0.0.1:4150")
}

func TestSilenceEndsAConnection(t *testing.T) {
	t.Parallel()
	in := testIngress(t, true)
	go in.run()
	conn := dial(t, in)
	write(t, conn, append([]byte("IDENTIFY\n"), sized(`{"heartbeat_interval":1000}`)...))
	expect(t, conn, frameResponse, "OK")
	expect(t, conn, frameResponse, "_heartbeat_")
	expect(t, conn, frameResponse, "_heartbeat_")
	if _, err := conn.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("after two heartbeats without an answer: %v", err)
	}
}

func TestAMessageIsStampedBeforeItIsRead(t *testing.T) {
	in := testIngress(t, true)
	go in.run()
	its := testTopic(t, in, "t")
	conn := dial(t, in)
	beginNs := now()
	write(t, conn, pub("t", strings.Repeat("z", headerBytes)))
	expect(t, conn, frameResponse, "OK")
	rows, _ := its.recorded()
	if len(rows) != 1 || rows[0].stampNs < beginNs || rows[0].readAtNs <= rows[0].stampNs ||
		rows[0].releasedAtNs < rows[0].readAtNs {
		t.Errorf("%+v, sent at %d", rows, beginNs)
	}
}
