package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/url"
)

// nsqd asks whoever is at its auth-http-address what a token may do: here, the control port, which is one port less
// for strangers to try.

const (
	authTTL    = 24 * 60 * 60 // seconds until nsqd asks again
	everything = `{"ttl":%d,"identity":"","identity_url":"","authorizations":[` +
		`{"permissions":["subscribe","publish"],"topic":".*","channels":[".*"]}]}`
)

// askedByNsqd is the token that nsqd asks about, when a line is that question.
func askedByNsqd(line []byte) (string, bool) {
	words := bytes.Fields(line)
	if len(words) != 3 || string(words[0]) != "GET" {
		return "", false
	}
	asked, err := url.ParseRequestURI(string(words[1]))
	if err != nil {
		return "", false
	}
	return asked.Query().Get("secret"), true
}

// vouch answers in HTTP, when the question has been read to its end.
func (l *lobby) vouch(g *guest, secret string, question *bufio.Reader, to io.Writer) {
	for {
		line, err := readLine(question, tokenMaximum)
		if err != nil {
			return
		}
		if len(bytes.TrimSpace(line)) == 0 {
			break
		}
	}
	status, body := "401 Unauthorized", "{}"
	if l.admit(g, []byte(secret)) {
		status, body = "200 OK", fmt.Sprintf(everything, authTTL)
	}
	_, _ = fmt.Fprintf(to, "HTTP/1.1 %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", status, len(body), body)
}
