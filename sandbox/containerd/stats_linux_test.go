package containerd

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/corral-exec/corral/sandbox/engine"
)

// What the kernel has of a control group of each version, with and without
// limits.
func TestUsage(t *testing.T) {
	v1 := map[string]string{
		"memory/corral/box/memory.usage_in_bytes": "5242880\n",
		"memory/corral/box/memory.stat":           "cache 1\ninactive_file 7\ntotal_inactive_file 1048576\n",
		"memory/corral/box/memory.limit_in_bytes": "67108864\n",
		"memory/corral/box/memory.oom_control":    "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n",
		"cpuacct/corral/box/cpuacct.usage":        "1500000000\n",
		"cpu/corral/box/cpu.cfs_quota_us":         "50000\n",
		"cpu/corral/box/cpu.cfs_period_us":        "100000\n",
		"pids/corral/box/pids.current":            "4\n",
		"pids/corral/box/pids.max":                "512\n",
	}
	v2 := map[string]string{
		"cgroup.controllers":        "cpu memory pids\n",
		"corral/box/memory.current": "5242880\n",
		"corral/box/memory.stat":    "anon 1\nfile 2\ninactive_file 1048576\n",
		"corral/box/memory.max":     "67108864\n",
		"corral/box/memory.events":  "low 0\noom 4\noom_kill 3\noom_group_kill 1\n",
		"corral/box/cpu.stat":       "usage_usec 1500000\nuser_usec 1\n",
		"corral/box/cpu.max":        "50000 100000\n",
		"corral/box/pids.current":   "4\n",
		"corral/box/pids.max":       "512\n",
	}
	full := engine.Stats{Memory: 4 << 20, MemoryLimit: 64 << 20, CPU: 1500 * time.Millisecond, CPULimit: 0.5, Pids: 4, PidsLimit: 512, OOMKills: 3}
	free := full
	free.MemoryLimit, free.CPULimit, free.PidsLimit = 0, 0, 0
	small := full
	small.Memory = 1000
	for name, tt := range map[string]struct {
		files, instead map[string]string
		want           engine.Stats
	}{
		"version 1": {v1, nil, full},
		"version 2": {v2, nil, full},
		"version 1, no limits": {v1, map[string]string{
			"memory/corral/box/memory.limit_in_bytes": "9223372036854771712\n", "cpu/corral/box/cpu.cfs_quota_us": "-1\n", "pids/corral/box/pids.max": "max\n",
		}, free},
		"version 2, no limits": {v2, map[string]string{
			"corral/box/memory.max": "max\n", "corral/box/cpu.max": "max 100000\n", "corral/box/pids.max": "max\n",
		}, free},
		"version 1, more cache than was counted": {v1, map[string]string{"memory/corral/box/memory.usage_in_bytes": "1000\n"}, small},
	} {
		root := t.TempDir()
		for _, files := range []map[string]string{tt.files, tt.instead} {
			for file, text := range files {
				file = filepath.Join(root, file)
				if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
					t.Fatal(err)
				}
			}
		}
		if got, err := usage(root, "/corral/box"); err != nil || got != tt.want {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, tt.want)
		}
		if _, err := usage(root, "/corral/none"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: of no control group: %v", name, err)
		}
		for file := range tt.files { // what is not a number is no zero
			if filepath.Base(file) == "pids.current" {
				if err := os.WriteFile(filepath.Join(root, file), []byte("many\n"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		}
		if got, err := usage(root, "/corral/box"); err == nil {
			t.Errorf("%s: %+v of what cannot be read", name, got)
		}
	}
}
