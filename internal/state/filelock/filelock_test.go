package filelock

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestLock(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	open := func() *os.File {
		t.Helper()
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	locked := func(f *os.File) {
		t.Helper()
		if err := TryLock(f); !errors.Is(err, ErrLocked) {
			t.Errorf("it can be locked: %v", err)
		}
	}
	a, b, c := open(), open(), open()
	must(TryLock(a))
	locked(b)
	must(Share(a)) // and is alone no more
	must(Share(b))
	locked(c)
	a.Close()
	must(Lock(b)) // by whom it was shared
	locked(c)

	// Who waits gets it when it is closed.
	got := make(chan error)
	go func() { got <- Lock(c) }()
	select {
	case err := <-got:
		t.Fatalf("two have it: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	if _, err := c.WriteString("not kept from writing"); err != nil {
		t.Error(err)
	}
	b.Close()
	must(<-got)

	// To keep it is worth to wait for a moment.
	d := open()
	closed := make(chan struct{})
	go func() { defer close(closed); time.Sleep(50 * time.Millisecond); c.Close() }()
	must(Own(d))
	<-closed
	if err := Own(open()); !errors.Is(err, ErrLocked) {
		t.Errorf("two keep it: %v", err)
	}
	if err := TryLock(c); err == nil || errors.Is(err, ErrLocked) {
		t.Errorf("what is closed: %v", err)
	}
}
