package images

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/registry"

	"github.com/corral-exec/corral"
)

// What Ensure would come to is known without a pull or a build.
func TestFind(t *testing.T) {
	for _, tt := range []struct {
		ref    string
		change func(*fakeEngine)
		found  bool
		fails  string // empty: not, as far as is known
	}{
		{ref: "mine:1", change: func(f *fakeEngine) { f.add("mine:1", nil, nil) }, found: true},
		{ref: "corral/mine:1", change: func(f *fakeEngine) { f.add("corral/mine:1", nil, nil) }, found: true},
		{ref: "alpine:3"},
		{ref: "nosuch:1", change: func(f *fakeEngine) { f.asked = fmt.Errorf("manifest unknown: %w", cerrdefs.ErrNotFound) }, fails: "cannot pull image nosuch:1: the registry has no such image"},
		{ref: "alpine:3", change: func(f *fakeEngine) { f.asked = errors.New("dial tcp: lookup registry-1.docker.io: no such host") }, fails: "cannot pull image alpine:3: the registry cannot be reached"},
		{ref: "nosuch:1", change: func(f *fakeEngine) {
			f.asked, f.components = cerrdefs.ErrNotFound, []types.ComponentVersion{{Name: "Podman Engine"}} // which has nothing to ask with
		}},
		{ref: "corral/nosuch:1", fails: "there is no recipe for the image corral/nosuch:1"},
		{ref: "Not A Name", fails: `"Not A Name" is not the name of an image`},
		{ref: "sha256:" + strings.Repeat("0", 64), fails: "the engine does not have that image"},
		{ref: Busybox, change: func(f *fakeEngine) { f.arch = "riscv64" }, fails: "cannot build image " + Busybox},
		{ref: "alpine:3", change: func(f *fakeEngine) { f.broken = errors.New("boom") }, fails: "boom"},
	} {
		s, f := fakeStore(t)
		s.Credentials = func(context.Context, string) (registry.AuthConfig, error) { return registry.AuthConfig{}, nil }
		if tt.change != nil {
			tt.change(f)
		}
		found, err := s.Find(t.Context(), tt.ref)
		if found != tt.found || (err == nil) != (tt.fails == "") || err != nil && !strings.Contains(err.Error(), tt.fails) {
			t.Errorf("%s: %v, %v; want %v, %q", tt.ref, found, err, tt.found, tt.fails)
		}
		if err != nil && f.broken == nil && corral.Hint(err) == "" {
			t.Errorf("%s: %v has no hint", tt.ref, err)
		}
		if slices.ContainsFunc(f.calls, func(call string) bool { return strings.HasPrefix(call, "pull") || strings.HasPrefix(call, "load") }) {
			t.Errorf("%s: %q", tt.ref, f.calls)
		}
	}
}

// An engine that hangs is not told by the words of the client's transport.
func TestEngineHangs(t *testing.T) {
	hung := fmt.Errorf("Get %q: %w", "http://%2Frun%2Fdocker.sock/_ping", context.DeadlineExceeded)
	err := engineError(t.Context(), "list images", hung)
	if !errors.Is(err, corral.ErrUnavailable) || strings.Contains(err.Error(), "_ping") || !strings.Contains(corral.Hint(err), "restart it") {
		t.Errorf("%v, hint %q", err, corral.Hint(err))
	}
}
