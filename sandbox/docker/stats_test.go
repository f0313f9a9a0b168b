package docker

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/docker/docker/api/types/container"
)

func TestUsage(t *testing.T) {
	for name, tt := range map[string]struct {
		usage uint64
		stats map[string]uint64
		want  int64
	}{
		"cgroup v1":          {100, map[string]uint64{"total_inactive_file": 30, "inactive_file": 5}, 70},
		"cgroup v2":          {100, map[string]uint64{"inactive_file": 40}, 60},
		"more than there is": {100, map[string]uint64{"inactive_file": 400}, 100},
		"nothing":            {100, nil, 100},
	} {
		if got := usage(container.StatsResponse{MemoryStats: container.MemoryStats{Usage: tt.usage, Stats: tt.stats}}); got.Memory != tt.want {
			t.Errorf("%s: %d, want %d", name, got.Memory, tt.want)
		}
	}
}

func TestOOMKills(t *testing.T) {
	for name, tt := range map[string]struct {
		cgroup, file, text string
		want               int64
	}{
		"v1":       {"9:pids:/d/1\n8:memory:/d/1\n0::/x\n", "sys/fs/cgroup/memory/d/1/memory.oom_control", "under_oom 0\noom_kill 3\n", 3},
		"v2":       {"0::/d/1\n", "sys/fs/cgroup/d/1/memory.events", "oom 1\noom_kill 2\n", 2},
		"no count": {"0::/d/1\n", "sys/fs/cgroup/d/1/memory.events", "oom 1\n", -1},
		"another":  {"0::/d/2\n", "sys/fs/cgroup/d/2/memory.events", "oom_kill 1\n", -1},
		"no file":  {"0::/d/1\n", "sys/fs/cgroup/d/none/memory.events", "oom_kill 1\n", -1},
	} {
		root := t.TempDir()
		for file, text := range map[string]string{"proc/7/cgroup": tt.cgroup, tt.file: tt.text} {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(root, file)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(root, file), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got := oomKills(root, 7, "1"); got != tt.want {
			t.Errorf("%s: %d, want %d", name, got, tt.want)
		}
	}
	if got := oomKills(t.TempDir(), 7, "1"); got != -1 {
		t.Errorf("%d", got)
	}
}
