package archives

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/corral-exec/corral/api"
)

// What is being sent counts: archives that are kept give way to it, and when too much is
// sent at a time, more is refused.
func TestSending(t *testing.T) {
	u, err := Open(filepath.Join(t.TempDir(), "uploads"))
	if err != nil {
		t.Fatal(err)
	}
	put := func(agent, hash string) error { return u.Put(agent, hash, strings.NewReader("content")) }
	alone := func() {
		t.Helper()
		if left, err := filepath.Glob(filepath.Join(u.dir, "*.part")); err != nil || len(left) > 0 || len(u.sending) > 0 {
			t.Errorf("%v are left, %v: %v", left, u.sending, err)
		}
	}
	if err := errors.Join(put("a", "large"), put("a", "small")); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(u.File("a", "large"), maxKept-step-least-100); err != nil { // a hole
		t.Fatal(err)
	}
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(u.File("a", "large"), old, old); err != nil {
		t.Fatal(err)
	}
	if u, err = Open(u.dir); err != nil { // which counts again
		t.Fatal(err)
	}
	from, client := io.Pipe()
	sent := make(chan error)
	go func() { sent <- u.Put("b", "slow", from) }()
	fmt.Fprint(client, "first")
	if !u.Has("a", "large") {
		t.Error("an archive gave way although there was room")
	}
	if err := put("a", "another"); err != nil || u.Has("a", "large") || !u.Has("a", "small") {
		t.Errorf("beside what is being sent there is %v, %v: %v", u.Has("a", "large"), u.Has("a", "small"), err)
	}
	client.Close()
	if err := <-sent; err != nil || !u.Has("b", "slow") {
		t.Error(err)
	}
	alone()

	// Agents send as much as they may, one after the other.
	for i, agent := range []string{"a", "b"} {
		if err := u.take(agent, maxSending); err != nil {
			t.Fatal(err)
		}
		if err := put(agent, "more"); !errors.Is(err, api.ErrTooMany) || !strings.Contains(err.Error(), "2048 MiB for the agent "+agent) {
			t.Errorf("%s sends more than it may: %v", agent, err)
		}
		if err := put("c", "x"); errors.Is(err, api.ErrTooMany) != (i == 1) {
			t.Errorf("when others send %d times as much as one may: %v", i+1, err)
		}
	}
	clear(u.sending)
	alone()
	if err := put("a", "more"); err != nil {
		t.Error(err)
	}
	if err := u.Put("a", "cut", iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader("content")))); err == nil || u.Has("a", "cut") {
		t.Errorf("one that was cut is kept: %v", err)
	}
	alone()
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// An archive that has no end is refused when another step of it has no room.
func TestSendingWithoutEnd(t *testing.T) {
	u, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := u.take("a", maxSending-3*step); err != nil {
		t.Fatal(err)
	}
	n, taken, err := u.receive("a", io.Discard, endless{})
	if n != 3*step || taken != n || !errors.Is(err, api.ErrTooMany) {
		t.Errorf("%d, %d: %v", n, taken, err)
	}
	clear(u.sending)
	if n, _, err := u.receive("a", io.Discard, endless{}); n > maxArchive+step || err == nil || errors.Is(err, api.ErrTooMany) {
		t.Errorf("%d bytes: %v", n, err)
	}
}

// New archives take the place of the oldest, and what was not sent as a whole is gone.
func TestUploads(t *testing.T) {
	u, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for i, hash := range []string{"1", "2", "3"} {
		if err := u.Put("a", hash, strings.NewReader("content")); err != nil || !u.Has("a", hash) || u.Has("b", hash) {
			t.Errorf("%s: %v", hash, err)
		}
		at := time.Now().Add(time.Duration(i-10) * time.Minute)
		if err := os.Chtimes(u.File("a", hash), at, at); err != nil {
			t.Fatal(err)
		}
	}
	if err := u.room(maxKept - least); err != nil || u.Has("a", "1") || u.Has("a", "2") || !u.Has("a", "3") {
		t.Errorf("the newest is to stay: %v", err)
	}
	if err := os.WriteFile(filepath.Join(u.dir, "x.part"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(u.dir); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(u.dir, "*.part")); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
}

// Who sends much, or many, makes room for it at the cost of what is its own.
func TestRoomOfOthers(t *testing.T) {
	u, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	at := time.Now().Add(-time.Hour)
	for i, of := range []string{"quiet 1", "busy 1", "busy 2", "busy 3", "quiet 2"} {
		agent, hash, _ := strings.Cut(of, " ")
		if err := u.Put(agent, hash, strings.NewReader("")); err != nil {
			t.Fatal(err)
		}
		at := at.Add(time.Duration(i) * time.Minute)
		if err := os.Chtimes(u.File(agent, hash), at, at); err != nil {
			t.Fatal(err)
		}
	}
	if err := u.room(maxKept - 4*least); err != nil {
		t.Fatal(err)
	}
	if !u.Has("quiet", "1") || u.Has("busy", "1") || !u.Has("busy", "2") || !u.Has("busy", "3") || !u.Has("quiet", "2") {
		t.Error("the oldest of the agent that has most is to give way")
	}
}
