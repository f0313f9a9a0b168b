//go:build !linux

package wardenexec

import (
	"errors"
	"net"
)

// newPortConn is not reached: no descriptor is passed here.
func newPortConn(int, int) (net.Conn, error) { return nil, errors.ErrUnsupported }
