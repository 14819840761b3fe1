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

const endLimit = 3 * time.Second

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
	memoryQueue                                      int64
}

func (o *options) parse() {
	flag.StringVar(&o.data, "data", "127.0.0.1:0", "address of the ingress, for publishers")
	flag.StringVar(&o.nsqd, "nsqd", "127.0.0.1:0", "address of nsqd, for subscribers")
	flag.StringVar(&o.control, "control", "127.0.0.1:0", "address of the control port")
	flag.StringVar(&o.path, "path", "", "folder of nsqd's files; one broker each")
	flag.StringVar(&o.tokenFile, "token-file", "", "file with the token that the control port wants")
	flag.StringVar(&o.stamps, "stamps", "kernel", "arrival stamps: kernel, or read = when the broker read the bytes")
	flag.StringVar(&o.gc, "gc", "friendly", "garbage collection: default, friendly or off")
	flag.Int64Var(&o.memoryQueue, "memory-queue", 100_000, "messages that nsqd keeps in memory, per topic and channel")
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

	broker, err := nsqd.New(o.nsqdOptions())
	if err != nil {
		return err
	}
	if err := broker.LoadMetadata(); err != nil {
		return err
	}
	failed := make(chan error, 1)
	go func() { failed <- broker.Main() }()

	ingress, err := newIngress(o.data, broker, o.stamps == "kernel", o.gc != "default")
	if err != nil {
		return err
	}
	go ingress.run()
	listener, err := net.Listen("tcp", o.control)
	if err != nil {
		return err
	}
	control := &control{ingress: ingress, listener: listener, token: token}
	go control.run()

	end := ended()
	sayReady(ingress.listener.Addr(), broker.RealTCPAddr(), listener.Addr())
	select {
	case err = <-failed:
	case <-end:
	}
	_ = ingress.listener.Close()
	_ = listener.Close()
	time.AfterFunc(endLimit, func() { os.Exit(1) })
	for _, t := range ingress.all() { // else nsqd would write to disk what nobody will read
		_ = broker.DeleteExistingTopic(t.name)
	}
	broker.Exit()
	return err
}

func (o *options) nsqdOptions() *nsqd.Options {
	options := nsqd.NewOptions()
	options.TCPAddress = o.nsqd
	options.HTTPAddress, options.HTTPSAddress = "", ""
	options.DataPath = o.path
	options.MemQueueSize = o.memoryQueue
	options.MaxRdyCount = 100_000
	options.MinOutputBufferTimeout = time.Millisecond // clients without unbuffered output may ask for little
	options.LogLevel = nsqd.LOG_WARN
	options.Logger = log.New(os.Stderr, "", log.LstdFlags|log.Lmicroseconds)
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
