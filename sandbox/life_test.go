package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/runner"
	"github.com/corral-exec/corral/sandbox/engine"
)

func TestLastLines(t *testing.T) {
	for _, tc := range []struct {
		of   runner.Excerpt
		want string
	}{
		{runner.Excerpt{}, ""},
		{runner.Excerpt{Head: "one\n\n  two \r\n\x1b[31mthree\x1b[m"}, "one | two | three"},
		{runner.Excerpt{Head: "1\n2\n3\n4\n5\n6\n"}, "2 | 3 | 4 | 5 | 6"},
		{runner.Excerpt{Head: "head\n", Tail: "tail\n", Omitted: 7}, "tail"},
	} {
		if got := lastLines(tc.of); got != tc.want {
			t.Errorf("%+v: %q, want %q", tc.of, got, tc.want)
		}
	}
	if got := lastLines(runner.Excerpt{Head: strings.Repeat("ä", quotedBytes)}); len(got) > quotedBytes+3 {
		t.Errorf("%d bytes are quoted", len(got))
	}
}

// wordy is an engine whose containers have all ended.
type wordy struct {
	engine.Engine
	info    engine.Info // none: as the records that made makes
	c       engine.Container
	err     error
	removed []string
}

func (e *wordy) Info(context.Context) (engine.Info, error) { return e.info, nil }

func (e *wordy) Inspect(context.Context, string) (engine.Container, error) { return e.c, e.err }

func (e *wordy) Remove(_ context.Context, name string) error {
	e.removed = append(e.removed, name)
	return nil
}

func made(t *testing.T, state, name string, n int) boxRecord {
	t.Helper()
	if err := os.MkdirAll(sandboxDir(state, name), 0o700); err != nil {
		t.Fatal(err)
	}
	rec := boxRecord{
		Version: storeVersion, Sandbox: name, Box: Box{
			ID: fmt.Sprintf("%s%08d", boxPrefix(name), n), Container: fmt.Sprintf("corral-%d", n), Image: "i", Driver: DriverFDs,
			Created: time.Date(2026, 1, 1, 0, n, 0, 0, time.UTC), Pooled: n%2 == 1, Description: Description{Access: AccessNone, Limits: Limits{Memory: 7}},
		},
	}
	if err := saveBox(state, rec); err != nil {
		t.Fatal(err)
	}
	return rec
}

// What is known of a container is kept when it is removed: of the last few.
func TestLives(t *testing.T) {
	state := filepath.Join(testdir.New(t), "[state]") // also of a name that could be a pattern
	if _, err := Lives(state, "main"); !errors.Is(err, corral.ErrNotFound) {
		t.Errorf("of none: %v", err)
	}
	engine := &wordy{c: engine.Container{Exit: 137, OOM: true, Error: "no memory"}}
	for n := range maxHistory + 3 {
		rec := made(t, state, "main", n)
		dir := boxDir(state, rec.ID)
		if err := os.WriteFile(filepath.Join(dir, setupLogFile), fmt.Appendf(nil, "wrote %d", n), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := noteLife(dir, func(l *life) { l.Setup = &SetupRun{Exit: "exit code 3", Failed: true, Output: 7} }); err != nil {
			t.Fatal(err)
		}
		if err := removeBox(t.Context(), engine, state, rec); err != nil {
			t.Fatal(err)
		}
	}
	if err := saveSandbox(state, sandboxRecord{Version: storeVersion, Name: "main", Boxes: []string{}}, false); err != nil {
		t.Fatal(err)
	}
	// Of one that is being removed, something may be gone already.
	made(t, state, "main", maxHistory+2)
	now := made(t, state, "main", 50)
	lives, err := Lives(state, "main")
	if err != nil || len(lives) != maxHistory+1 {
		t.Fatalf("%d lives, %v", len(lives), err)
	}
	first, last := lives[0], lives[maxHistory]
	if first.Container != "corral-3" || !first.Pooled || first.Limits.Memory != 7 || first.Setup == nil || first.Setup.Exit != "exit code 3" || first.Ended == nil || first.Ended.Code != 137 || !first.Ended.OOM || first.Ended.Error != "no memory" {
		t.Errorf("the first is %+v", first)
	}
	if l := lives[maxHistory-1]; l.Setup == nil || l.Ended == nil {
		t.Errorf("the one that is being removed is %+v", l)
	}
	if last.ID != now.ID || last.Setup != nil || last.Ended != nil {
		t.Errorf("the last is %+v", last)
	}
	if log, err := SetupLog(state, "main", first.ID); err != nil || string(log) != "wrote 3" {
		t.Errorf("the log is %q, %v", log, err)
	}
	if log, err := SetupLog(state, "main", now.ID); err != nil || len(log) > 0 {
		t.Errorf("without a setup command the log is %q, %v", log, err)
	}
	for _, id := range []string{"", "../main", "a/b"} {
		if _, err := SetupLog(state, "main", id); !errors.Is(err, corral.ErrInvalid) {
			t.Errorf("%q: %v", id, err)
		}
	}
	if left, err := glob(filepath.Join(sandboxDir(state, "main"), historyDir), "*.log"); err != nil || len(left) != maxHistory {
		t.Errorf("logs %v, %v", left, err)
	}
}

// What is known of a container stays known when it is removed again: by this program, that
// has it open, or by another.
func TestRemovedTwice(t *testing.T) {
	state := testdir.New(t)
	rec := made(t, state, "main", 1)
	if err := saveSandbox(state, sandboxRecord{Version: storeVersion, Name: "main", Boxes: []string{}}, false); err != nil {
		t.Fatal(err)
	}
	wordy := &wordy{c: engine.Container{Exit: 3}}
	for range 2 {
		if err := removeBox(t.Context(), wordy, state, rec); err != nil {
			t.Fatal(err)
		}
		wordy.err = engine.ErrNoContainer
		lives, err := Lives(state, "main")
		if err != nil || len(lives) != 1 || lives[0].Ended == nil || lives[0].Ended.Code != 3 {
			t.Errorf("%+v, %v", lives, err)
		}
	}
}

// What is damaged is said to be, and in the way of nothing.
func TestDamagedLife(t *testing.T) {
	state := testdir.New(t)
	rec := made(t, state, "main", 1)
	if err := os.WriteFile(filepath.Join(boxDir(state, rec.ID), lifeFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := saveSandbox(state, sandboxRecord{Version: storeVersion, Name: "main", Boxes: []string{rec.ID}}, false); err != nil {
		t.Fatal(err)
	}
	if _, err := Lives(state, "main"); err == nil {
		t.Error("it was read")
	}
	if err := removeBox(t.Context(), &wordy{err: engine.ErrNoContainer}, state, rec); err != nil {
		t.Error(err)
	}
	lives, err := Lives(state, "main")
	if err != nil || len(lives) != 1 || !strings.Contains(lives[0].Error, "damaged") {
		t.Errorf("%+v, %v", lives, err)
	}
	if err := os.WriteFile(filepath.Join(sandboxDir(state, "main"), historyDir, rec.ID+".json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if lives, err = Lives(state, "main"); err != nil || len(lives) != 1 || lives[0].ID != rec.ID || lives[0].Error == "" {
		t.Errorf("%+v, %v", lives, err)
	}
}

// Of a pool's containers there is no sandbox to remember.
func TestUnclaimedHasNoHistory(t *testing.T) {
	state := testdir.New(t)
	rec := made(t, state, "main", 1)
	rec.Sandbox = ""
	if err := removeBox(t.Context(), &wordy{}, state, rec); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(sandboxDir(state, "main"), historyDir)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("there is a history: %v", err)
	}
}

// A box that an earlier version made is read.
func TestOldBoxRecord(t *testing.T) {
	var rec boxRecord
	old := `{"version":1,"id":"main-1","sandbox":"main","container":"c","engine":"docker","image":"i","hash":"h","warden":"w","driver":"fds","workspace":"w1","created":"2026-01-02T03:04:05Z"}`
	if err := json.Unmarshal([]byte(old), &rec); err != nil {
		t.Fatal(err)
	}
	b := rec.box()
	if b.Container != "c" || b.Pooled || b.Access != "" || b.Limits != (Limits{}) {
		t.Errorf("%+v", b)
	}
	if again, err := json.Marshal(b); err != nil || bytes.Contains(again, []byte("limits")) {
		t.Errorf("%s, %v", again, err)
	}
}

func TestSetupCommandIsChecked(t *testing.T) {
	for text, ok := range map[string]bool{"true": true, " \n": false, "a\x00b": false, strings.Repeat("x", corral.MaxCommandBytes+1): false} {
		c := Config{Engine: noEngine{}, StateDir: "/var/lib/corral", Isolation: Isolation{User: "1000:1000"}, SetupCommand: text}
		if _, err := c.Hash(); (err == nil) != ok || err != nil && !errors.Is(err, corral.ErrInvalid) {
			t.Errorf("%.10q: %v", text, err)
		}
	}
}
