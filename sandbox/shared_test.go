package sandbox

import (
	"errors"
	"strings"
	"testing"

	"github.com/corral-exec/corral"
)

func TestOnEngine(t *testing.T) {
	info := EngineInfo{Nested: true, Shared: []Mount{
		{Source: "/srv/data", Target: "/data"}, {Source: "/home/u/x", Target: "/data/deep"}, {Source: "/vol/_data", Target: "/v"},
	}}
	for dir, want := range map[string]string{
		"/data": "/srv/data", "/data/a/b": "/srv/data/a/b", "/data/deep": "/home/u/x", "/data/deep/c": "/home/u/x/c",
		"/data/deeper": "/srv/data/deeper", "/v/w": "/vol/_data/w",
	} {
		if got, err := info.onEngine(dir); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %s", dir, got, err, want)
		}
	}
	for _, dir := range []string{"/", "/database", "/other", "/d"} {
		_, err := info.onEngine(dir)
		if !errors.Is(err, corral.ErrUnavailable) || !strings.Contains(err.Error(), "corral runs in a container") || !strings.Contains(corral.Hint(err), "-v DIR:"+dir) {
			t.Errorf("%s: %v (%s)", dir, err, corral.Hint(err))
		}
	}
	if _, err := (EngineInfo{Address: "tcp://x:1"}).onEngine("/data"); !errors.Is(err, corral.ErrUnavailable) || !strings.Contains(err.Error(), "tcp://x:1") {
		t.Errorf("%v", err)
	}
}
