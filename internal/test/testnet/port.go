package testnet

import (
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// FreePort returns a port of 127.0.0.1 on which nothing listens. It is outside of
// the range from which systems choose ports themselves (Linux: from 32768; others:
// from 49152), so no other program gets it by chance before it is used.
func FreePort(tb testing.TB) int {
	tb.Helper()
	for range 1000 {
		port := 10_000 + rand.IntN(20_000)
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			continue
		}
		if err := l.Close(); err != nil {
			tb.Fatal(err)
		}
		return port
	}
	tb.Fatal("no port is free")
	return 0
}
