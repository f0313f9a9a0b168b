//go:build linux

// Package traces finds what processes with a certain directory leave on this
// machine: processes, containers and what the engine keeps of them, cgroups,
// mounts, sockets and files. It is for tests alone, and fails them where there
// is no Docker engine.
package traces

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/client"

	"github.com/corral-exec/corral/internal/procfs"
)

// Traces are what processes that work in a directory, or have it as TMPDIR,
// leave on this machine. What others do at the same time is not looked at:
// everything is found from the directory.
type Traces struct {
	dir    string
	engine *client.Client
	seen   map[string]func() bool // what was there once, and whether it is
}

// New looks at nothing yet.
func New(t *testing.T, dir string) *Traces {
	t.Helper()
	engine, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { engine.Close() })
	return &Traces{dir: dir, engine: engine, seen: map[string]func() bool{}}
}

// Look notes what is there now, and counts it by kind.
func (tr *Traces) Look(t *testing.T) map[string]int {
	t.Helper()
	count := map[string]int{}
	note := func(kind, name string, there func() bool) {
		count[kind]++
		tr.seen[kind+" "+name] = there
	}
	marks := [][]byte{[]byte(tr.dir)} // of processes
	names := map[string]bool{}        // of cgroups
	for _, c := range tr.containers(t) {
		marks = append(marks, []byte(c.ID))
		names[c.ID] = true
		tr.container(t, c, note)
	}
	for _, pid := range tr.processes(t, marks, note) {
		names["corral-"+pid] = true
	}
	for _, dir := range cgroups(t, names) {
		note("cgroup", dir, func() bool { return exists(dir) })
	}
	for _, file := range []string{"/proc/self/mounts", "/proc/net/unix"} {
		for _, l := range linesWith(t, file, tr.dir) {
			note(filepath.Base(file), l, func() bool { return slices.Contains(linesWith(t, file, tr.dir), l) })
		}
	}
	files, err := os.ReadDir(tr.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		path := filepath.Join(tr.dir, f.Name())
		note("file", path, func() bool { return exists(path) })
	}
	return count
}

// Left is everything that was seen and is still there, or is there now.
func (tr *Traces) Left(t *testing.T) []string {
	t.Helper()
	tr.Look(t)
	maps.DeleteFunc(tr.seen, func(_ string, there func() bool) bool { return !there() })
	return slices.Sorted(maps.Keys(tr.seen))
}

// Gone demands that nothing is left.
func (tr *Traces) Gone(t *testing.T) {
	t.Helper()
	// The process that adopts what was killed needs a moment to reap it.
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		left := tr.Left(t)
		if len(left) == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("left behind:\n%s", strings.Join(left, "\n"))
		}
	}
}

func (tr *Traces) containers(t *testing.T) []container.Summary {
	t.Helper()
	list, err := tr.engine.ContainerList(context.Background(), container.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("label", "corral"))})
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(list, func(c container.Summary) bool {
		return !strings.HasPrefix(c.Labels["corral.state"], tr.dir+"/") &&
			!slices.ContainsFunc(c.Mounts, func(m container.MountPoint) bool { return strings.HasPrefix(m.Source, tr.dir+"/") })
	})
}

// container notes a container and what the engine keeps of one.
func (tr *Traces) container(t *testing.T, c container.Summary, note func(string, string, func() bool)) {
	ctx := context.Background()
	note("container", c.ID, func() bool {
		_, err := tr.engine.ContainerInspect(ctx, c.ID)
		return err == nil
	})
	for _, m := range c.Mounts {
		if m.Type == mount.TypeVolume {
			note("volume", m.Name, func() bool {
				_, err := tr.engine.VolumeInspect(ctx, m.Name)
				return err == nil
			})
		}
	}
	marks := []string{c.ID}
	if full, err := tr.engine.ContainerInspect(ctx, c.ID); err == nil && full.GraphDriver.Data["MergedDir"] != "" {
		marks = append(marks, full.GraphDriver.Data["MergedDir"])
	}
	for _, mark := range marks {
		for _, l := range linesWith(t, "/proc/self/mounts", mark) {
			note("mount", l, func() bool { return slices.Contains(linesWith(t, "/proc/self/mounts", mark), l) })
		}
	}
}

// processes notes those that have a mark in their arguments, environment,
// program, directory or cgroup. Once seen, they count until they are reaped.
func (tr *Traces) processes(t *testing.T, marks [][]byte, note func(string, string, func() bool)) (pids []string) {
	names, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, proc := range names {
		if filepath.Base(proc) == strconv.Itoa(os.Getpid()) {
			continue
		}
		var about bytes.Buffer
		for _, file := range []string{"cmdline", "environ", "cgroup"} {
			b, _ := os.ReadFile(proc + "/" + file) // Gone meanwhile, or not ours to see
			about.Write(b)
		}
		for _, link := range []string{"exe", "cwd"} {
			to, _ := os.Readlink(proc + "/" + link)
			about.WriteString(to)
		}
		if !slices.ContainsFunc(marks, func(mark []byte) bool { return bytes.Contains(about.Bytes(), mark) }) {
			continue
		}
		name, begun := identify(proc)
		note("process", filepath.Base(proc)+" "+name, func() bool {
			_, now := identify(proc)
			return now == begun && begun != ""
		})
		pids = append(pids, filepath.Base(proc))
	}
	return pids
}

// identify returns a process's name, and when it began: the two tell it from
// another with its number.
func identify(proc string) (name, begun string) {
	s, err := procfs.Read(proc)
	if err != nil {
		return "", ""
	}
	b, _ := os.ReadFile(proc + "/comm") // it may have ended since
	return "(" + strings.TrimSpace(string(b)) + ")", strconv.FormatUint(s.Started, 10)
}

func linesWith(t *testing.T, file, mark string) []string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for l := range strings.Lines(string(b)) {
		if strings.Contains(l, mark) {
			found = append(found, strings.TrimSpace(l))
		}
	}
	return found
}

// cgroups finds those of these names. An engine may add to them.
func cgroups(t *testing.T, names map[string]bool) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir("/sys/fs/cgroup", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // Gone meanwhile
		}
		name := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(path), "docker-"), ".scope")
		if d.IsDir() && names[name] {
			found = append(found, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// Summary is what Look counted, as text.
func Summary(count map[string]int) string {
	var s []string
	for _, kind := range slices.Sorted(maps.Keys(count)) {
		s = append(s, fmt.Sprintf("%s: %d", kind, count[kind]))
	}
	return strings.Join(s, ", ")
}
