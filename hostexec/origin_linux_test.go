package hostexec_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/hostexec"
	"github.com/corral-exec/corral/internal/origin"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/internal/test/wardenbintest"
)

// Whose a process is, and what it was begun as, the next life knows, while it
// runs and after.
func TestOrigin(t *testing.T) {
	cfg := hostexec.Config{StateDir: filepath.Join(testdir.New(t), "state"), WardenPath: wardenbintest.Build(t)}
	open := func() *hostexec.Executor {
		e, err := hostexec.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	e := open()
	long := "x" + strings.Repeat("\x01é", 20_000)
	want := map[string]*origin.Origin{}
	for id, c := range map[string]struct {
		agent string
		cmd   corral.Command
		want  *origin.Origin
	}{
		"runs":   {"ops", corral.Command{Shell: "sleep 60", TTY: &corral.Size{}, Grace: time.Second}, &origin.Origin{Agent: "ops", Command: "sleep 60", TTY: true, Grace: time.Second}},
		"ended":  {"main", corral.Command{Args: []string{"echo", "a b"}, Stdin: true, MergeStderr: true}, &origin.Origin{Agent: "main", Command: "echo a b", Stdin: true, Merged: true}},
		"nobody": {"", corral.Command{Shell: "true"}, nil},
		"long":   {"ops", corral.Command{Args: []string{"true", long}}, &origin.Origin{Agent: "ops", Command: ("true " + long)[:511] + "…"}},
	} {
		ctx := t.Context()
		if c.agent != "" {
			ctx = corral.WithAgent(ctx, c.agent)
		}
		c.cmd.ID = id
		p, err := e.Start(ctx, c.cmd)
		if err != nil {
			t.Fatalf("%s: %v", id, err)
		}
		if diff := cmp.Diff(c.want, origin.Of(p)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", id, diff)
		}
		if id != "runs" {
			if _, err := p.Wait(t.Context()); err != nil {
				t.Error(err)
			}
		}
		want[id] = c.want
	}
	if n := e.Running(); n != 1 {
		t.Errorf("%d processes run", n)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	e = open()
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	for id, want := range want {
		p, err := e.Attach(t.Context(), id)
		if err != nil {
			t.Fatalf("%s: %v", id, err)
		}
		if diff := cmp.Diff(want, origin.Of(p)); diff != "" {
			t.Errorf("%s, in the next life (-want +got):\n%s", id, diff)
		}
		if id == "runs" {
			if err := p.Signal(t.Context(), corral.SIGKILL); err != nil {
				t.Error(err)
			}
			if _, err := p.Wait(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
}
