//go:build e2e && linux

package sandbox_test

import (
	"errors"
	"testing"
	"time"

	"github.com/corral-exec/corral"
)

// A container ends when it was told to, with what runs in it, also when no program is
// left that has it; the next command gets another.
func TestEndAfter(t *testing.T) {
	b := newBench(t)
	e := b.open(nil)
	if err := e.EndAfter(t.Context(), time.Second); !errors.Is(err, corral.ErrNotFound) {
		t.Errorf("without a container: %v", err)
	}
	begin(t, e, "long", "sleep 1000")
	for _, after := range []time.Duration{time.Millisecond * 300, 0} {
		if err := e.EndAfter(t.Context(), after); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(500 * time.Millisecond)
	if p, err := e.Attach(t.Context(), "long"); err != nil || len(running(b)) != 1 {
		t.Fatalf("%v, %v: it ended although that was taken back", p, err)
	}
	if err := e.EndAfter(t.Context(), time.Second); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(10 * time.Second); len(running(b)) > 0; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%v run", running(b))
		}
	}
	e = b.open(nil)
	p, err := e.Attach(t.Context(), "long")
	if err == nil {
		_, err = p.Wait(t.Context())
	}
	if !errors.Is(err, corral.ErrLost) {
		t.Errorf("what ran in it: %v", err)
	}
	begin(t, e, "next", "true")
}

// running are the containers that run.
func running(b *bench) (names []string) {
	for name, runs := range b.containers() {
		if runs {
			names = append(names, name)
		}
	}
	return names
}
