package testnet

import (
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"testing"
)

// given are ports that tests of this program have.
var given sync.Map

// FreePort returns a port of 127.0.0.1 on which nothing listens. It is outside of
// the range from which systems choose ports themselves (Linux: from 32768; others:
// from 49152), so no other program gets it by chance before it is used, and
// none is returned twice.
func FreePort(tb testing.TB) int {
	tb.Helper()
	for range 1000 {
		port := 10_000 + rand.IntN(20_000)
		if _, taken := given.LoadOrStore(port, true); taken {
			continue
		}
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
