package wardenexec

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/corral-exec/corral/internal/warden/wire"
)

// What dials from gVisor is the warden if it knows the secret that the first one had.
func TestCheckSecret(t *testing.T) {
	first, other := bytes.Repeat([]byte{1}, wire.SecretSize), bytes.Repeat([]byte{2}, wire.SecretSize)
	says := func(secret []byte) func(wire.Conn) error {
		return func(c wire.Conn) error { return c.Send(&wire.Message{Type: wire.Identify, Tag: secret}) }
	}
	file := filepath.Join(t.TempDir(), "secret")
	for _, tc := range []struct {
		name  string
		begin func(wire.Conn) error
		ok    bool
	}{
		{"nothing", func(c wire.Conn) error { return c.Close() }, false},
		{"no secret", says(nil), false},
		{"a short one", says(first[1:]), false},
		{"another message", func(c wire.Conn) error { return c.Send(&wire.Message{Type: wire.Hello, Tag: first}) }, false},
		{"the first", says(first), true},
		{"again", says(first), true},
		{"another secret", says(other), false},
		{"a longer one", says(append(first[:wire.SecretSize:wire.SecretSize], 1)), false},
		{"silence", func(wire.Conn) error { return nil }, false},
	} {
		ours, theirs, err := wire.PacketPair()
		if err != nil {
			t.Fatal(err)
		}
		if err := tc.begin(theirs); err != nil {
			t.Fatal(err)
		}
		if err := checkSecret(ours, file); (err == nil) != tc.ok {
			t.Errorf("%s: %v", tc.name, err)
		}
		ours.Close()
		theirs.Close() // it may be closed
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}
