// Package sumserver answers connections with the sum of what came, for tests of
// connections whose directions end one after the other.
package sumserver

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"testing"
)

// Serve answers each connection, when the other side has ended what it sends, with the
// SHA-256 of that in hexadecimal. It ends with the listener.
func Serve(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			sum := sha256.New()
			if _, err := io.Copy(sum, conn); err == nil {
				fmt.Fprintf(conn, "%x", sum.Sum(nil))
			}
		}()
	}
}

// Port serves on a port of this machine until the test ends.
func Port(t testing.TB) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go Serve(l)
	return l.Addr().(*net.TCPAddr).Port
}
