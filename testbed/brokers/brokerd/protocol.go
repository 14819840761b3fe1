package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/nsqio/nsq/nsqd"
)

// NSQ's protocol V2 as far as publishers need it. Numbers are big-endian; a command is a line,
// some have a body with its length before it.
const (
	magic            = "  V2"
	lineMaximum      = 256
	nameMaximum      = 64
	ephemeral        = "#ephemeral"
	messageMaximum   = 1 << 20
	bodyMaximum      = 5 << 20
	identityMaximum  = 64 << 10
	intervalMinimum  = time.Second
	intervalMaximum  = time.Minute
	intervalDefault  = 30 * time.Second
	bufferMaximum    = 64 << 10 // nsqd's of subscribers, and their time
	bufferTimeoutMs  = 30_000
	frameResponse    = 0
	frameError       = 1
	frameMessage     = 2
	publisherUnknown = -1
)

// refusal is an error that the client is told before its connection is closed.
type refusal struct{ code, why string }

func (r refusal) Error() string { return r.code + " " + r.why }

func appendFrame(to []byte, kind uint32, data string) []byte {
	to = binary.BigEndian.AppendUint32(to, uint32(4+len(data)))
	to = binary.BigEndian.AppendUint32(to, kind)
	return append(to, data...)
}

func validName(name []byte) bool {
	if len(name) > nameMaximum {
		return false
	}
	name = bytes.TrimSuffix(name, []byte(ephemeral))
	for _, c := range name {
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && !('0' <= c && c <= '9') && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	return len(name) > 0
}

// command carries out one command. Errors that are refusals are for the client; others mean that it is gone.
func (c *connection) command(line []byte) error {
	verb, argument, _ := bytes.Cut(line, []byte{' '})
	switch string(verb) {
	case "PUB", "MPUB":
		if !c.admitted {
			return refusal{"E_AUTH_FIRST", fmt.Sprintf("AUTH required before %s", verb)}
		}
		if string(verb) == "PUB" {
			return c.publish("PUB", argument, c.readMessage)
		}
		return c.publish("MPUB", argument, c.readBatch)
	case "NOP":
		return nil
	case "IDENTIFY":
		return c.identify()
	case "AUTH":
		return c.auth()
	case "CLS":
		c.answer("CLOSE_WAIT")
		return nil
	}
	return refusal{"E_INVALID", fmt.Sprintf("invalid command %.32s", verb)}
}

func (c *connection) publish(verb string, name []byte, read func() error) error {
	if !validName(name) {
		return refusal{"E_BAD_TOPIC", fmt.Sprintf("%s topic name %.80q is not valid", verb, name)}
	}
	if err := c.enter(name); err != nil { // before reading on, which overwrites the name
		return err
	}
	c.batch = c.batch[:0]
	if !c.arena.slabs {
		c.batch = nil // a stock broker makes one for each command
	}
	if err := read(); err != nil {
		return err
	}
	c.countPublication()
	err := c.topic.admit(c.batch, c.publisher, c.reader.reading)
	if errors.Is(err, errFenced) { // and so is all that comes after: the publisher keeps its order
		clear(c.batch)
		counters.errors.Add(1)
		c.say(frameError, "E_FENCED "+c.topic.name)
		return nil
	}
	if err != nil {
		counters.refused.Add(int64(len(c.batch)))
		return refusal{"E_PUB_FAILED", err.Error()}
	}
	counters.messages.Add(int64(len(c.batch)))
	clear(c.batch)
	c.answer("OK")
	return nil
}

// auth wants the run's token, as nsqd's AUTH does, and answers as that.
func (c *connection) auth() error {
	size, err := c.reader.number()
	if err != nil {
		return err
	}
	if c.admitted {
		return refusal{"E_INVALID", "AUTH already set"}
	}
	if size <= 0 || size > tokenMaximum {
		return refusal{"E_BAD_BODY", fmt.Sprintf("AUTH invalid body size %d", size)}
	}
	shown := make([]byte, size)
	if err := c.reader.full(shown); err != nil {
		return err
	}
	if !c.ingress.lobby.admit(c.guest, shown) {
		return refusal{"E_AUTH_FAILED", "AUTH failed"}
	}
	c.widen()
	c.answer(authorized)
	return nil
}

// readMessage reads a length and so many bytes: the only message of a PUB.
func (c *connection) readMessage() error {
	size, err := c.reader.number()
	if err != nil {
		return err
	}
	if size <= 0 {
		return refusal{"E_BAD_MESSAGE", fmt.Sprintf("PUB invalid message body size %d", size)}
	}
	return c.readBody("PUB", size)
}

func (c *connection) readBody(verb string, size int) error {
	if size > messageMaximum {
		return refusal{"E_BAD_MESSAGE", fmt.Sprintf("%s message too big %d > %d", verb, size, messageMaximum)}
	}
	body := c.arena.body(size)
	if err := c.reader.full(body); err != nil {
		return err
	}
	message := c.arena.message()
	*message = nsqd.Message{Body: body, Timestamp: c.reader.stampNs}
	c.batch = append(c.batch, message)
	return nil
}

// readBatch reads an MPUB's messages. None is admitted unless all are good.
func (c *connection) readBatch() error {
	total, err := c.reader.number()
	if err != nil {
		return err
	}
	if total > bodyMaximum {
		return refusal{"E_BAD_BODY", fmt.Sprintf("MPUB body too big %d > %d", total, bodyMaximum)}
	}
	if total < 4 {
		return refusal{"E_BAD_BODY", fmt.Sprintf("MPUB invalid body size %d", total)}
	}
	count, err := c.reader.number()
	if err != nil {
		return err
	}
	left := total - 4
	if count <= 0 || count > left/4 {
		return refusal{"E_BAD_BODY", fmt.Sprintf("MPUB invalid message count %d in %d bytes", count, total)}
	}
	for number := 0; number < count; number++ {
		size, err := c.reader.number()
		if err != nil {
			return err
		}
		if size <= 0 {
			return refusal{"E_BAD_MESSAGE", fmt.Sprintf("MPUB invalid message(%d) body size %d", number, size)}
		}
		if left -= 4 + size; left < 0 && size <= messageMaximum {
			return refusal{"E_BAD_BODY", "MPUB messages are longer than their body"}
		}
		if err := c.readBody("MPUB", size); err != nil {
			return err
		}
	}
	if left != 0 {
		return refusal{"E_BAD_BODY", fmt.Sprintf("MPUB %d bytes after the last message", left)}
	}
	return nil
}

type identity struct {
	ClientID            string `json:"client_id"`
	HeartbeatInterval   int64  `json:"heartbeat_interval"` // ms; 0 = the default, -1 = none
	FeatureNegotiation  bool   `json:"feature_negotiation"`
	OutputBufferSize    int64  `json:"output_buffer_size"`    // as nsqd wants it; answers are never held back here
	OutputBufferTimeout int64  `json:"output_buffer_timeout"` // ms
}

// check is what nsqd would say against it.
func (who *identity) check() string {
	switch size, timeout := who.OutputBufferSize, who.OutputBufferTimeout; {
	case size != -1 && size != 0 && (size < 64 || size > bufferMaximum):
		return fmt.Sprintf("output buffer size (%d) is invalid", size)
	case timeout != -1 && timeout != 0 && (timeout < 1 || timeout > bufferTimeoutMs):
		return fmt.Sprintf("output buffer timeout (%d) is invalid", timeout)
	}
	return ""
}

// features is what negotiation finds here: no compression, no TLS, nothing to subscribe to.
const features = `{"max_rdy_count":0,"version":"1.3.0","max_msg_timeout":900000,"msg_timeout":60000,` +
	`"tls_v1":false,"deflate":false,"deflate_level":0,"max_deflate_level":0,"snappy":false,"sample_rate":0,` +
	`"auth_required":%t,"output_buffer_size":%d,"output_buffer_timeout":0}`

// authorized is what nsqd answers to AUTH.
const authorized = `{"identity":"","identity_url":"","permission_count":1}`

func (c *connection) identify() error {
	size, err := c.reader.number()
	if err != nil {
		return err
	}
	if size <= 0 || size > identityMaximum || !c.admitted && size > identityGuest {
		return refusal{"E_BAD_BODY", fmt.Sprintf("IDENTIFY invalid body size %d", size)}
	}
	text := make([]byte, size)
	if err := c.reader.full(text); err != nil {
		return err
	}
	var who identity
	if err := json.Unmarshal(text, &who); err != nil {
		return refusal{"E_BAD_BODY", "IDENTIFY failed to decode JSON body"}
	}
	if problem := who.check(); problem != "" {
		return refusal{"E_BAD_BODY", "IDENTIFY " + problem}
	}
	interval := time.Duration(who.HeartbeatInterval) * time.Millisecond
	switch {
	case who.HeartbeatInterval == 0:
		interval = intervalDefault
	case who.HeartbeatInterval == -1:
		interval = 0
	case who.HeartbeatInterval < 0 || interval < intervalMinimum || interval > intervalMaximum:
		return refusal{"E_BAD_BODY", fmt.Sprintf("IDENTIFY heartbeat interval (%d) is invalid", who.HeartbeatInterval)}
	}
	c.setPublisher(publisherOf(who.ClientID))
	c.setHeartbeat(interval)
	if who.FeatureNegotiation {
		c.answer(fmt.Sprintf(features, !c.ingress.lobby.isOpen, outputBytes))
	} else {
		c.answer("OK")
	}
	return nil
}

// publisherOf is the number in our publishers' "p<number>"; stock clients have none.
func publisherOf(client string) int64 {
	digits, ours := strings.CutPrefix(client, "p")
	number, err := strconv.ParseInt(digits, 10, 32)
	if !ours || err != nil || number < 0 {
		return publisherUnknown
	}
	return number
}

// reader takes commands apart. Its buffer is made with the connection.
type reader struct {
	reception
	buffer     []byte
	begin, end int
	wait       func(into []byte) (int, error) // for more bytes
}

// more fills the buffer's free end.
func (r *reader) more() error {
	if r.begin > 0 {
		r.end = copy(r.buffer, r.buffer[r.begin:r.end])
		r.begin = 0
	}
	count, err := r.wait(r.buffer[r.end:])
	r.end += count
	return err
}

// line is the next line without its end; it is valid until the next call.
func (r *reader) line() ([]byte, error) {
	for seen := 0; ; {
		have := r.buffer[r.begin:r.end]
		if i := bytes.IndexByte(have[seen:], '\n'); i >= 0 {
			line := have[:seen+i]
			r.begin += seen + i + 1
			return bytes.TrimSuffix(line, []byte{'\r'}), nil
		}
		if seen = len(have); seen > lineMaximum {
			return nil, refusal{"E_INVALID", "a line without an end"}
		}
		if err := r.more(); err != nil {
			return nil, err
		}
	}
}

// number is the next four bytes, signed.
func (r *reader) number() (int, error) {
	for r.end-r.begin < 4 {
		if err := r.more(); err != nil {
			return 0, err
		}
	}
	number := int32(binary.BigEndian.Uint32(r.buffer[r.begin:]))
	r.begin += 4
	return int(number), nil
}

// full fills a body, whose end need not pass through the buffer.
func (r *reader) full(body []byte) error {
	count := copy(body, r.buffer[r.begin:r.end])
	r.begin += count
	for body = body[count:]; len(body) > 0; body = body[count:] {
		var err error
		if len(body) >= len(r.buffer) {
			count, err = r.wait(body)
		} else if err = r.more(); err == nil {
			count = copy(body, r.buffer[r.begin:r.end])
			r.begin += count
		}
		if err == io.EOF {
			return io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
	}
	return nil
}
