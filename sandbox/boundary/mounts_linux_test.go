package boundary

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/corral-exec/corral"
)

func TestKernelMounts(t *testing.T) {
	const table = `22 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
23 22 0:21 / /srv/jail/proc rw,nosuid shared:2 - proc proc rw
24 22 0:22 / /srv/with\040blank/sys rw shared:3 - sysfs sysfs rw
25 22 0:23 / /srv/data rw shared:4 - tmpfs tmpfs rw
26 22 0:24 / /srv/other - proc
27 22 0:25 / - proc proc rw
28 22 0:26 / /srv/cut rw shared:5 proc proc rw
`
	for dir, want := range map[string]string{
		"/srv":            "/srv/jail/proc",
		"/srv/jail":       "/srv/jail/proc",
		"/srv/jail/proc":  "", // the directory itself is judged by its name
		"/srv/with blank": "/srv/with blank/sys",
		"/srv/data":       "",
		"/srv/oth":        "",
		"/srv/cut":        "",
		"/home":           "",
	} {
		if got := kernelMountBelow(strings.NewReader(table), dir); got != want {
			t.Errorf("%s: %q, want %q", dir, got, want)
		}
	}
	line := "23 22 0:21 / /srv/proc rw - proc proc rw\n"
	for n, want := range map[int]string{maxLines - 1: "/srv/proc", maxLines: ""} {
		if got := kernelMountBelow(strings.NewReader(strings.Repeat("x\n", n)+line), "/srv"); got != want {
			t.Errorf("after %d lines: %q, want %q", n, got, want)
		}
	}
	long := "22 1 0:20 / /over rw - overlay overlay rw,lowerdir=" + strings.Repeat(":/layer", 100_000) + "\n"
	if got := kernelMountBelow(strings.NewReader(long+line), "/srv"); got != "/srv/proc" {
		t.Errorf("after a long line: %q", got)
	}
	if got := systemMountBelow("/"); got == "" {
		t.Error("nothing of the kernel is mounted on this machine")
	}
	if got := systemMountBelow(t.TempDir()); got != "" {
		t.Errorf("in a new directory: %q", got)
	}
}

// What helps depends on why a path cannot be held.
func TestHoldFails(t *testing.T) {
	dir := t.TempDir()
	link(t, dir, filepath.Join(dir, "link"))
	for name, hint := range map[string]string{"missing": "create it first", "link/x": "keep others from writing", strings.Repeat("x", 300): "use one that this program can open"} {
		p, err := Hold(filepath.Join(dir, name))
		if p != nil || !strings.Contains(corral.Hint(err), hint) {
			t.Errorf("%.10s: %v (%s)", name, err, corral.Hint(err))
		}
	}
}
