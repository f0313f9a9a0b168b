package engine

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/sandbox/boundary"
)

func TestOnEngine(t *testing.T) {
	info := Info{Nested: true, Shared: []Mount{
		{Source: "/srv/data", Target: "/data"}, {Source: "/home/u/x", Target: "/data/deep"}, {Source: "/var/lib/docker/volumes/v/_data", Target: "/v", Volume: true},
		{Source: "/srv/ro", Target: "/ro", ReadOnly: true}, {Source: "/etc", Target: "/e"}, {Source: "/root/w", Target: "/w"}, {Source: "/", Target: "/host"},
		{Target: "/data/tmpfs"}, {Target: "/"},
	}}
	for dir, want := range map[string]string{
		"/data": "/srv/data", "/data/a/b": "/srv/data/a/b", "/data/deep": "/home/u/x", "/data/deep/c": "/home/u/x/c",
		"/data/deeper": "/srv/data/deeper", "/v/w": "/var/lib/docker/volumes/v/_data/w", "/host/srv/x": "/srv/x",
	} {
		if got, err := info.onEngine(Mount{Source: dir, Target: "/x"}); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %s", dir, got, err, want)
		}
	}
	for _, dir := range []string{"/", "/database", "/other", "/d", "/data/tmpfs", "/data/tmpfs/x"} {
		_, err := info.onEngine(Mount{Source: dir})
		if !errors.Is(err, corral.ErrUnavailable) || !strings.Contains(err.Error(), "corral runs in a container") || !strings.Contains(corral.Hint(err), "-v DIR:"+dir) {
			t.Errorf("%s: %v (%s)", dir, err, corral.Hint(err))
		}
	}
	// What this program cannot write to, a sandbox does not either.
	if _, err := info.onEngine(Mount{Source: "/ro/x", Target: "/x"}); !errors.Is(err, corral.ErrDenied) || corral.Hint(err) == "" {
		t.Errorf("%v", err)
	}
	if got, err := info.onEngine(Mount{Source: "/ro/x", Target: "/x", ReadOnly: true}); err != nil || got != "/srv/ro/x" {
		t.Errorf("%q, %v", got, err)
	}
	// What has a harmless name here is judged by the one it has there.
	for dir, rule := range map[string]boundary.Rule{"/e": boundary.BindSystem, "/e/ssh": boundary.BindSystem, "/host": boundary.BindRoot, "/host/proc": boundary.BindSystem, "/host/home/u/.ssh": boundary.BindCredential, "/w": boundary.BindSystem} {
		_, err := info.onEngine(Mount{Source: dir, Target: "/x", ReadOnly: true})
		var r *boundary.Refusal
		if !errors.As(err, &r) || r.Rule != rule {
			t.Errorf("%s: %v, want %s", dir, err, rule)
		}
	}
	if got, err := info.onEngine(Mount{Source: "/w", Target: Workdir}); err != nil || got != "/root/w" {
		t.Errorf("a workspace of root's: %q, %v", got, err)
	}
	if _, err := (Info{Address: "tcp://x:1"}).onEngine(Mount{Source: "/data"}); !errors.Is(err, corral.ErrUnavailable) || !strings.Contains(err.Error(), "tcp://x:1") {
		t.Errorf("%v", err)
	}
}

func TestTranslate(t *testing.T) {
	mounts := []Mount{{Source: "/data/w", Target: Workdir}, {Source: "volume", Target: "/.corral", Volume: true}, {Source: "/data/b", Target: "/b", ReadOnly: true}}
	nested := Info{Nested: true, Shared: []Mount{{Source: "/srv", Target: "/data"}}}
	want := []Mount{{Source: "/srv/w", Target: Workdir}, mounts[1], {Source: "/srv/b", Target: "/b", ReadOnly: true}}
	if got, err := nested.Translate(mounts); err != nil || !slices.Equal(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	if mounts[0].Source != "/data/w" {
		t.Error("what was to be translated is not what it was")
	}
	if got, err := (Info{Local: true}).Translate(mounts); err != nil || !slices.Equal(got, mounts) {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := (Info{Address: "tcp://x:1"}).Translate(mounts); !errors.Is(err, corral.ErrUnavailable) {
		t.Errorf("%v", err)
	}
	if got, err := (Info{Address: "tcp://x:1"}).Translate(mounts[1:2]); err != nil || !slices.Equal(got, mounts[1:2]) {
		t.Errorf("%+v, %v", got, err)
	}
}
