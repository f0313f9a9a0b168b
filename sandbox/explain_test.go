package sandbox

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/sandbox/boundary"
	"github.com/corral-exec/corral/sandbox/engine"
)

// What is refused is described as it was asked for, and never as what a sandbox
// would have without being asked.
func TestExplainWhatIsRefused(t *testing.T) {
	dir := testdir.New(t)
	if err := os.Symlink("/etc", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	c := Config{
		StateDir: "/var/lib/corral", Workspace: Workspace{Dir: filepath.Join(dir, "link"), Access: AccessReadWrite}, Isolation: Isolation{User: "0:0", Network: "host", Seccomp: "unconfined", AppArmor: "unconfined"},
		Mounts: Mounts{Binds: []string{"/proc:/p", "data:/data", dir + ":/d:ro"}},
	}
	spec, refusals, err := c.Explain(engine.Info{Local: true})
	if err != nil {
		t.Fatal(err)
	}
	rules := map[boundary.Rule]bool{}
	for _, r := range refusals {
		rules[r.Rule] = true
	}
	if len(refusals) != 7 || len(rules) != 6 { // two of them are bind-system
		t.Errorf("%+v", refusals)
	}
	if spec.User != "0:0" || spec.Network != "host" || spec.AppArmor != "unconfined" {
		t.Errorf("%q, %q, %q", spec.User, spec.Network, spec.AppArmor)
	}
	if len(spec.Mounts) != 2 || spec.Mounts[0] != (engine.Mount{Source: "/etc", Target: Workdir}) || spec.Mounts[1].Target != "/d" {
		t.Errorf("%+v", spec.Mounts)
	}
}

// Where Corral's state is in it, /var is not bound.
func TestStateIsNotBound(t *testing.T) {
	for state, want := range map[string]bool{"/var/lib/corral": true, "/srv/corral": false} {
		list := Config{StateDir: state, Mounts: Mounts{Binds: []string{"/var:/host-var:ro"}}}.Refusals()
		if got := len(list) > 0 && list[0].Rule == boundary.BindState; got != want {
			t.Errorf("%s: %v", state, list)
		}
	}
}
