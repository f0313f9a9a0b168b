package natstest

import (
	"testing"

	"github.com/nats-io/nkeys"
)

// NewKey makes a key, and its public half.
func NewKey(tb testing.TB) (nkeys.KeyPair, string) {
	tb.Helper()
	k, err := nkeys.CreateUser()
	if err != nil {
		tb.Fatal(err)
	}
	public, err := k.PublicKey()
	if err != nil {
		tb.Fatal(err)
	}
	return k, public
}
