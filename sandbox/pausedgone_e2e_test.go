//go:build e2e

package sandbox_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/internal/test/enginetest"
	"github.com/corral-exec/corral/sandbox/engine"
)

// A container that is frozen is removed as any other, with the processes that its engine
// has beside it.
func TestRemovePaused(t *testing.T) {
	for name, e := range map[string]engine.Engine{"docker": enginetest.New(t), "containerd": enginetest.Containerd(t)} {
		for _, runtime := range []string{"runc", "runsc"} {
			t.Run(name+" "+runtime, func(t *testing.T) {
				ctx := t.Context()
				id, err := e.Create(ctx, engine.Spec{Name: "corral-paused-" + strings.ToLower(corral.NewID()), Runtime: runtime, Image: images.Busybox, User: "1000:1000", Args: []string{"/bin/sleep", "300"}})
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = e.Remove(context.Background(), id) }()
				if err := e.Start(ctx, id); err != nil {
					t.Fatal(err)
				}
				if of(t, id) == "" {
					t.Error("its engine has no process beside it")
				}
				if err := e.(engine.PauseEngine).Pause(ctx, id); err != nil {
					t.Fatal(err)
				}
				if err := e.Remove(ctx, id); err != nil {
					t.Error(err)
				}
				for end := time.Now().Add(20 * time.Second); of(t, id) != ""; time.Sleep(100 * time.Millisecond) {
					if time.Now().After(end) {
						t.Fatalf("left is %s", of(t, id))
					}
				}
			})
		}
	}
}

// of is a process of this machine that was started for a container.
func of(t *testing.T, id string) string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if b, err := os.ReadFile(file); err == nil && strings.Contains(string(b), id) {
			return strings.ReplaceAll(string(b), "\x00", " ")
		}
	}
	return ""
}
