package daemon

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/test/fakeexec"
	"github.com/corral-exec/corral/sandbox"
)

// closable are hosts whose configuration can be made unusable.
func closable(t *testing.T, text string) (h *hosts, damage func()) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.json5")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(text)
	b := (&fakeMachine{}).backends()
	h, err := openHosts(&Options{Backends: b, Config: ConfigFile{Path: file, Named: true}, Log: slog.New(slog.DiscardHandler)}, t.TempDir(), false, alone)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h, func() { write("{") }
}

// What is old is not known while the configuration cannot be read: the default would
// remove what is to be kept for ever.
func TestClosedPrunesNothing(t *testing.T) {
	h, damage := closable(t, `{sandbox: {prune: {idleHours: 0, maxAgeDays: 0}}}`)
	if got := h.pruning("main", "main"); got != (sandbox.PruneOptions{}) {
		t.Fatalf("as configured: %+v", got)
	}
	damage()
	if got := h.pruning("main", "main"); got != (sandbox.PruneOptions{}) {
		t.Errorf("closed: %+v", got)
	}
}

// A sandbox does not go by the defaults while the configuration cannot be read: its next
// container would be another one than configured.
func TestClosedConfiguresNoSandbox(t *testing.T) {
	h, damage := closable(t, `{sandbox: {mode: "all", memory: "1g"}}`)
	box := &configuredBox{Executor: &fakeexec.Executor{Programs: map[string]fakeexec.Program{"go": fakeexec.Print("", "", 0)}}}
	h.opt.Backends.Sandbox = func(SandboxOptions) (Executor, error) { return box, nil }
	if _, err := h.of("main").Start(t.Context(), corral.Command{ID: "x", Shell: "go"}); err != nil {
		t.Fatal(err)
	}
	damage()
	if _, err := h.files(t.Context(), "main", "main"); !errors.Is(err, corral.ErrDenied) {
		t.Errorf("files: %v", err)
	}
	if _, err := h.dialPort(t.Context(), "main", "main", 80); !errors.Is(err, corral.ErrDenied) {
		t.Errorf("port: %v", err)
	}
	recreate := func(Executor) error { t.Error("it is recreated"); return nil }
	if err := h.using(t.Context(), sandbox.Sandbox{Name: "main", Owner: "main"}, true, recreate); !errors.Is(err, corral.ErrDenied) {
		t.Errorf("recreate: %v", err)
	}
	if len(box.memory) > 0 {
		t.Errorf("it was configured with %v", box.memory)
	}
	if _, err := h.of("main").Attach(t.Context(), "x"); err != nil {
		t.Errorf("what runs is not found: %v", err)
	}
}
