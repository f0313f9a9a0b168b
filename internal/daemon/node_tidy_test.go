package daemon

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corral-exec/corral/sandbox"
)

// tidied is an engine that counts how often it was asked to remove what is old.
type tidied struct {
	Engine
	pruned, swept atomic.Int32
}

func (e *tidied) Prune(_ context.Context, _ string, of func(sandbox.Sandbox) sandbox.PruneOptions) ([]string, error) {
	if of(sandbox.Sandbox{Owner: "main"}).Idle == time.Hour {
		e.pruned.Add(1)
	}
	return nil, nil
}

func (e *tidied) Sweep(context.Context, string) ([]string, error) {
	e.swept.Add(1)
	return nil, nil
}

func (*tidied) Close() error { return nil }

// A node removes old sandboxes, and what crashes left, as a gateway does.
func TestNodeTidies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, "{}")
		eng := &tidied{}
		n.opt.Backends.Engine = func(context.Context, string) (Engine, error) { return eng, nil }
		n.ok(os.MkdirAll(filepath.Join(n.dir, "sandboxes", "main"), 0o700))
		n.ok(os.WriteFile(filepath.Join(n.dir, "sandboxes", "main", "sandbox.json"), []byte(`{"version": 1, "name": "main"}`), 0o600))
		n.restart(`{sandbox: {mode: "all", prune: {idleHours: 1}}}`)
		time.Sleep(2*tidyEvery + time.Second)
		if p, s := eng.pruned.Load(), eng.swept.Load(); p != 2 || s != 2 {
			t.Errorf("pruned %d times, swept %d times", p, s)
		}
	})
}
