package e2b

import (
	"errors"
	"fmt"
	"io"
	"net/http"
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
	u, err := openUploads(filepath.Join(t.TempDir(), "uploads"))
	if err != nil {
		t.Fatal(err)
	}
	put := func(agent, hash string) error { return u.put(agent, hash, strings.NewReader("content")) }
	alone := func() {
		t.Helper()
		if left, err := filepath.Glob(filepath.Join(u.dir, "*.part")); err != nil || len(left) > 0 || len(u.sending) > 0 {
			t.Errorf("%v are left, %v: %v", left, u.sending, err)
		}
	}
	if err := errors.Join(put("a", "large"), put("a", "small")); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(u.file("a", "large"), maxUploads-uploadStep-100); err != nil { // a hole
		t.Fatal(err)
	}
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(u.file("a", "large"), old, old); err != nil {
		t.Fatal(err)
	}
	if u, err = openUploads(u.dir); err != nil { // which counts again
		t.Fatal(err)
	}
	from, client := io.Pipe()
	sent := make(chan error)
	go func() { sent <- u.put("b", "slow", from) }()
	fmt.Fprint(client, "first")
	if !u.has("a", "large") {
		t.Error("an archive gave way although there was room")
	}
	if err := put("a", "another"); err != nil || u.has("a", "large") || !u.has("a", "small") {
		t.Errorf("beside what is being sent there is %v, %v: %v", u.has("a", "large"), u.has("a", "small"), err)
	}
	client.Close()
	if err := <-sent; err != nil || !u.has("b", "slow") {
		t.Error(err)
	}
	alone()

	// Agents send as much as they may, one after the other.
	for i, agent := range []string{"a", "b"} {
		if err := u.take(agent, maxSending); err != nil {
			t.Fatal(err)
		}
		if err := put(agent, "more"); !errors.Is(err, api.ErrTooMany) {
			t.Errorf("%s sends more than it may: %v", agent, err)
		} else if status, message := Status(err); status != http.StatusTooManyRequests || !strings.Contains(message, "2048 MiB for the agent "+agent) {
			t.Errorf("%d: %s", status, message)
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
	if err := u.put("a", "cut", iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader("content")))); err == nil || u.has("a", "cut") {
		t.Errorf("one that was cut is kept: %v", err)
	}
	alone()
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// An archive that has no end is refused when another step of it has no room.
func TestSendingWithoutEnd(t *testing.T) {
	u, err := openUploads(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := u.take("a", maxSending-3*uploadStep); err != nil {
		t.Fatal(err)
	}
	n, taken, err := u.receive("a", io.Discard, endless{})
	if n != 3*uploadStep || taken != n || !errors.Is(err, api.ErrTooMany) {
		t.Errorf("%d, %d: %v", n, taken, err)
	}
	clear(u.sending)
	if n, _, err := u.receive("a", io.Discard, endless{}); n > maxUpload+uploadStep || err == nil || errors.Is(err, api.ErrTooMany) {
		t.Errorf("%d bytes: %v", n, err)
	}
}
