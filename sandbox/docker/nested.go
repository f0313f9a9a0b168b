package docker

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"

	"github.com/corral-exec/corral/internal/lazy"
	"github.com/corral-exec/corral/sandbox/engine"
)

// A program that runs in a container of the engine that it uses, through the
// engine's socket, has another view of files than the engine: what it names is
// looked for on the engine's machine. What the two share are the mounts of the
// program's container.

// nested is in which container of this engine this program runs, empty for none,
// and what it shares with the engine's machine then. It may be in a container of another
// engine, or in one that has this engine in it: then paths are the same.
func (e *Engine) nested(ctx context.Context) (container string, shared []engine.Mount, err error) {
	if err := e.looking.Take(ctx); err != nil {
		return "", nil, e.fail("look at the container that this program is in", err)
	}
	defer e.looking.Release()
	if e.looked {
		return e.inside, e.shared, nil
	}
	id, err := ownContainer(mountinfo)
	if err != nil || id == "" {
		e.looked = err == nil
		return "", nil, err
	}
	c, err := e.inspect(ctx, id)
	switch {
	case errdefs.IsNotFound(err):
		e.looked = true
		return "", nil, nil
	case err != nil:
		return "", nil, e.fail("look at the container that this program is in", err)
	}
	points, err := mountPoints(mountinfo)
	if err != nil {
		return "", nil, err
	}
	e.shared = sharing(c.Mounts, points, filepath.EvalSymlinks)
	e.looked, e.inside = true, c.ID
	return e.inside, e.shared, nil
}

// sharing are the mounts of a container, by where they are for who is in it, and
// without a source whatever else is mounted there: it hides what is below.
func sharing(mounts []container.MountPoint, points []string, real func(string) (string, error)) []engine.Mount {
	var list []engine.Mount
	known := map[string]bool{}
	for _, m := range mounts {
		target, err := real(m.Destination)
		if err != nil || m.Source == "" {
			continue // hidden, or in memory
		}
		known[target] = true
		list = append(list, engine.Mount{Source: m.Source, Target: target, ReadOnly: !m.RW, Volume: m.Type == mount.TypeVolume})
	}
	for _, p := range points {
		if !known[p] {
			list = append(list, engine.Mount{Target: p})
		}
	}
	return list
}

// mountPoints are where something is mounted, by a file like
// /proc/self/mountinfo.
func mountPoints(mountinfo string) ([]string, error) {
	text, err := os.ReadFile(mountinfo)
	if err != nil {
		return nil, err
	}
	var list []string
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 4 {
			list = append(list, escaped.Replace(fields[4]))
		}
	}
	return list, nil
}

// escaped undoes how the kernel writes blanks in a table.
var escaped = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// mountinfo has the mounts that this thread sees. That of /proc/self is the first
// thread's: a goroutine that has put that thread into a container's namespace, to
// look at a mount there, would make this program seem to be in the container.
const mountinfo = "/proc/thread-self/mountinfo"

// ownFile is a file that engines mount into a container from a directory that is
// named after it.
var ownFile = lazy.Regexp(`/(?:containers|overlay-containers)/([0-9a-f]{64})/(?:userdata/)?(?:hostname|hosts|resolv\.conf)$`)

// ownContainer is the ID of the container that this program is in, by its
// mounts; empty if it is in none.
func ownContainer(mountinfo string) (string, error) {
	text, err := os.ReadFile(mountinfo)
	if errors.Is(err, fs.ErrNotExist) { // another system
		return "", nil
	}
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		// ID, parent, device, root of the mount, mount point, …: proc(5)
		fields := strings.Fields(line)
		if len(fields) < 5 || !strings.HasPrefix(fields[4], "/etc/") {
			continue
		}
		if m := ownFile().FindStringSubmatch(fields[3]); m != nil {
			return m[1], nil
		}
	}
	return "", nil
}
