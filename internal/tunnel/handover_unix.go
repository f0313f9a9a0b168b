//go:build unix

package tunnel

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
)

// HandOver sends a connection itself to another program, over a Unix socket. That program
// has it then; the caller still has to close its own.
func HandOver(over *net.UnixConn, c syscall.Conn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var sent error
	err = raw.Control(func(fd uintptr) {
		_, _, sent = over.WriteMsgUnix([]byte{0}, syscall.UnixRights(int(fd)), nil)
	})
	return errors.Join(err, sent)
}

// Receive takes the connection that HandOver sent. Anything else is an error: the sender
// need not be a friend.
func Receive(over *net.UnixConn) (Conn, error) {
	space := make([]byte, syscall.CmsgSpace(4*4)) // for more than one descriptor, so that all are seen and closed
	n, used, flags, _, err := over.ReadMsgUnix(make([]byte, 1), space)
	if err != nil {
		return nil, err
	}
	files, err := received(space[:used])
	defer func() {
		for _, f := range files {
			_ = f.Close() // the connection has a duplicate
		}
	}()
	switch {
	case err != nil:
		return nil, err
	case n != 1 || flags&syscall.MSG_CTRUNC != 0 || len(files) != 1:
		return nil, fmt.Errorf("%d bytes and %d descriptors came, and not a connection", n, len(files))
	}
	c, err := net.FileConn(files[0])
	if err != nil {
		return nil, fmt.Errorf("what came is no connection: %w", err)
	}
	conn, ok := c.(Conn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("what came is no stream: %T", c), c.Close())
	}
	return conn, nil
}

// received are the descriptors that came with a message.
func received(control []byte) (files []*os.File, err error) {
	messages, err := syscall.ParseSocketControlMessage(control)
	if err != nil {
		return nil, err
	}
	for _, m := range messages {
		fds, err := syscall.ParseUnixRights(&m)
		if err != nil {
			return files, err
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "received"))
		}
	}
	return files, nil
}
