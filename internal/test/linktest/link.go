// Package linktest makes links to message servers for tests.
package linktest

import (
	"context"
	"errors"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/corral-exec/corral/internal/fleet/fabric"
)

// Over is a link of one connection, which is closed with the test. When that is closed
// there is no other.
func Over(tb testing.TB, conn *nats.Conn) *fabric.Link {
	tb.Helper()
	l, err := fabric.Connect(context.Background(), func(nats.Option) (*nats.Conn, error) {
		if conn == nil {
			return nil, errors.New("the test has one connection")
		}
		defer func() { conn = nil }()
		return conn, nil
	}, func(error) {})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(l.Close)
	return l
}
