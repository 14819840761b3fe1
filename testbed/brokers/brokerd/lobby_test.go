package main

import (
	"net"
	"strings"
	"testing"
)

func ports(in *ingress) map[string]net.Addr {
	return map[string]net.Addr{"ingress": in.listener.Addr(), "nsqd": in.nsqd.RealTCPAddr()}
}

// Whoever does not know the token takes nothing, leaves nothing, and makes nothing.
func TestStrangers(t *testing.T) {
	in := testIngress(t, true)
	go in.run()
	identify := append([]byte("IDENTIFY\n"), sized(`{"feature_negotiation":true}`)...)
	large := append([]byte("IDENTIFY\n"), counted(identityGuest+1)...)
	bad := []struct {
		text []byte
		code string
	}{
		{pub("t", "x"), "E_AUTH_FIRST"},
		{mpub("t", "x", "y"), "E_AUTH_FIRST"},
		{append([]byte("PUB t\n"), counted(messageMaximum)...), "E_AUTH_FIRST"},
		{append(showing(testToken+"x"), pub("t", "x")...), "E_AUTH_FAILED"},
		{append(showing(testToken[1:]), pub("t", "x")...), "E_AUTH_FAILED"},
		{append([]byte("AUTH\n"), counted(tokenMaximum+1)...), "E_BAD_BODY"},
		{append([]byte("AUTH\n"), counted(0)...), "E_BAD_BODY"},
		{large, "E_BAD_BODY"},
		{[]byte(strings.Repeat("x", lineMaximum+1)), "E_INVALID"},
		{[]byte("RDY 1\n"), "E_INVALID"},
	}
	for name, address := range ports(in) {
		for _, each := range bad {
			conn := connect(t, address)
			write(t, conn, each.text)
			expect(t, conn, frameError, each.code)
			expectEnd(t, conn)
		}
		conn := connect(t, address)
		write(t, conn, append(identify, "NOP\n"...))
		if kind, data := frame(t, conn); kind != frameResponse || !strings.Contains(string(data), `"auth_required":true`) {
			t.Errorf("%s: %d %s", name, kind, data)
		}
		write(t, conn, []byte("SUB t sub\n"))
		expect(t, conn, frameError, map[string]string{"ingress": "E_INVALID", "nsqd": "E_AUTH_FIRST"}[name])
		expectEnd(t, conn)
	}
	conn := connect(t, in.nsqd.RealTCPAddr())
	write(t, conn, append([]byte("DPUB t 1\n"), sized("x")...))
	expect(t, conn, frameError, "E_AUTH_FIRST")
	if made := in.nsqd.GetStats("", "", false).Topics; len(made)+len(in.all()) != 0 {
		t.Errorf("they made %v", made)
	}
}

// The token may come in any number of pieces, before IDENTIFY or after it, and with what follows.
func TestTheTokenInPieces(t *testing.T) {
	in := testIngress(t, true)
	go in.run()
	identify := append([]byte("IDENTIFY\n"), sized(`{"output_buffer_size":-1}`)...)
	for _, script := range [][]byte{
		append(append(showing(testToken), identify...), pub("t", "x")...),
		append(append(append([]byte("NOP\r\n"), identify...), showing(testToken)...), pub("t", "x")...),
	} {
		for _, step := range []int{1, 7, len(script)} {
			for _, address := range ports(in) {
				conn := connect(t, address)
				for begin := 0; begin < len(script); begin += step {
					write(t, conn, script[begin:min(len(script), begin+step)])
				}
				for range [3]struct{}{} {
					if kind, data := frame(t, conn); kind != frameResponse {
						t.Fatalf("%q: %d %s", script, kind, data)
					}
				}
				_ = conn.Close()
			}
		}
	}
}

func guestsIn(l *lobby) int {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.guests.Len()
}

// A crowd that says nothing, or half a word, keeps nobody out for long.
func TestACrowdOfStrangers(t *testing.T) {
	in := testIngress(t, true)
	go in.run()
	openTopic(t, in, "t", "sub")
	for _, said := range []string{"", magic, magic + "AUTH\n"} {
		for _, address := range ports(in) {
			for i := 0; i < 2*guestsMaximum; i++ {
				conn, err := net.Dial("tcp", address.String())
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = conn.Close() })
				write(t, conn, []byte(said))
			}
		}
		conn := dial(t, in)
		write(t, conn, pub("t", "through the crowd"))
		expect(t, conn, frameResponse, "OK")
		reader := subscribe(t, in, "t", "sub", 1)
		finish(t, reader)
		_ = reader.Close()
		if guests := guestsIn(in.lobby); guests > guestsMaximum {
			t.Errorf("%d guests", guests)
		}
	}
}
