package main

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"time"
	"unsafe"
)

const (
	soTimestampNs = 35 // SO_TIMESTAMPNS, and the type of the control message that it causes
	stampLimit    = 2 * time.Second
)

// now is CLOCK_REALTIME, the clock of the kernel's stamps.
func now() int64 { return time.Now().UnixNano() }

// stampArrivals asks the kernel to stamp what arrives; connections inherit it from their listener.
func stampArrivals(_, _ string, raw syscall.RawConn) error {
	var failed error
	err := raw.Control(func(fd uintptr) {
		failed = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, soTimestampNs, 1)
	})
	if err != nil {
		return err
	}
	return os.NewSyscallError("setsockopt SO_TIMESTAMPNS", failed)
}

// arrivalStamp is the one control message that the kernel sends with the bytes.
type arrivalStamp struct {
	header syscall.Cmsghdr
	time   syscall.Timespec
}

// reading is when the bytes read last had come, whatever the stamps go by: the difference is the error of a
// stamp that is taken at reading.
type reading struct {
	arrivedNs int64 // the kernel's stamp; where it gave none, as below
	readAtNs  int64 // when the read returned
}

// reception reads a connection by recvmsg. All that a call needs is made once: reading leaves no garbage.
type reception struct {
	raw    syscall.RawConn
	kernel bool // stamps come from the kernel; otherwise from the clock, after the read

	stampNs int64 // of the bytes read last: what the bucket goes by
	reading
	stamped bool // whether the kernel stamped them

	message syscall.Msghdr
	vector  syscall.Iovec
	control arrivalStamp
	count   int
	errno   syscall.Errno
	attempt func(fd uintptr) bool
}

// open makes it ready. It points to itself, so it must stay where it is.
func (r *reception) open(conn *net.TCPConn, kernel bool) (err error) {
	r.raw, err = conn.SyscallConn()
	r.kernel = kernel
	r.message.Iov = &r.vector
	r.message.Iovlen = 1
	r.attempt = r.try
	return err
}

// receive waits for bytes and stamps them.
func (r *reception) receive(into []byte) (int, error) {
	r.vector.Base = &into[0]
	r.vector.SetLen(len(into))
	err := r.raw.Read(r.attempt)
	r.vector.Base = nil
	if err != nil {
		return 0, err
	}
	if r.errno != 0 {
		return 0, os.NewSyscallError("recvmsg", r.errno)
	}
	if r.count == 0 {
		return 0, io.EOF
	}
	r.stamp()
	return r.count, nil
}

// try reads once; false means that nothing has come yet.
func (r *reception) try(fd uintptr) bool {
	r.message.Control = (*byte)(unsafe.Pointer(&r.control))
	r.message.SetControllen(int(unsafe.Sizeof(r.control)))
	for {
		count, _, errno := syscall.Syscall(syscall.SYS_RECVMSG, fd, uintptr(unsafe.Pointer(&r.message)), 0)
		r.count, r.errno = int(count), errno
		if errno != syscall.EINTR {
			return errno != syscall.EAGAIN
		}
	}
}

func (r *reception) stamp() {
	r.readAtNs = now()
	r.arrivedNs, r.stamped = r.readAtNs, false
	header := &r.control.header
	if r.message.Controllen >= uint64(unsafe.Sizeof(r.control)) &&
		header.Level == syscall.SOL_SOCKET && header.Type == soTimestampNs {
		r.arrivedNs, r.stamped = r.control.time.Nano(), true
	}
	r.stampNs = r.arrivedNs
	if !r.kernel {
		r.stampNs = r.readAtNs
	}
}

// awaitStamps waits until the kernel stamps: it begins to some time after it was asked for the first
// time on the whole machine. The ingress' listener must be there already, and keeps it doing so.
func awaitStamps() error {
	config := net.ListenConfig{Control: stampArrivals}
	listener, err := config.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer listener.Close()
	sender, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		return err
	}
	defer sender.Close()
	receiver, err := listener.(*net.TCPListener).AcceptTCP()
	if err != nil {
		return err
	}
	defer receiver.Close()
	var r reception
	if err := r.open(receiver, true); err != nil {
		return err
	}
	one := make([]byte, 1)
	for began := time.Now(); time.Since(began) < stampLimit; time.Sleep(time.Millisecond) {
		if _, err := sender.Write(one); err != nil {
			return err
		}
		if _, err := r.receive(one); err != nil {
			return err
		}
		if r.stamped {
			return nil
		}
	}
	return errors.New("this kernel stamps no arrivals; -stamps read does without")
}
