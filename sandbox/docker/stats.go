package docker

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"

	"github.com/corral-exec/corral/sandbox/engine"
)

// maxStats bounds an answer of the engine, in bytes.
const maxStats = 1 << 20

// Stats implements engine.StatsEngine.
func (e *Engine) Stats(ctx context.Context, id string) (engine.Stats, error) {
	ctx, cancel := context.WithTimeout(ctx, shortCall)
	defer cancel()
	c, err := e.inspect(ctx, id)
	if errdefs.IsNotFound(err) {
		return engine.Stats{}, fmt.Errorf("%w: %s", engine.ErrNoContainer, id)
	}
	if err != nil {
		return engine.Stats{}, e.fail("look at the container "+id, err)
	}
	if !c.State.Running {
		return engine.Stats{OOMKills: -1}, nil
	}
	r, err := e.c.ContainerStatsOneShot(ctx, c.ID)
	if err != nil {
		return engine.Stats{}, e.fail("ask what the container "+id+" uses", err)
	}
	defer r.Body.Close()
	var got container.StatsResponse
	if err := json.NewDecoder(io.LimitReader(r.Body, maxStats)).Decode(&got); err != nil {
		return engine.Stats{}, e.fail("read what the container "+id+" uses", err)
	}
	s := usage(got)
	s.OOMKills = oomKills("/", c.State.Pid, c.ID)
	if c.HostConfig != nil {
		s.MemoryLimit, s.CPULimit = c.HostConfig.Memory, float64(c.HostConfig.NanoCPUs)/1e9
		if p := c.HostConfig.PidsLimit; p != nil && *p > 0 {
			s.PidsLimit = *p
		}
	}
	return s, nil
}

// usage is an answer of the engine in our terms. It leaves out pages of files that
// are not in use, as Docker's own commands do: the container does not need them.
func usage(r container.StatsResponse) engine.Stats {
	cache := r.MemoryStats.Stats["total_inactive_file"] // cgroup v1
	if v2, ok := r.MemoryStats.Stats["inactive_file"]; ok && cache == 0 {
		cache = v2
	}
	memory := r.MemoryStats.Usage
	if cache < memory {
		memory -= cache
	}
	return engine.Stats{
		At: r.Read, Memory: int64(memory), CPU: time.Duration(r.CPUStats.CPUUsage.TotalUsage), Pids: int64(r.PidsStats.Current),
	}
}

// oomKills is the kernel's count for the cgroup of a process of this machine,
// which the engine does not tell: -1 where it cannot be read, as of an engine
// elsewhere, whose process has another's number here. The cgroup is named after
// the container.
func oomKills(root string, pid int, id string) int64 {
	cgroups, err := os.ReadFile(filepath.Join(root, "proc", strconv.Itoa(pid), "cgroup"))
	if err != nil {
		return -1
	}
	for line := range strings.Lines(string(cgroups)) {
		_, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		controllers, path, _ := strings.Cut(rest, ":")
		file := ""
		switch {
		case !strings.Contains(path, id):
			continue
		case controllers == "memory":
			file = filepath.Join(root, "sys/fs/cgroup/memory", path, "memory.oom_control")
		case controllers == "":
			file = filepath.Join(root, "sys/fs/cgroup", path, "memory.events")
		default:
			continue
		}
		b, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(b)) {
			if value, ok := strings.CutPrefix(line, "oom_kill "); ok {
				if n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64); err == nil {
					return n
				}
			}
		}
	}
	return -1
}

var _ engine.StatsEngine = (*Engine)(nil)
