package sandbox

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/sandbox/engine"
)

// noEngine is an engine whose methods are not called.
type noEngine struct{ engine.Engine }

func hashed(t *testing.T, change func(*Config)) string {
	t.Helper()
	c := Config{Engine: noEngine{}, StateDir: "/var/lib/corral", Isolation: Isolation{User: "1000:1000"}}
	if change != nil {
		change(&c)
	}
	h, err := c.Hash()
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestHash(t *testing.T) {
	one, two := testdir.New(t), testdir.New(t)
	plain := hashed(t, nil)
	for _, tc := range []struct {
		name   string
		change func(*Config)
		same   bool
	}{
		// What commands find.
		{"image", func(c *Config) { c.Image = "x" }, false},
		{"runtime", func(c *Config) { c.Runtime = "runsc" }, false},
		{"user", func(c *Config) { c.Isolation.User = "1000:1001" }, false},
		{"a user of its own", func(c *Config) { c.Isolation.User = "" }, false},
		{"memory", func(c *Config) { c.Resources.Memory = 1 << 30 }, false},
		{"no limit of memory", func(c *Config) { c.Resources.Memory = -1 }, false},
		{"processors", func(c *Config) { c.Resources.CPUs = 0.5 }, false},
		{"processes", func(c *Config) { c.Resources.Pids = 100 }, false},
		{"size of /tmp", func(c *Config) { c.Resources.Tmp = 1 << 20 }, false},
		{"size of /dev/shm", func(c *Config) { c.Resources.Shm = 1 << 20 }, false},
		{"workspace", func(c *Config) { c.Workspace.Dir, c.Workspace.Access = one, AccessReadWrite }, false},
		{"setup command", func(c *Config) { c.SetupCommand = "true" }, false},
		{"home directory", func(c *Config) { c.Environment.Variables = map[string]string{"HOME": "/home/agent"} }, false},
		{"size of the workspace", func(c *Config) { c.Workspace.Size = 1 << 30 }, false},
		{"workspace in memory", func(c *Config) { c.Workspace.Medium = MediumMemory }, false},
		// What says the same.
		{"defaults", func(c *Config) {
			c.Resources.Memory, c.Resources.CPUs, c.Resources.Pids, c.Resources.Tmp, c.Workspace.Access = 2<<30, 2, 512, 512<<20, AccessNone
		}, true},
		{"defaults of the workspace", func(c *Config) { c.Workspace.Size, c.Workspace.Medium = -1, MediumDisk }, true},
		{"a workspace that is not used", func(c *Config) { c.Workspace.Dir = one }, true},
		// What is nothing of the container's.
		{"name", func(c *Config) { c.Name = "other" }, true},
		{"state directory", func(c *Config) { c.StateDir = "/elsewhere" }, true},
		{"environment", func(c *Config) {
			c.Environment.Variables, c.Environment.Keep, c.Environment.PathPrepend = map[string]string{"A": "b"}, []string{"A"}, []string{"/x"}
		}, true},
		{"warden", func(c *Config) { c.WardenPath = "/elsewhere/warden" }, true},
		{"driver", func(c *Config) { c.Driver = DriverFrames }, true},
		{"output rate", func(c *Config) { c.Resources.OutputRate = 8 << 20 }, true},
		{"lifetime", func(c *Config) { c.Lifetime = time.Hour }, true},
		{"ephemeral", func(c *Config) { c.Ephemeral = true }, true},
	} {
		if same := hashed(t, tc.change) == plain; same != tc.same {
			t.Errorf("%s: the same %v, want %v", tc.name, same, tc.same)
		}
	}
	in := func(dir string, access Access) string {
		return hashed(t, func(c *Config) { c.Workspace.Dir, c.Workspace.Access = dir, access })
	}
	if in(one, AccessReadWrite) == in(one, AccessReadOnly) || in(one, AccessReadOnly) == in(two, AccessReadOnly) {
		t.Error("workspaces are not told apart")
	}
	sized := hashed(t, func(c *Config) { c.Workspace.Dir, c.Workspace.Access, c.Workspace.Size = one, AccessReadWrite, 1<<30 })
	if sized != in(one, AccessReadWrite) {
		t.Error("a size counts for a directory of this machine")
	}
	if in(one, AccessReadOnly) != in(filepath.Join(one, "..", filepath.Base(one)), AccessReadOnly) {
		t.Error("one directory is two")
	}
}

// What is computed by default is in the documentation: a change of it makes
// every container anew.
func TestCanonicalIsDocumented(t *testing.T) {
	c := Config{Engine: noEngine{}, StateDir: "/var/lib/corral", Isolation: Isolation{User: "1000:1000"}}
	got, err := c.Canonical()
	if err != nil {
		t.Fatal(err)
	}
	got = regexp.MustCompile(`"Profile":"[0-9a-f]{64}"`).ReplaceAllString(got, `"Profile":"…"`)
	docs, err := os.ReadFile("../docs/explain/sandbox.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(docs), "\n"+got+"\n") {
		t.Errorf("docs/explain/sandbox.md does not have\n%s", got)
	}
}
