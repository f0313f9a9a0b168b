//go:build e2e

package sandbox_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/runner"
	"github.com/corral-exec/corral/sandbox"
)

// imageWith is an image like images.Busybox with changes as a Dockerfile has them, or with files
// of this machine, as FILE:PATH.
func imageWith(t *testing.T, name string, changes ...string) string {
	t.Helper()
	docker := func(args ...string) string {
		out, err := exec.Command("docker", args...).CombinedOutput()
		if err != nil {
			t.Fatalf("docker %q: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	args, from := []string{"commit"}, docker("create", images.Busybox)
	for _, c := range changes {
		if file, to, found := strings.Cut(c, ":"); found {
			docker("cp", file, from+":"+to)
		} else {
			args = append(args, "--change", c)
		}
	}
	docker(append(args, from, name)...)
	docker("rm", from)
	t.Cleanup(func() { docker("rmi", "--force", name) })
	return name
}

// Labels of an image, such as one that was made of a sandbox's container (docker commit), do
// not make others take its containers for ones that nobody uses.
func TestLabelsOfAnImage(t *testing.T) {
	b := newBench(t)
	b.cfg.Image = imageWith(t, "corral-test/labels:1", "LABEL corral.ephemeral=1 corral.owner=gone corral.place=x")
	e := b.open(nil)
	p := begin(t, e, "", "sleep 3")
	other := b.open(func(c *sandbox.Config) { c.Name, c.Image = "other", images.Busybox })
	ended(t, begin(t, other, "", "true"), 0) // which sweeps
	ended(t, p, 0)
}

// What is written to a volume that the image declares is bounded: the engine would take it all
// onto its disk.
func TestVolumesOfAnImage(t *testing.T) {
	b := newBench(t)
	srv := filepath.Join(testdir.New(t), "srv")
	if err := os.MkdirAll(filepath.Join(srv, "data"), 0o755); err != nil { // root's, also in the image
		t.Fatal(err)
	}
	b.cfg.Image = imageWith(t, "corral-test/volumes:1", srv+":/srv", "VOLUME /srv/data/ /tmp /workspace")
	e := b.open(nil)
	const shell = `echo here >/srv/data/x && cat /srv/data/x && grep -E " (/srv/data|/tmp) " /proc/mounts | cut -d" " -f1,2 | sort && echo kept >/workspace/x`
	r, err := runner.Run(t.Context(), e, corral.Command{Shell: shell}, runner.Options{})
	if want := "here\ntmpfs /srv/data\ntmpfs /tmp\n"; err != nil || !r.Exit.Success() || r.Stdout.Head != want {
		t.Errorf("%q, %v, %v; want %q", r.Stdout.Head, r.Exit, err, want)
	}
	dir, err := e.HostWorkspace(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "x")); err != nil || string(text) != "kept\n" {
		t.Errorf("%q, %v", text, err)
	}
}

// An image whose /etc/passwd leads to a file of the kernel's does not have Corral read that for
// commands, as root.
func TestAccountsOfAnImage(t *testing.T) {
	b := newBench(t)
	dir := testdir.New(t)
	if err := os.Symlink("/proc/vmallocinfo", filepath.Join(dir, "passwd")); err != nil {
		t.Fatal(err)
	}
	b.cfg.Image = imageWith(t, "corral-test/accounts:1", filepath.Join(dir, "passwd")+":/etc/passwd")
	r, err := runner.Run(t.Context(), b.open(nil), corral.Command{Shell: "readlink /etc/passwd; cat /etc/passwd"}, runner.Options{})
	if err != nil || r.Exit.Success() || r.Stdout.Head != "/proc/vmallocinfo\n" {
		t.Errorf("%v, %v, %.200q", r.Exit, err, r.Stdout.Head)
	}
}
