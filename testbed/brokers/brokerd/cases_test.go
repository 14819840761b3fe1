package main

import (
	"fmt"
	"strings"
	"time"
)

var isOfTLS = map[string]bool{
	"TestTLS": true, "TestTLSRequired": true, "TestTLSAuthRequire": true, "TestTLSAuthRequireVerify": true,
	"TestTLSDeflate": true, "TestTLSSnappy": true,
}

// suite has the cases by their names there.
var suite = map[string]func(*player){
	"TestChannelTopicNames": func(p *player) {
		for name, isGood := range map[string]bool{
			"test": true, "test-with_period.": true, "test#ephemeral": true, "test:ephemeral": false,
		} {
			if c := p.publisher().write(pub(name, "x")); isGood {
				c.hears(frameResponse, "OK")
			} else if kind, said := c.frame(); kind != frameError || !strings.HasPrefix(said, "E_BAD_TOPIC") {
				p.differs("%s", said)
			}
			c := p.dial(p.watch).admitted().identified(nil)
			if c.says("SUB " + strings.TrimSuffix(name, ":ephemeral") + " " + name); isGood {
				c.hears(frameResponse, "OK")
			} else if kind, said := c.frame(); kind != frameError || !strings.HasPrefix(said, "E_BAD_CHANNEL") {
				p.differs("%s", said)
			}
		}
	},
	"TestBasicV2": func(p *player) {
		p.publisher().write(pub("t", "test body")).hears(frameResponse, "OK")
		if _, body, attempts := p.subscriber("t", "ch", nil).says("RDY 1").message(); body != "test body" || attempts != 1 {
			p.differs("%s, %d", body, attempts)
		}
	},
	"TestMultipleConsumerV2": func(p *player) {
		first, second := p.subscriber("t", "ch1", nil), p.subscriber("t", "ch2", nil)
		p.publisher().write(pub("t", "test body")).hears(frameResponse, "OK")
		id, _, _ := first.says("RDY 1").message()
		if other, body, attempts := second.says("RDY 1").message(); other != id || body != "test body" || attempts != 1 {
			p.differs("%s and %s, %s, %d", id, other, body, attempts)
		}
	},
	"TestClientTimeout": func(p *player) {
		silent := map[string]any{"heartbeat_interval": 1000}
		p.subscriber("t", "ch", silent).isClosed()
		p.dial(p.publish).admitted().identified(silent).isClosed()
	},
	"TestClientHeartbeat": func(p *player) {
		often := map[string]any{"heartbeat_interval": 2500} // of which a busy machine may take away a second and a half
		both := []*client{p.subscriber("t", "ch", often), p.dial(p.publish).admitted().identified(often)}
		for i := 0; i < 3; i++ { // longer than one that is silent lives
			for _, c := range both {
				if kind, said := frame(p.t, c); kind != frameResponse || string(said) != "_heartbeat_" {
					p.differs("%s", said)
				}
				c.says("NOP")
			}
		}
	},
	"TestClientHeartbeatDisableSUB": func(p *player) {
		p.dial(p.watch).admitted().identified(map[string]any{"heartbeat_interval": -1}).
			says("SUB t ch").hears(frameError, "E_INVALID cannot SUB with heartbeats disabled")
	},
	"TestClientHeartbeatDisable": func(p *player) {
		c := p.dial(p.publish).admitted().identified(map[string]any{"heartbeat_interval": -1})
		time.Sleep(1500 * time.Millisecond)
		c.says("NOP").write(pub("t", "x"))
		if kind, said := frame(p.t, c); kind != frameResponse || string(said) != "OK" {
			p.differs("%s", said)
		}
	},
	"TestMaxHeartbeatIntervalValid": func(p *player) {
		p.dial(p.publish).admitted().identified(map[string]any{"heartbeat_interval": 60_000})
	},
	"TestMaxHeartbeatIntervalInvalid": func(p *player) {
		if _, said := p.dial(p.publish).admitted().identify(map[string]any{"heartbeat_interval": 60_001}); said !=
			"E_BAD_BODY IDENTIFY heartbeat interval (60001) is invalid" {
			p.differs("%s", said)
		}
	},
	"TestPausing": func(p *player) {
		reader, writer := p.subscriber("t", "ch", nil).says("RDY 1"), p.publisher()
		writer.write(pub("t", "first")).hears(frameResponse, "OK")
		id, _, _ := reader.message()
		channel, err := p.nsqd.GetTopic("t").GetExistingChannel("ch")
		if err != nil {
			p.t.Fatal(err)
		}
		_ = channel.Pause()
		reader.says("FIN " + id)
		p.until("it is finished", func() bool { return p.channel("t", "ch").InFlightCount == 0 })
		time.Sleep(50 * time.Millisecond) // until its goroutine has seen that
		writer.write(pub("t", "second")).hears(frameResponse, "OK")
		p.until("it waits", func() bool { return p.channel("t", "ch").Depth == 1 })
		time.Sleep(50 * time.Millisecond)
		if its := p.channel("t", "ch"); its.Depth != 1 || its.InFlightCount != 0 {
			p.differs("%+v", its)
		}
		_ = channel.UnPause()
		if _, body, _ := reader.message(); body != "second" {
			p.differs("%s", body)
		}
	},
	"TestEmptyCommand": func(p *player) {
		p.publisher().write([]byte("\n\n"))
		p.publisher().write(pub("t", "x")).hears(frameResponse, "OK") // it lives
	},
	"TestSizeLimits": func(p *player) {
		large, many := strings.Repeat("x", messageMaximum), make([]string, 6)
		for i := range many {
			many[i] = large
		}
		p.subscriber("t", "ch", nil)
		p.publisher().write(pub("t", large)).hears(frameResponse, "OK")
		p.publisher().write(mpub("t", large, large)).hears(frameResponse, "OK")
		begun := func(command string, numbers ...int) []byte {
			return append([]byte(command+" t\n"), counted(numbers...)...)
		}
		p.publisher().write(begun("PUB", messageMaximum+1)).
			hears(frameError, "E_BAD_MESSAGE PUB message too big 1048577 > 1048576")
		p.publisher().write(begun("PUB", 0)).hears(frameError, "E_BAD_MESSAGE PUB invalid message body size 0")
		p.publisher().write(begun("MPUB", bodyMaximum+1)).
			hears(frameError, "E_BAD_BODY MPUB body too big 5242881 > 5242880")
		p.publisher().write(mpub("t", "a", "b", "")).
			hears(frameError, "E_BAD_MESSAGE MPUB invalid message(2) body size 0")
		p.publisher().write(begun("MPUB", messageMaximum+9, 1, messageMaximum+1)).
			hears(frameError, "E_BAD_MESSAGE MPUB message too big 1048577 > 1048576")
	},
	"TestDPUB": func(p *player) {
		p.subscriber("t", "ch", nil)
		c := p.publisher()
		c.write(append([]byte("DPUB t 60000\n"), sized("later")...)).hears(frameResponse, "OK")
		p.until("it is deferred", func() bool { return p.channel("t", "ch").DeferredCount == 1 })
		c.write(append([]byte("DPUB t 3600100\n"), sized("too late")...)).
			hears(frameError, "E_INVALID DPUB timeout 3600100 out of range 0-3600000")
	},
	"TestTouch": func(p *player) {
		reader := p.subscriber("t", "ch", map[string]any{"msg_timeout": 4000}).says("RDY 1")
		p.publisher().write(pub("t", "test body")).hears(frameResponse, "OK")
		id, _, _ := reader.message()
		for i := 0; i < 60; i++ { // together longer than the time-out, and until nsqd first looks for such
			time.Sleep(100 * time.Millisecond)
			reader.says("TOUCH " + id)
		}
		reader.says("FIN " + id)
		p.until("it is finished", func() bool { return p.channel("t", "ch").InFlightCount == 0 })
		if count := p.channel("t", "ch").TimeoutCount; count != 0 {
			p.differs("%d time-outs", count)
		}
	},
	"TestMaxRdyCount": func(p *player) {
		c := p.dial(p.watch).admitted()
		if count := c.negotiated(nil, "max_rdy_count"); count != "100000" {
			p.differs("%s", count)
		}
		c.says("SUB t ch").hears(frameResponse, "OK")
		p.publisher().write(pub("t", "test body")).hears(frameResponse, "OK")
		c.says("RDY 100000").message()
		c.says("RDY 100001").hears(frameError, "E_INVALID RDY count 100001 out of range 0-100000")
	},
	"TestFatalError": func(p *player) {
		c := p.publisher().says("ASDF")
		c.hears(frameError, "E_INVALID invalid command ASDF")
		c.isClosed()
	},
	"TestOutputBuffering": func(p *player) {
		wanted := map[string]any{"output_buffer_size": 65536, "output_buffer_timeout": 500}
		began := time.Now()
		c := p.dial(p.watch).admitted()
		if size := c.negotiated(wanted, "output_buffer_size"); size != "65536" {
			p.differs("%s", size)
		}
		c.says("SUB t ch").hears(frameResponse, "OK")
		c.says("RDY 10")
		p.publisher().write(pub("t", strings.Repeat("x", 60_000))).hears(frameResponse, "OK")
		if c.message(); time.Since(began) < 500*time.Millisecond {
			p.differs("it came at once")
		}
	},
	"TestOutputBufferingValidity": func(p *player) {
		c := p.dial(p.publish).admitted()
		buffer := func(size, timeout int) map[string]any {
			return map[string]any{"output_buffer_size": size, "output_buffer_timeout": timeout}
		}
		c.identified(buffer(65536, 30_000)).identified(buffer(-1, -1)).identified(buffer(0, 0))
		if _, said := c.identify(buffer(65537, 0)); said != "E_BAD_BODY IDENTIFY output buffer size (65537) is invalid" {
			p.differs("%s", said)
		}
		if _, said := p.dial(p.publish).admitted().identify(buffer(0, 30_001)); said !=
			"E_BAD_BODY IDENTIFY output buffer timeout (30001) is invalid" {
			p.differs("%s", said)
		}
	},
	"TestTLS":                  offers("tls_v1"),
	"TestTLSRequired":          offers("tls_v1"),
	"TestTLSAuthRequire":       offers("tls_v1"),
	"TestTLSAuthRequireVerify": offers("tls_v1"),
	"TestTLSDeflate":           offers("tls_v1"),
	"TestTLSSnappy":            offers("tls_v1"),
	"TestDeflate":              offers("deflate"),
	"TestSnappy":               offers("snappy"),
	"TestSampling": func(p *player) {
		const count, rate, slack = 4000, 42, 8
		c := p.dial(p.watch).admitted()
		if said := c.negotiated(map[string]any{"sample_rate": rate}, "sample_rate"); said != fmt.Sprint(rate) {
			p.differs("%s", said)
		}
		c.says("SUB t ch").hears(frameResponse, "OK")
		writer := p.publisher()
		for i := 0; i < count; i += 100 {
			writer.write(mpub("t", strings.Fields(strings.Repeat("body ", 100))...)).hears(frameResponse, "OK")
		}
		p.until("all is there", func() bool { return p.channel("t", "ch").MessageCount == count })
		c.says(fmt.Sprintf("RDY %d", count))
		p.until("nothing waits", func() bool { return p.channel("t", "ch").Depth == 0 })
		if sent := p.channel("t", "ch").InFlightCount * 100 / count; sent < rate-slack || sent > rate+slack {
			p.differs("%d of 100", sent)
		}
	},
	"TestClientMsgTimeout": func(p *player) {
		reader := p.subscriber("t", "ch", map[string]any{"msg_timeout": 1000})
		p.publisher().write(pub("t", "test body")).hears(frameResponse, "OK")
		id, _, _ := reader.says("RDY 1").message()
		reader.says("RDY 0")
		p.until("it is too late", func() bool { return p.channel("t", "ch").TimeoutCount == 1 })
		if its := p.channel("t", "ch"); its.RequeueCount != 0 {
			p.differs("%+v", its)
		}
		reader.says("FIN " + id)
		reader.hears(frameError, "E_FIN_FAILED FIN "+id+" failed ID not in flight")
	},
	"TestBadFin": func(p *player) {
		p.subscriber("t", "ch", nil).says("FIN ").hears(frameError, "E_INVALID invalid message ID")
	},
	"TestReqTimeoutRange": func(p *player) {
		reader := p.subscriber("t", "ch", nil).says("RDY 1")
		p.publisher().write(pub("t", "test body")).hears(frameResponse, "OK")
		id, _, _ := reader.message()
		again, _, attempts := reader.says("REQ " + id + " 0").message()
		if again != id || attempts != 2 {
			p.differs("%s, then %s, %d", id, again, attempts)
		}
		reader.says("REQ " + id + " 7200000") // twice the most
		p.until("it is deferred", func() bool { return p.channel("t", "ch").DeferredCount == 1 })
	},
	"TestClientAuth": func(p *player) {
		p.subscriber("t", "ch", nil)
		p.dial(p.watch).write(showing("another")).hears(frameError, "E_UNAUTHORIZED AUTH no authorizations found")
	},
	"TestIOLoopReturnsClientErrWhenSendFails":    inside,
	"TestIOLoopReturnsClientErrWhenSendSucceeds": inside,
}

// offers is whether a feature is there when it is asked for.
func offers(feature string) func(*player) {
	return func(p *player) {
		if said := p.dial(p.watch).admitted().negotiated(map[string]any{feature: true}, feature); said != "true" {
			p.differs("no %s", feature)
		}
	}
}

// inside is a case of functions, and not of connections: what clients see of it.
func inside(p *player) {
	c := p.publisher().says("INVALID_COMMAND")
	c.hears(frameError, "E_INVALID invalid command INVALID_COMMAND")
	c.isClosed()
}
