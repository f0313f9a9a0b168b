//go:build linux

package containerd

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/containerd/containerd/api/services/tasks/v1"
	"github.com/containerd/containerd/api/types/task"
	"github.com/containerd/errdefs"

	"github.com/corral-exec/corral/sandbox/engine"
)

// Stats implements engine.StatsEngine. It reads the container's control group,
// which is this machine's: nothing is asked of the shim.
func (e *Engine) Stats(ctx context.Context, id string) (engine.Stats, error) {
	ctx, cancel := e.call(ctx, shortCall)
	defer cancel()
	id = identifier(id)
	if _, err := e.container(ctx, id); err != nil {
		return engine.Stats{}, err
	}
	ended := engine.Stats{OOMKills: -1}
	r, err := e.c.TaskService().Get(ctx, &tasks.GetRequest{ContainerID: id})
	if err = native(err); errdefs.IsNotFound(err) {
		return ended, nil
	}
	if err != nil {
		return engine.Stats{}, e.fail("look at the container "+id, err)
	}
	if r.Process.Status == task.Status_STOPPED || r.Process.Status == task.Status_CREATED {
		return ended, nil
	}
	s, err := usage(cgroupRoot, e.cgroup(id))
	if err != nil {
		return engine.Stats{}, e.fail("read what the container "+id+" uses", err)
	}
	s.At = time.Now()
	return s, nil
}

var _ engine.StatsEngine = (*Engine)(nil)

// usage is what a control group uses and may use, by the files that the kernel
// has of it below root. It may be of version 1 or 2.
func usage(root, cgroup string) (engine.Stats, error) {
	g := group{dir: filepath.Join(root, cgroup)}
	var s engine.Stats
	if _, err := os.Stat(filepath.Join(root, "cgroup.controllers")); err == nil {
		s.Memory = withoutCache(g.number("memory.current"), g.field("memory.stat", "inactive_file"))
		s.MemoryLimit = g.limit("memory.max")
		s.CPU = time.Duration(g.field("cpu.stat", "usage_usec")) * time.Microsecond
		s.CPULimit = share(g.words("cpu.max"))
		s.Pids, s.PidsLimit = g.number("pids.current"), g.limit("pids.max")
		s.OOMKills = g.field("memory.events", "oom_kill")
		return s, g.err
	}
	in := func(controller string) { g.dir = filepath.Join(root, controller, cgroup) }
	in("memory")
	s.Memory = withoutCache(g.number("memory.usage_in_bytes"), g.field("memory.stat", "total_inactive_file"))
	s.MemoryLimit = g.limit("memory.limit_in_bytes")
	s.OOMKills = g.field("memory.oom_control", "oom_kill")
	in("cpuacct")
	s.CPU = time.Duration(g.number("cpuacct.usage"))
	in("cpu")
	s.CPULimit = share([]string{g.text("cpu.cfs_quota_us"), g.text("cpu.cfs_period_us")})
	in("pids")
	s.Pids, s.PidsLimit = g.number("pids.current"), g.limit("pids.max")
	return s, g.err
}

// withoutCache leaves out pages of files that are not in use: the container does not
// need them, and they are counted a moment later.
func withoutCache(used, inactive int64) int64 {
	if inactive < used {
		return used - inactive
	}
	return used
}

// share is a quota of a period as a number of processors; 0 if there is none.
func share(quota []string) float64 {
	if len(quota) != 2 {
		return 0
	}
	q, qerr := strconv.ParseFloat(quota[0], 64)
	p, perr := strconv.ParseFloat(quota[1], 64)
	if qerr != nil || perr != nil || q <= 0 || p <= 0 { // "max", or -1
		return 0
	}
	return q / p
}

// A group is a control group's directory, and the first error that reading its
// files gave: after that everything is zero.
type group struct {
	dir string
	err error
}

func (g *group) text(file string) string {
	if g.err != nil {
		return ""
	}
	b, err := os.ReadFile(filepath.Join(g.dir, file))
	g.err = err
	return strings.TrimSpace(string(b))
}

func (g *group) words(file string) []string { return strings.Fields(g.text(file)) }

func (g *group) number(file string) int64 { return g.parse(g.text(file)) }

func (g *group) parse(text string) int64 {
	if g.err != nil {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 64)
	g.err = err
	return n
}

// field is a line of a table.
func (g *group) field(file, name string) int64 {
	for line := range strings.Lines(g.text(file)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return g.parse(strings.TrimSpace(value))
		}
	}
	return 0
}

// unlimited is what version 1 shows where there is no limit: all pages that can
// be counted, whatever their size.
const unlimited = math.MaxInt64 - 1<<20

// limit is a limit; 0 if there is none.
func (g *group) limit(file string) int64 {
	text := g.text(file)
	if text == "max" {
		return 0
	}
	if n := g.parse(text); n < unlimited {
		return n
	}
	return 0
}
