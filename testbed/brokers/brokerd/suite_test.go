package main

import (
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nsqio/nsq/nsqd"
)

// The cases of nsqd's own tests of its protocol (nsqd/protocol_v2_test.go), as far as they are about connections, in
// words of our own. Each is played twice: at a stock nsqd, where it must go as told here; and at a broker of ours, by a
// client that publishes at the ingress and subscribes at nsqd's port. There it goes the same way, or stands in the
// table of README.md with what differs, to the letter, and why.

// stage is where a case is played.
type stage struct {
	nsqd           *nsqd.NSQD
	publish, watch net.Addr // where clients publish, and where they subscribe
	token          string
}

func ourStage(t *testing.T) stage {
	in := testIngress(t, true)
	go in.run()
	return stage{in.nsqd, in.listener.Addr(), in.nsqd.RealTCPAddr(), testToken}
}

// stockStage is nsqd by itself, which asks an authority of its own: it knows the token, and one that may do nothing.
func stockStage(t *testing.T) stage {
	authority := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("secret") == testToken {
			fmt.Fprintf(w, everything, authTTL)
		} else {
			fmt.Fprint(w, `{"ttl":1,"authorizations":[]}`)
		}
	}))
	path := t.TempDir()
	settings := (&options{nsqd: "127.0.0.1:0", path: path, memoryQueue: 10_000}).nsqdOptions()
	settings.SnappyEnabled, settings.DeflateEnabled = true, true
	settings.AuthHTTPAddresses = []string{strings.TrimPrefix(authority.URL, "http://")}
	broker, err := nsqd.New(settings)
	if err != nil {
		t.Fatal(err)
	}
	begin(t, broker, path)
	t.Cleanup(func() {
		broker.Exit()
		authority.Close()
	})
	return stage{broker, broker.RealTCPAddr(), broker.RealTCPAddr(), testToken}
}

// player plays one case. Where it goes another way, it stops.
type player struct {
	t *testing.T
	stage
}

type another struct{ way string }

func (p *player) differs(format string, words ...any) { panic(another{fmt.Sprintf(format, words...)}) }

// played is how a case went: empty, as told. Any other panic is a bug, and goes on.
func played(t *testing.T, on stage, play func(*player)) (way string) {
	defer func() {
		switch what := recover().(type) {
		case nil:
		case another:
			way = what.way
		default:
			panic(what)
		}
	}()
	play(&player{t, on})
	return ""
}

func TestABugInACaseIsNotAsTold(t *testing.T) {
	if way := played(t, stage{}, func(p *player) { p.differs("so") }); way != "so" {
		t.Errorf("it goes %q", way)
	}
	defer func() {
		if bug := recover(); bug != "a bug" {
			t.Errorf("out comes %v", bug)
		}
	}()
	played(t, stage{}, func(*player) { panic("a bug") })
}

// client is one connection.
type client struct {
	*player
	net.Conn
}

func (p *player) dial(address net.Addr) *client {
	return &client{p, connect(p.t, address)}
}

// publisher and subscriber have shown the token and said who they are.
func (p *player) publisher() *client { return p.dial(p.publish).admitted().identified(nil) }

func (p *player) subscriber(topic, channel string, features map[string]any) *client {
	c := p.dial(p.watch).admitted().identified(features)
	c.says("SUB "+topic+" "+channel).hears(frameResponse, "OK")
	return c
}

func (c *client) admitted() *client {
	c.write(showing(c.token))
	c.hears(frameResponse, `{"identity":"","identity_url":"","permission_count":1}`)
	return c
}

func (c *client) identify(features map[string]any) (uint32, string) {
	its := map[string]any{"client_id": "test", "feature_negotiation": true}
	for name, value := range features {
		its[name] = value
	}
	text, err := json.Marshal(its)
	if err != nil {
		c.t.Fatal(err)
	}
	c.write(append([]byte("IDENTIFY\n"), sized(string(text))...))
	return c.frame()
}

func (c *client) identified(features map[string]any) *client {
	if kind, said := c.identify(features); kind != frameResponse {
		c.differs("%s", said)
	}
	return c
}

// negotiated is what the broker says of one feature.
func (c *client) negotiated(features map[string]any, name string) string {
	kind, said := c.identify(features)
	found := map[string]json.RawMessage{}
	if kind != frameResponse || json.Unmarshal([]byte(said), &found) != nil {
		c.differs("%s", said)
	}
	return string(found[name])
}

func (c *client) says(line string) *client { return c.write([]byte(line + "\n")) }

func (c *client) write(data []byte) *client {
	if _, err := c.Write(data); err != nil {
		c.differs("the connection is closed")
	}
	return c
}

// frame is what comes next, hearts apart.
func (c *client) frame() (uint32, string) {
	for {
		var head [8]byte
		if _, err := io.ReadFull(c, head[:]); err != nil {
			c.differs("the connection is closed")
		}
		data := make([]byte, binary.BigEndian.Uint32(head[:])-4)
		if _, err := io.ReadFull(c, data); err != nil {
			c.differs("the connection is closed")
		}
		if string(data) != "_heartbeat_" {
			return binary.BigEndian.Uint32(head[4:]), string(data)
		}
	}
}

func (c *client) hears(kind uint32, text string) {
	if is, said := c.frame(); is != kind || said != text {
		c.differs("%s", said)
	}
}

// message is the next delivery: id, body, and how often it was tried.
func (c *client) message() (id, body string, attempts uint16) {
	kind, data := c.frame()
	if kind != frameMessage {
		c.differs("%s", data)
	}
	return data[10:26], data[26:], binary.BigEndian.Uint16([]byte(data[8:10]))
}

func (c *client) isClosed() {
	for buffer := make([]byte, 1<<10); ; {
		if _, err := c.Read(buffer); err != nil {
			if waits, isNet := err.(net.Error); isNet && waits.Timeout() {
				c.differs("the connection stays open")
			}
			return
		}
	}
}

func (p *player) channel(topic, name string) nsqd.ChannelStats {
	for _, its := range p.nsqd.GetStats(topic, name, false).Topics {
		for _, channel := range its.Channels {
			return channel
		}
	}
	return nsqd.ChannelStats{}
}

func (p *player) until(what string, holds func() bool) {
	for end := time.Now().Add(10 * time.Second); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			p.differs("never: %s", what)
		}
	}
}

// --- the table of README.md --------------------------------------------------------------------------------

var deviation = regexp.MustCompile("(?m)^\\| `(Test\\w+)` \\| (.+) \\| (.+) \\|$")

func deviations(t *testing.T) map[string]string {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, cells := range deviation.FindAllStringSubmatch(string(text), -1) {
		if len(cells[3]) < 10 {
			t.Errorf("%s deviates without a reason", cells[1])
		}
		found[cells[1]] = strings.Trim(cells[2], "`")
	}
	return found
}

// TestMain lets tests that only wait do so together.
func TestMain(m *testing.M) {
	flag.Parse()
	_ = flag.Set("test.parallel", "64")
	os.Exit(m.Run())
}

func TestNSQsProtocolSuite(t *testing.T) {
	known := deviations(t)
	for name, play := range suite {
		name, play := name, play
		t.Run(name+"/stock", func(t *testing.T) {
			t.Parallel()
			if isOfTLS[name] {
				t.Skip("a stock nsqd wants certificates for this")
			}
			if way := played(t, stockStage(t), play); way != "" {
				t.Errorf("it goes another way: %s", way)
			}
		})
		t.Run(name+"/ours", func(t *testing.T) {
			t.Parallel()
			if way := played(t, ourStage(t), play); way != known[name] {
				t.Errorf("here %q, in the table %q", way, known[name])
			}
		})
	}
	for name := range known {
		if suite[name] == nil {
			t.Errorf("%s is no case", name)
		}
	}
}
