//go:build e2e && linux

package sandbox_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/sandbox"
	"github.com/corral-exec/corral/sandbox/files"
)

// Commands that are root in a sandbox write everywhere in it, and what they write on the
// disk of this machine is the owner's.
func TestRoot(t *testing.T) {
	for _, runtime := range []string{"runsc", "runsc-uds"} {
		t.Run(runtime, func(t *testing.T) {
			dir := t.TempDir()
			if err := errors.Join(os.Chmod(dir, 0o700), os.Chown(dir, 4321, 4322), os.WriteFile(filepath.Join(dir, "a"), []byte("mine"), 0o600), os.Chown(filepath.Join(dir, "a"), 4321, 4322),
				os.WriteFile(filepath.Join(dir, "foreign"), []byte("secret"), 0o600), os.Chown(filepath.Join(dir, "foreign"), 4399, 4399)); err != nil {
				t.Fatal(err)
			}
			b := newBench(t)
			for name, change := range map[string]func(*sandbox.Config){
				"private": func(*sandbox.Config) {},
				"ro":      func(c *sandbox.Config) { c.Mounts.Binds = []string{dir + ":/srv/dir:ro"} },
			} {
				x := b.open(func(c *sandbox.Config) {
					c.Name, c.Runtime, c.Isolation.Root, c.Isolation.User = name, runtime, true, "4321:4322"
					change(c)
				})
				want := "0 0\nmine\n0 0\n33\n34 35\n"
				if got := says(t, x, `echo $(id -u) $(id -g); mkdir /app && echo mine >/app/f && cat /app/f
					echo x >file && chmod 4755 file && stat -c '%u %g' file
					chown 33 /app/f && stat -c %u /app/f
					echo y >other && chown 34:35 other && stat -c '%u %g' other`) + "\n"; got != want {
					t.Errorf("%s: %q, want %q", name, got, want)
				}
				if got := says(t, x, "grep -E '^(CapEff|NoNewPrivs)' /proc/self/status | tr '\\n' ' '"); got != "CapEff:\t00000000000000fb NoNewPrivs:\t1" && got != "CapEff:\t00000000000000fb" {
					t.Errorf("%s: %q", name, got)
				}
				host, err := x.HostWorkspace(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				info, err := os.Stat(filepath.Join(host, "file"))
				if err != nil {
					t.Fatal(err)
				}
				uid := info.Sys().(*syscall.Stat_t).Uid
				if uid == 0 {
					t.Errorf("%s: on the disk the file is root's", name)
				}
				if name == "ro" {
					if out := output(t, x, "exec 2>&1; cat /srv/dir/*; cat /srv/dir/foreign; chown 0 /srv/dir/foreign; cat /srv/dir/foreign; true"); !strings.HasPrefix(out, "mine") || strings.Contains(out, "secret") {
						t.Errorf("of its owner's files and another user's it reads %q", out)
					}
				}
				f, err := x.Files(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				all, ok := f.(files.Sandbox)
				if !ok {
					t.Fatalf("%T", f)
				}
				// Busybox cannot tell what has changed, and nothing is kept in its place.
				if c, err := all.Changes(); err != nil {
					t.Error(err)
				} else if err := errors.Join(c.Begin(t.Context()), c.Save(t.Context(), io.Discard, 1<<20)); err == nil || !strings.Contains(err.Error(), "of GNU") {
					t.Errorf("%s: changes were kept: %v", name, err)
				}
				for _, file := range []string{sandbox.Workdir + "/file", "/app/f"} {
					if st, err := f.Stat(t.Context(), file); err != nil || file != "/app/f" && st.UID != 0 {
						t.Errorf("%s: %+v, %v", file, st, err)
					}
				}
			}
		})
	}
	b := newBench(t)
	for want, change := range map[string]func(*sandbox.Config){
		"rights outside": func(*sandbox.Config) {},
		"its own":        func(c *sandbox.Config) { c.Runtime, c.Mounts.Binds = "runsc", []string{t.TempDir() + ":/srv/dir"} },
		"its own,": func(c *sandbox.Config) {
			c.Runtime, c.Workspace.Dir, c.Workspace.Access = "runsc", t.TempDir(), sandbox.AccessReadWrite
		},
	} {
		x := b.open(func(c *sandbox.Config) { c.Isolation.Root = true; change(c) })
		if _, err := x.Start(t.Context(), corral.Command{Shell: "true"}); !errors.Is(err, corral.ErrDenied) || !strings.Contains(err.Error(), want) || len(b.containers()) != 0 {
			t.Errorf("%s: %v (%s); containers %v", want, err, corral.Hint(err), b.containers())
		}
	}
}
