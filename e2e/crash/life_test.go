//go:build e2e

package crash_test

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// A life is one gateway, from its start to its kill.
type life struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdin  io.Closer
	stderr bytes.Buffer
	began  time.Time
	ready  chan struct{}
	over   chan struct{} // everything it told was read

	mu     sync.Mutex
	events []event
}

func begin(t *testing.T, sc script) *life {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	l := &life{t: t, cmd: exec.Command(exe), began: time.Now(), ready: make(chan struct{}), over: make(chan struct{})}
	l.cmd.Env = child("gateway")
	l.cmd.Stderr = &l.stderr
	in, err := l.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	l.stdin = in
	out, err := l.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := l.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go l.listen(out)
	if err := json.NewEncoder(in).Encode(sc); err != nil {
		l.kill()
		t.Fatalf("the gateway takes no script: %v", err)
	}
	return l
}

func (l *life) listen(out io.Reader) {
	defer close(l.over)
	for dec := json.NewDecoder(out); ; {
		var e event
		if dec.Decode(&e) != nil {
			return // it was killed, perhaps within a line
		}
		if e.What == "ready" {
			close(l.ready)
			continue
		}
		l.mu.Lock()
		l.events = append(l.events, e)
		l.mu.Unlock()
	}
}

// await waits until everything of the script was started or found.
func (l *life) await() {
	l.t.Helper()
	select {
	case <-l.ready:
	case <-l.over:
		l.kill()
		l.t.Fatal("the gateway died by itself")
	case <-time.After(time.Minute):
		l.kill()
		l.t.Fatal("the gateway is not ready after a minute")
	}
}

// kill kills the gateway, and returns what it told.
func (l *life) kill() []event {
	l.t.Helper()
	if err := l.cmd.Process.Kill(); err != nil {
		l.t.Errorf("the gateway died by itself: %v", err)
	}
	<-l.over
	_ = l.cmd.Wait() // it was killed
	_ = l.stdin.Close()
	if text := l.stderr.String(); strings.Contains(text, "DATA RACE") || strings.Contains(text, "panic:") || strings.Contains(text, "gateway:") {
		l.t.Errorf("the gateway says:\n%s", text)
	}
	return l.events
}

// told reports whether the gateway has said that of a command.
func (l *life) told(what, id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.events {
		if e.What == what && e.ID == id {
			return true
		}
	}
	return false
}
