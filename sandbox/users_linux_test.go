package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/sandbox/engine"
	"github.com/corral-exec/corral/sandbox/users"
)

// A user is noted before its box is. In between no other box gets it.
func TestUserNotedBeforeBox(t *testing.T) {
	old := lent
	lent.Dir = filepath.Join(testdir.New(t), "users")
	t.Cleanup(func() { lent = old })
	s := &setup{Config: Config{StateDir: testdir.New(t), Name: "x"}}
	s.Engine = noEngine{}
	if err := s.complete(); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() != 0 {
		t.Skip("only root lends users")
	}
	info := engine.Info{Local: true, Arch: "amd64"}
	r := boxRecord{Box: Box{ID: "x-1"}, Sandbox: "x", Version: storeVersion}
	spec := engine.Spec{User: s.Isolation.User, Mounts: []engine.Mount{{Target: Workdir}}}
	noted, err := s.lend(t.Context(), info, &spec, &r)
	if err != nil || r.UID < 1879048192 || spec.User != fmt.Sprintf("%d:%d", r.UID, r.UID) {
		t.Fatalf("%+v, %q, %v", r, spec.User, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := lent.Sweep(ctx); err == nil {
		t.Error("leases can be swept before the box is noted")
	}
	noted()
	b, err := os.ReadFile(filepath.Join(lent.Dir, strconv.Itoa(r.UID)))
	var l users.Lease
	if err := errors.Join(err, json.Unmarshal(b, &l)); err != nil || l != (users.Lease{State: s.StateDir, Box: "x-1"}) {
		t.Errorf("%s, %v", b, err)
	}
	for _, tc := range []struct {
		change func(*Config, *engine.Info)
		want   string
	}{
		{func(c *Config, _ *engine.Info) { c.Isolation.User, c.anyUser = "1234:1234", false }, "sandbox.user"},
		{func(c *Config, _ *engine.Info) { c.uids = users.Range{} }, "sandbox.uidRange"},
		{func(c *Config, _ *engine.Info) { c.Runtime = "runsc" }, "kernel of its own"},
		{func(_ *Config, i *engine.Info) { i.Local = false }, "does not see"},
		{func(_ *Config, i *engine.Info) { i.Rootless = true }, "rootless"},
	} {
		c, i := s.Config, info
		tc.change(&c, &i)
		spec, r := engine.Spec{User: c.Isolation.User}, boxRecord{Box: Box{ID: "x-2"}}
		if _, err := (&setup{Config: c}).lend(t.Context(), i, &spec, &r); err != nil || r.UID != 0 || spec.User != c.Isolation.User {
			t.Errorf("%s: %+v, %v", tc.want, r, err)
		}
		if why := c.sharesUser(i, nil); !strings.Contains(why, tc.want) {
			t.Errorf("%q, want %q", why, tc.want)
		}
	}
	if why := s.sharesUser(info, []engine.Mount{{Source: "/proc", Target: "/p"}}); !strings.Contains(why, "/proc cannot be mounted with mapped IDs") {
		t.Errorf("a file system without mapped IDs: %q", why)
	}
}
