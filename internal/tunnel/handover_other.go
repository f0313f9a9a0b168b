//go:build !unix

package tunnel

import (
	"errors"
	"net"
	"syscall"
)

// HandOver is errors.ErrUnsupported here.
func HandOver(*net.UnixConn, syscall.Conn) error { return errors.ErrUnsupported }

// Receive is errors.ErrUnsupported here.
func Receive(*net.UnixConn) (Conn, error) { return nil, errors.ErrUnsupported }
