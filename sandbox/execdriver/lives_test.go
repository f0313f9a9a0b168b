package execdriver

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/warden/wardenexec"
)

func TestExecDriverSameID(t *testing.T) {
	e := &fakeEngine{}
	dir := t.TempDir()
	d := fakeDriver(t, e, dir)
	cmd := named("id", "say", "out", "err")
	first := mustWait(t, mustStart(t, d, cmd))
	again := func(d *Driver) {
		t.Helper()
		p := mustStart(t, d, cmd)
		if exit := mustWait(t, p); !reflect.DeepEqual(exit, first) {
			t.Errorf("exit %+v, not %+v", exit, first)
		}
		if got := output(t, p); got != "<1>out<2>err" {
			t.Errorf("output %q", got)
		}
		if _, err := d.Start(t.Context(), named("id", "exit", "0")); !errors.Is(err, corral.ErrConflict) {
			t.Errorf("another command: %v", err)
		}
		if e.runs() != 1 {
			t.Errorf("%d runs", e.runs())
		}
	}
	again(d)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	again(fakeDriver(t, e, dir))
}

func TestExecDriverClose(t *testing.T) {
	e := &fakeEngine{}
	dir := t.TempDir()
	d := fakeDriver(t, e, dir)
	cmd := named("id", "sleep")
	p := mustStart(t, d, cmd)
	for range 2 {
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := p.Wait(t.Context()); !errors.Is(err, corral.ErrLost) {
		t.Errorf("Wait: %v", err)
	}
	if _, err := d.Start(t.Context(), cmd); !errors.Is(err, corral.ErrUnavailable) {
		t.Errorf("Start: %v", err)
	}
	if _, err := d.Attach(t.Context(), "id"); !errors.Is(err, corral.ErrUnavailable) {
		t.Errorf("Attach: %v", err)
	}

	d = fakeDriver(t, e, dir)
	p, err := d.Attach(t.Context(), "id")
	if err != nil {
		t.Fatal(err)
	}
	_, werr := p.Wait(t.Context())
	_, perr := p.Write(t.Context(), []byte("x"))
	for what, err := range map[string]error{
		"Wait": werr, "Write": perr, "CloseStdin": p.CloseStdin(t.Context()),
		"Signal": p.Signal(t.Context(), corral.SIGTERM), "Resize": p.Resize(t.Context(), corral.DefaultSize),
	} {
		if !errors.Is(err, corral.ErrLost) || !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s in the next life: %v", what, err)
		}
	}
	mustStart(t, d, cmd)
	if e.runs() != 1 {
		t.Error("what is lost was run again")
	}
}

func TestExecDriverRemove(t *testing.T) {
	dir := t.TempDir()
	d := fakeDriver(t, &fakeEngine{}, dir)
	old := mustStart(t, d, named("id", "say", "a", "b"))
	mustWait(t, old)
	if err := old.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	p := mustStart(t, d, named("id", "exit", "2"))
	mustWait(t, p)
	if err := old.Remove(t.Context()); err != nil { // the ID is another's by now
		t.Error(err)
	}
	if q, err := d.Attach(t.Context(), "id"); err != nil || mustWait(t, q).Code != 2 {
		t.Errorf("removed with an older process: %v", err)
	}
}

func TestExecDriverRecords(t *testing.T) {
	dir := t.TempDir()
	d := fakeDriver(t, &fakeEngine{}, dir)
	for _, id := range []string{"old", "new", "bad"} {
		mustWait(t, mustStart(t, d, named(id, "say", "a", "b")))
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "bad.json"), []byte(`{"info":`), 0o600); err != nil {
		t.Fatal(err)
	}
	past := time.Now().Add(-wardenexec.Retain - time.Hour)
	if err := os.Chtimes(filepath.Join(dir, "old.json"), past, past); err != nil {
		t.Fatal(err)
	}
	d = fakeDriver(t, &fakeEngine{}, dir)
	if _, err := d.Attach(t.Context(), "new"); err != nil {
		t.Error(err)
	}
	if _, err := d.Attach(t.Context(), "old"); !errors.Is(err, corral.ErrNotFound) {
		t.Errorf("older than is kept: %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "old*")); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	_, aerr := d.Attach(t.Context(), "bad")
	_, serr := d.Start(t.Context(), named("bad", "say", "a", "b"))
	for _, err := range []error{aerr, serr} {
		if err == nil || errors.Is(err, corral.ErrNotFound) || !strings.Contains(err.Error(), "damaged") {
			t.Errorf("damaged: %v", err)
		}
	}
}
