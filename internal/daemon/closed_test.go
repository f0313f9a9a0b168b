package daemon

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/corral-exec/corral/sandbox"
)

// closable are hosts whose configuration can be made unusable.
func closable(t *testing.T, text string) (h *hosts, state string, damage func()) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.json5")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(text)
	state = t.TempDir()
	b := (&fakeMachine{}).backends()
	h, err := openHosts(&Options{Backends: b, Config: ConfigFile{Path: file, Named: true}, Log: slog.New(slog.DiscardHandler)}, state, false, alone)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h, state, func() { write("{") }
}

// What is old is not known while the configuration cannot be read: the default would
// remove what is to be kept for ever.
func TestClosedPrunesNothing(t *testing.T) {
	h, _, damage := closable(t, `{sandbox: {prune: {idleHours: 0, maxAgeDays: 0}}}`)
	if got := h.pruning("main", "main"); got != (sandbox.PruneOptions{}) {
		t.Fatalf("as configured: %+v", got)
	}
	damage()
	if got := h.pruning("main", "main"); got != (sandbox.PruneOptions{}) {
		t.Errorf("closed: %+v", got)
	}
}
