package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Packets carries messages and file descriptors over a Unix SOCK_SEQPACKET
// socket. A message larger than a packet is cut into several: the first byte
// of a packet is 1 if more of the message follows and 0 if not. Descriptors
// travel with the first packet.
type Packets struct {
	f      *os.File
	rc     rawConn
	oneWay bool

	// Of the one who receives.
	in     []byte
	oob    []byte
	untold bool // the kernel does not tell what Waiting asks

	turn chan struct{} // holds a token while a message is sent
	out  []byte
}

type rawConn interface {
	Read(func(fd uintptr) bool) error
	Write(func(fd uintptr) bool) error
}

const (
	maxPacket = 64 << 10
	// MaxFiles is the most descriptors a message can carry.
	MaxFiles = 8
	// sendable is the most that the kernel lets anybody send at once
	// (SCM_MAX_FD). There is room for all: what has none is closed within
	// recvmsg, and to close what a hostile peer sent can take long.
	sendable = 253
)

// NewPackets takes over a connected SOCK_SEQPACKET socket.
func NewPackets(fd int) (*Packets, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("cannot set up the socket: %w", err)
	}
	f := os.NewFile(uintptr(fd), "warden connection")
	rc, err := f.SyscallConn()
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("cannot set up the socket: %w", err)
	}
	return &Packets{f: f, rc: rc, turn: make(chan struct{}, 1), in: make([]byte, maxPacket), oob: make([]byte, unix.CmsgSpace(4*sendable))}, nil
}

// PacketPair returns two connected ends.
func PacketPair() (a, b *Packets, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot make a socket pair: %w", err)
	}
	if a, err = NewPackets(fds[0]); err != nil {
		unix.Close(fds[1])
		return nil, nil, err
	}
	if b, err = NewPackets(fds[1]); err != nil {
		a.Close()
		return nil, nil, err
	}
	return a, b, nil
}

// PassesFiles is true.
func (p *Packets) PassesFiles() bool { return true }

// OneWay tells whether the other end can send no descriptor; see the function of
// this name.
func (p *Packets) OneWay() bool { return p.oneWay }

// SetOneWay is called before anything is sent.
func (p *Packets) SetOneWay() { p.oneWay = true }

// Close closes the socket.
func (p *Packets) Close() error { return p.f.Close() }

// HungUp tells whether the other end is closed. What it sent before can still be
// received.
func (p *Packets) HungUp() bool {
	rc, err := p.f.SyscallConn()
	if err != nil {
		return true
	}
	poll := []unix.PollFd{{}}
	n := 0
	cerr := rc.Control(func(fd uintptr) {
		poll[0].Fd = int32(fd)
		n, err = unix.Poll(poll, 0) // POLLHUP is always looked for
	})
	return cerr != nil || err == nil && n > 0 && poll[0].Revents&unix.POLLHUP != 0
}

// Waiting tells whether a packet can be received; false where the kernel does not
// tell, as that of gVisor. It is for the one who receives.
func (p *Packets) Waiting() bool {
	if p.untold {
		return false
	}
	n := int32(0)
	err := p.rc.Read(func(fd uintptr) bool {
		_, _, errno := unix.RawSyscall(unix.SYS_IOCTL, fd, unix.SIOCINQ, uintptr(unsafe.Pointer(&n)))
		p.untold = errno != 0
		return true
	})
	return err == nil && n > 0
}

// Send sends one message. It waits while the peer takes nothing, up to sendLimit.
func (p *Packets) Send(m *Message, fds ...int) error {
	return p.SendContext(context.Background(), m, fds...)
}

// SendContext implements ContextSender.
func (p *Packets) SendContext(ctx context.Context, m *Message, fds ...int) error {
	if err := take(ctx, p.turn); err != nil {
		return err
	}
	oob, err := p.encode(m, fds)
	if err != nil {
		p.done()
		return err
	}
	rest, err := p.sendFrom(ctx, p.out, oob)
	if errors.Is(err, ErrUnsent) && len(rest) < len(p.out) {
		// What has begun goes on, or the connection would be of no use.
		go func() {
			defer p.done()
			_, _ = p.sendFrom(context.Background(), rest, nil) // broken: so is what waits for the answer
		}()
		return fmt.Errorf("%w: %w", ErrSending, ctx.Err())
	}
	p.done()
	return err
}

func (p *Packets) done() {
	p.out = shrink(p.out, 0)
	<-p.turn
}

// sendFrom sends the packets of a message from b on, and returns what was not
// sent. The flag byte of each further packet overwrites the last byte of the one
// before it, which has been sent.
func (p *Packets) sendFrom(ctx context.Context, b, oob []byte) (rest []byte, err error) {
	for {
		n := min(len(b), maxPacket)
		b[0] = 0
		if n < len(b) {
			b[0] = 1
		}
		if err := p.sendPacket(ctx, b[:n], oob); err != nil {
			return b, err
		}
		if n == len(b) {
			return nil, nil
		}
		b, oob = b[maxPacket-1:], nil
	}
}

// TrySend is Send where that waits for nothing. If it is false without an error,
// nothing was sent.
func (p *Packets) TrySend(m *Message, fds ...int) (sent bool, err error) {
	select {
	case p.turn <- struct{}{}:
		defer p.done()
	default:
		return false, nil
	}
	oob, err := p.encode(m, fds)
	if err != nil || len(p.out) > maxPacket { // of several packets some could be sent
		return false, err
	}
	werr := p.rc.Write(func(fd uintptr) bool {
		for {
			if _, _, _, err = transfer(unix.SYS_SENDMSG, fd, p.out, oob, unix.MSG_NOSIGNAL); err != unix.EINTR {
				return true
			}
		}
	})
	if err == nil {
		err = werr
	}
	switch {
	case errors.Is(err, unix.EAGAIN):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("cannot send to the warden connection: %w", err)
	}
	return true, nil
}

// encode makes p.out the message after a byte for the flag. It is whose turn it is that calls it.
func (p *Packets) encode(m *Message, fds []int) (oob []byte, err error) {
	if len(fds) > MaxFiles {
		return nil, fmt.Errorf("cannot send %d descriptors, at most %d", len(fds), MaxFiles)
	}
	p.out = m.Append(append(p.out[:0], 0))
	if n := len(p.out) - 1; n > MaxMessage {
		return nil, fmt.Errorf("%w: %d bytes, more than %d", ErrMalformed, n, MaxMessage)
	}
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	return oob, nil
}

// sendLimit bounds how long a peer may take nothing. What it has been sent of a
// message by then is of no use: the connection is at its end.
// A variable for tests.
var sendLimit = 10 * time.Second

// sendPacket sends one packet, or nothing of it. The error is ErrUnsent if ctx
// ended while it waited.
func (p *Packets) sendPacket(ctx context.Context, b, oob []byte) error {
	var err error
	waited, cut := false, func() {}
	werr := p.rc.Write(func(fd uintptr) bool {
		for {
			_, _, _, err = transfer(unix.SYS_SENDMSG, fd, b, oob, unix.MSG_NOSIGNAL)
			switch {
			case err == unix.EINTR:
				continue
			case err == unix.EAGAIN && !waited:
				waited = true
				_ = p.f.SetWriteDeadline(time.Now().Add(sendLimit)) // closed: the wait ends
				cut = p.cutWith(ctx)
			}
			return err != unix.EAGAIN
		}
	})
	cut()
	if werr != nil && ctx.Err() != nil && errors.Is(werr, os.ErrDeadlineExceeded) {
		_ = p.f.SetWriteDeadline(time.Time{}) // closed: so be it
		return fmt.Errorf("%w: %w", ErrUnsent, ctx.Err())
	}
	if werr != nil {
		p.f.Close()
		return fmt.Errorf("cannot send to the warden connection: %w", werr)
	}
	if waited {
		_ = p.f.SetWriteDeadline(time.Time{}) // closed: so be it
	}
	if err != nil {
		return fmt.Errorf("cannot send to the warden connection: %w", err)
	}
	return nil
}

// cutWith ends the wait of a packet with ctx. What it returns is called after the
// wait.
func (p *Packets) cutWith(ctx context.Context) (over func()) {
	cut := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(cut)
		_ = p.f.SetWriteDeadline(time.Now()) // closed: the wait ends
	})
	return func() {
		if !stop() {
			<-cut // or the next packet had the deadline
		}
	}
}

// Recv returns the next message. io.EOF means that the peer closed.
func (p *Packets) Recv() (*Message, []int, error) {
	flag, body, fds, err := p.recvPacket()
	notPassed := errors.Is(err, ErrNotPassed)
	if notPassed {
		err = nil
	}
	if err == nil && flag == 1 {
		body, err = p.recvRest(body)
	}
	var m *Message
	if err == nil {
		m, err = Parse(body)
	}
	if err != nil {
		closeAll(fds)
		return nil, nil, err
	}
	if notPassed {
		return m, nil, ErrNotPassed
	}
	return m, fds, nil
}

// recvRest returns a message whose first packet was body, of several.
func (p *Packets) recvRest(body []byte) ([]byte, error) {
	whole := append([]byte(nil), body...)
	for {
		flag, body, fds, err := p.recvPacket()
		notPassed := errors.Is(err, ErrNotPassed)
		if err != nil && !notPassed {
			return nil, err
		}
		if notPassed || len(fds) > 0 || len(whole)+len(body) > MaxMessage {
			closeAll(fds)
			return nil, fmt.Errorf("%w: packet after packet", ErrMalformed)
		}
		whole = append(whole, body...)
		if flag == 0 {
			return whole, nil
		}
	}
}

// recvPacket reads one packet; body is valid until the next call. With ErrNotPassed
// there is a packet, and no descriptor of it.
func (p *Packets) recvPacket() (flag byte, body []byte, fds []int, err error) {
	var n, oobn, flags int
	reset := false
	rerr := p.rc.Read(func(fd uintptr) bool {
		for {
			n, oobn, flags, err = transfer(unix.SYS_RECVMSG, fd, p.in, p.oob, unix.MSG_CMSG_CLOEXEC)
			switch {
			case err == unix.EINTR:
			case err == unix.ECONNRESET && !reset:
				// The peer closed and left something of ours unread. The
				// kernel says so once, ahead of what the peer had sent.
				reset = true
			default:
				return err != unix.EAGAIN
			}
		}
	})
	switch {
	case rerr != nil:
		return 0, nil, nil, rerr
	case errors.Is(err, unix.ECONNRESET):
		return 0, nil, nil, io.EOF
	case err != nil:
		return 0, nil, nil, fmt.Errorf("cannot receive from the warden connection: %w", err)
	}
	fds, err = parseRights(p.oob[:oobn])
	switch {
	case err != nil:
	case n == 0:
		err = io.EOF
	case flags&unix.MSG_TRUNC != 0 || len(fds) > MaxFiles || p.in[0] > 1:
		err = fmt.Errorf("%w: packet", ErrMalformed)
	case flags&unix.MSG_CTRUNC != 0: // there is room for all that can be sent
		closeAll(fds)
		return p.in[0], p.in[1:n], nil, ErrNotPassed
	}
	if err != nil {
		closeAll(fds)
		return 0, nil, nil, err
	}
	return p.in[0], p.in[1:n], fds, nil
}

// transfer is sendmsg or recvmsg of one packet. It never waits, and so the
// runtime is not told of the system call: it would otherwise give this
// goroutine's turn to another thread whenever the peer, woken by a packet, runs
// first, which costs more than everything else here.
func transfer(trap, fd uintptr, b, oob []byte, flags int) (n, oobn, outFlags int, err error) {
	iov := unix.Iovec{Base: unsafe.SliceData(b)}
	iov.SetLen(len(b))
	msg := unix.Msghdr{Iov: &iov}
	msg.SetIovlen(1)
	msg.Control = unsafe.SliceData(oob)
	msg.SetControllen(len(oob))
	r, _, errno := unix.RawSyscall(trap, fd, uintptr(unsafe.Pointer(&msg)), uintptr(flags|unix.MSG_DONTWAIT))
	if errno != 0 {
		return 0, 0, 0, errno
	}
	return int(r), int(msg.Controllen), int(msg.Flags), nil
}

func parseRights(oob []byte) ([]int, error) {
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, fmt.Errorf("%w: control message: %w", ErrMalformed, err)
	}
	var fds []int
	for i := range msgs {
		got, err := unix.ParseUnixRights(&msgs[i])
		if err != nil {
			return fds, fmt.Errorf("%w: control message: %w", ErrMalformed, err)
		}
		fds = append(fds, got...)
	}
	return fds, nil
}

func closeAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}
