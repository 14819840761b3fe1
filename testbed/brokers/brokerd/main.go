// Brokerd is the live testbed's broker: the real nsqd with a rate-limited port for publishers before it.
//
// Subscribers speak to nsqd itself. Publishers speak NSQ's protocol V2 to the ingress, which gives
// each message to nsqd at the instant at which its topic's token bucket lets it go. The harness
// commands it over the control port. README.md says how it differs from the paper's broker.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/nsqio/nsq/nsqd"
)

const endLimit = 20 * time.Second // of nsqd, which syncs its list of topics: a disk that is busy takes seconds

func main() {
	log.SetFlags(log.LstdFlags | log.Lmicroseconds)
	var o options
	o.parse()
	if err := o.run(); err != nil {
		fmt.Fprintln(os.Stderr, "brokerd:", err)
		os.Exit(1)
	}
}

type options struct {
	data, nsqd, control, path, tokenFile, stamps, gc string
	memoryQueue, topicBytes, bytes                   int64
	rows                                             int
	isOpen, isCommanded                              bool
}

func (o *options) parse() {
	flag.StringVar(&o.data, "data", "127.0.0.1:0", "address of the ingress, for publishers")
	flag.StringVar(&o.nsqd, "nsqd", "127.0.0.1:0", "address of nsqd, for subscribers")
	flag.StringVar(&o.control, "control", "127.0.0.1:0", "address of the control port")
	flag.StringVar(&o.path, "path", "", "folder of nsqd's files; one broker each")
	flag.StringVar(&o.tokenFile, "token-file", "", "file with the run's token, which every port wants")
	flag.StringVar(&o.stamps, "stamps", "kernel", "arrival stamps: kernel, or read = when the broker read the bytes")
	flag.StringVar(&o.gc, "gc", "friendly", "garbage collection: default, friendly or off")
	flag.Int64Var(&o.memoryQueue, "memory-queue", 100_000, "messages that nsqd keeps in memory, per topic and channel")
	flag.Int64Var(&o.topicBytes, "topic-bytes", 512<<20, "bytes of a topic's messages that nobody has finished, at most")
	flag.Int64Var(&o.bytes, "bytes", 1<<30, "the same, of all topics together")
	flag.IntVar(&o.rows, "rows", 0, "rows that may be recorded at a time, 48 bytes each")
	flag.BoolVar(&o.isOpen, "open", false, "let anybody publish and subscribe: for NSQ's bench programs, which know no AUTH")
	flag.BoolVar(&o.isCommanded, "commanded", false, "let only commands make topics: any other is as good as fenced")
	flag.Parse()
}

// run serves until standard input ends, or SIGTERM.
func (o *options) run() error {
	token, err := os.ReadFile(o.tokenFile)
	if err != nil {
		return fmt.Errorf("-token-file: %w", err)
	}
	if token = bytes.TrimSpace(token); len(token) == 0 {
		return errors.New("-token-file: it holds no token")
	}
	if o.stamps != "kernel" && o.stamps != "read" {
		return fmt.Errorf("-stamps %s: use kernel or read", o.stamps)
	}
	if o.path == "" || flag.NArg() > 0 {
		return errors.New("-path is missing, or there is more than flags")
	}
	if err := setCollection(o.gc); err != nil {
		return err
	}
	// The releaser needs no processor of the scheduler's when readers have them all.
	runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1)

	ingress, control, err := o.open(token)
	if err != nil {
		return err
	}
	broker := ingress.nsqd
	failed := make(chan error, 1)
	go func() { failed <- broker.Main() }()
	go ingress.run()
	go control.run()

	end := ended()
	sayReady(ingress.listener.Addr(), broker.RealTCPAddr(), control.listener.Addr())
	select {
	case err = <-failed:
	case <-end:
	}
	_ = ingress.listener.Close()
	_ = control.listener.Close()
	time.AfterFunc(endLimit, func() { os.Exit(1) })
	for _, t := range ingress.all() { // else nsqd would write to disk what nobody will read
		_ = broker.DeleteExistingTopic(t.name)
	}
	broker.Exit()
	return err
}

// open makes nsqd and the three ports, each with a lobby. Nobody is served yet.
func (o *options) open(token []byte) (*ingress, *control, error) {
	listener, err := net.Listen("tcp", o.control)
	if err != nil {
		return nil, nil, err
	}
	settings := o.nsqdOptions()
	if !o.isOpen {
		settings.AuthHTTPAddresses = []string{listener.Addr().String()}
	}
	broker, err := nsqd.New(settings)
	if err != nil {
		return nil, nil, err
	}
	if err := broker.LoadMetadata(); err != nil {
		return nil, nil, err
	}
	ingress, err := newIngress(o.data, broker, o.stamps == "kernel", o.gc != "default")
	if err != nil {
		return nil, nil, err
	}
	ingress.lobby, ingress.rowsMaximum = newLobby(token, guestBytes, o.isOpen), o.rows
	ingress.isCommanded = o.isCommanded
	ingress.room = &room{nsqd: broker, topicMaximum: o.topicBytes, maximum: o.bytes}
	if err := guard(ingress, newLobby(token, nsqdGuestBytes, o.isOpen)); err != nil {
		return nil, nil, err
	}
	return ingress, &control{ingress: ingress, listener: listener, lobby: newLobby(token, guestBytes, false)}, nil
}

func (o *options) nsqdOptions() *nsqd.Options {
	options := nsqd.NewOptions()
	options.TCPAddress = o.nsqd
	options.HTTPAddress, options.HTTPSAddress = "", ""
	options.DataPath = o.path
	options.MemQueueSize = o.memoryQueue
	options.MaxRdyCount = 100_000
	options.SnappyEnabled, options.DeflateEnabled = false, false // the gate reads until the token has come
	options.MinOutputBufferTimeout = time.Millisecond            // clients without unbuffered output may ask for little
	options.LogLevel = nsqd.LOG_WARN
	options.Logger = &brief{Logger: log.New(os.Stderr, "", log.LstdFlags|log.Lmicroseconds)}
	return options
}

func sayReady(ingress, nsqd, control net.Addr) {
	_ = json.NewEncoder(os.Stdout).Encode(map[string]string{
		"ok": "ready", "ingress": ingress.String(), "nsqd": nsqd.String(), "control": control.String(),
	})
}

// ended is closed when whoever started the broker is gone, or wants it to end.
func ended() <-chan struct{} {
	end := make(chan struct{})
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGTERM, syscall.SIGINT)
	gone := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(gone)
	}()
	go func() {
		select {
		case <-asked:
		case <-gone:
		}
		close(end)
	}()
	return end
}
