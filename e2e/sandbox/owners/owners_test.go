//go:build e2e

// Package owners_test runs sandboxes where this machine's users and files are not
// those of the engine: with an engine of another user's or one that maps users, and
// with corral itself in a container.
package owners_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/internal/test/enginetest"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/internal/test/wardenbintest"
	"github.com/corral-exec/corral/runner"
	"github.com/corral-exec/corral/sandbox"
	"github.com/corral-exec/corral/sandbox/docker"
	"github.com/corral-exec/corral/sandbox/files"
	"github.com/corral-exec/corral/sandbox/private"
)

// ownersHost is set in a process that is a user's, who does the part of the
// tests that is for a rootless engine.
const ownersHost = "CORRAL_TEST_OWNERS_HOST"

// What the agent writes, the user owns; what the user owns, the agent can read:
// on an engine of root, on one of root that remaps users, on a rootless one.
func TestOwners(t *testing.T) {
	if host := os.Getenv(ownersHost); host != "" {
		matrix(t, host, os.Geteuid(), os.Getegid(), os.Getenv("CORRAL_TEST_WARDEN"))
		return
	}
	if os.Geteuid() != 0 {
		t.Fatal("run this as root, who can start engines of every kind")
	}
	warden := wardenbintest.Build(t)
	name, uid, gid := enginetest.NewUser(t)
	t.Run("root", func(t *testing.T) { matrix(t, "", uid, gid, warden) })
	t.Run("userns-remap", func(t *testing.T) {
		matrix(t, enginetest.Dockerd(t, nil, "--userns-remap="+name), uid, gid, warden)
	})
	t.Run("rootless", func(t *testing.T) {
		host := enginetest.Dockerd(t, &enginetest.User{UID: uid, GID: gid})
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestOwners$", "-test.v", "-test.timeout=4m")
		open := copyFor(t, warden)
		cmd.Env = append(os.Environ(), ownersHost+"="+host, "CORRAL_TEST_WARDEN="+open, "HOME=/nonexistent", "TMPDIR="+filepath.Dir(open))
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, Pdeathsig: syscall.SIGKILL}
		cmd.Dir = filepath.Dir(open)
		out, err := cmd.CombinedOutput()
		t.Logf("%s", out)
		if err != nil {
			t.Fatal(err)
		}
	})
}

// matrix is what holds on an engine, for each kind of access, with files of a
// user.
func matrix(t *testing.T, host string, uid, gid int, warden string) {
	engine, err := docker.New(docker.Options{Host: host})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := engine.Close(); err != nil {
			t.Error(err)
		}
	})
	store := images.Store{Engine: engine.Images()}
	if _, err := store.Ensure(t.Context(), images.Busybox, nil); err != nil {
		t.Fatal(err)
	}
	for _, of := range []struct {
		name   string
		access sandbox.Access
		size   int64
		root   bool // commands are root
	}{
		{"rw", sandbox.AccessReadWrite, 0, false},
		{"ro", sandbox.AccessReadOnly, 0, false},
		{"none", sandbox.AccessNone, 0, false},
		{"none of a size", sandbox.AccessNone, 64 << 20, false},
		{"rw, root", sandbox.AccessReadWrite, 0, true},
		{"ro, root", sandbox.AccessReadOnly, 0, true},
		{"none, root", sandbox.AccessNone, 0, true},
	} {
		t.Run(of.name, func(t *testing.T) {
			access := of.access
			m := &cell{root: of.root, T: t, work: filepath.Join(testdir.New(t), "work"), state: filepath.Join(testdir.New(t), "state"), uid: uid, gid: gid, access: access}
			m.fill()
			cfg := sandbox.Config{Engine: engine, StateDir: m.state, Image: images.Busybox, WardenPath: warden, Workspace: sandbox.Workspace{Access: access, Size: of.size}}
			cfg.Isolation.Root = of.root
			if access != sandbox.AccessNone {
				cfg.Workspace.Dir = m.work
			}
			shared := filepath.Join(m.state, "shared", "one")
			cfg.Mounts.Volumes = []sandbox.Volume{{Dir: shared, Target: "/mnt/shared"}}
			if of.size == 0 || os.Geteuid() == 0 {
				if m.shared, err = cfg.Volume(t.Context(), shared); err != nil {
					t.Fatal(err)
				}
			}
			e, err := sandbox.New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			removed := false
			t.Cleanup(func() {
				if !removed {
					_ = e.Remove(context.Background())
				}
				if err := e.Close(); err != nil {
					t.Error(err)
				}
			})
			if of.size > 0 && os.Geteuid() != 0 {
				if _, err := e.Start(t.Context(), corral.Command{Shell: "true"}); err == nil || !strings.Contains(err.Error(), "is rootless, and only root can mount what limits it") {
					t.Errorf("%v\nhint: %s", err, corral.Hint(err))
				}
				return
			}
			if info, err := engine.Info(t.Context()); err != nil || of.root && !info.KeepsRoot("") {
				if _, serr := e.Start(t.Context(), corral.Command{Shell: "true"}); err != nil || !errors.Is(serr, corral.ErrDenied) {
					t.Errorf("%v, %v", err, serr)
				}
				return
			}
			m.box = e
			if m.files, err = e.Files(t.Context()); err != nil {
				t.Fatal(err)
			}
			m.check()
			workspace, err := e.HostWorkspace(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := e.Remove(t.Context()); err != nil {
				t.Fatal(err)
			}
			removed = true
			if info, err := m.shared.Stat(t.Context(), "/sub/made"); err != nil || info.Size != 2 {
				t.Errorf("a file of the volume went with the sandbox: %+v, %v", info, err)
			}
			if err := private.Remove(shared); err != nil {
				t.Error(err)
			}
			if access == sandbox.AccessNone {
				if left, err := os.ReadDir(workspace); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("left of the private workspace is %v, %v", left, err)
				}
			} else if _, err := os.Stat(filepath.Join(m.work, "0600")); err != nil {
				t.Errorf("a file of the user's went with the sandbox: %v", err)
			}
			// Another program's may be there, while its containers start.
			if left, err := filepath.Glob(fmt.Sprintf("/run/corral-mounts/%d-*", os.Getpid())); err != nil || len(left) != 0 {
				t.Errorf("mounts are left: %v, %v", left, err)
			}
		})
	}
}

// A cell of the matrix.
type cell struct {
	*testing.T
	work, state string
	uid, gid    int
	access      sandbox.Access
	root        bool
	box         corral.Executor
	files       files.FS
	shared      files.FS // the volume at /mnt/shared
}

// fill makes the user's files.
func (m *cell) fill() {
	if err := os.Mkdir(m.work, 0o700); err != nil {
		m.Fatal(err)
	}
	for _, mode := range []os.FileMode{0o600, 0o640, 0o400} {
		name := filepath.Join(m.work, fmt.Sprintf("%04o", mode))
		if err := errors.Join(os.WriteFile(name, []byte("the user's"), 0o600), os.Chmod(name, mode), os.Chown(name, m.uid, m.gid)); err != nil {
			m.Fatal(err)
		}
	}
	if err := os.Chown(m.work, m.uid, m.gid); err != nil {
		m.Fatal(err)
	}
	if os.Geteuid() == 0 {
		foreign := filepath.Join(m.work, "foreign")
		if err := errors.Join(os.WriteFile(foreign, []byte("another's"), 0o600), os.Chown(foreign, 4399, 4399)); err != nil {
			m.Fatal(err)
		}
	}
}

// try runs a command as an agent would.
func (m *cell) try(text string) (string, bool) {
	m.Helper()
	r, err := runner.Run(m.Context(), m.box, corral.Command{Shell: text}, runner.Options{})
	if err != nil {
		m.Fatalf("%s: %v", text, err)
	}
	return r.Stdout.String() + r.Stderr.String(), r.Exit.Success()
}

func (m *cell) owned(dir string, names ...string) {
	m.Helper()
	for _, name := range names {
		info, err := os.Lstat(filepath.Join(dir, name))
		if err != nil {
			m.Error(err)
			continue
		}
		if st := info.Sys().(*syscall.Stat_t); int(st.Uid) != m.uid || int(st.Gid) != m.gid {
			m.Errorf("%s belongs to %d:%d, want %d:%d", name, st.Uid, st.Gid, m.uid, m.gid)
		}
	}
}

// checkShared checks that a volume is the agent's, whatever the workspace is.
func (m *cell) checkShared() {
	m.Helper()
	if _, err := m.shared.Write(m.Context(), "/first", strings.NewReader("put in"), files.WriteOptions{Mode: 0o600}); err != nil {
		m.Error(err)
	}
	if text, ok := m.try("cd /mnt/shared && cat first && echo more >>first && mkdir -m 700 sub && (umask 077; echo x >sub/made) && stat -c %u . first sub | uniq | wc -l"); !ok || text != "put in1\n" {
		m.Errorf("the volume: %q", text)
	}
	if info, err := m.shared.Stat(m.Context(), "/first"); err != nil || info.Size != 11 {
		m.Errorf("%+v, %v", info, err)
	}
	if _, err := m.shared.Write(m.Context(), "/sub/second", strings.NewReader("x"), files.WriteOptions{}); err != nil {
		m.Error(err)
	}
}

func (m *cell) check() {
	m.checkShared()
	write := func() error {
		_, err := m.files.Write(m.Context(), "by-files", strings.NewReader("x"), files.WriteOptions{})
		return err
	}
	switch text, ok := m.try("! grep -E '^Cap.*[1-9a-f]$' /proc/self/status && grep -q 'NoNewPrivs:.1' /proc/self/status"); {
	case m.root:
		if text, ok := m.try("[ $(id -u) = 0 ] && mkdir /app && echo x >/app/f && chown 33:34 /app/f && grep -q 'NoNewPrivs:.1' /proc/self/status"); !ok {
			m.Errorf("commands are not root: %s", text)
		}
	case !ok:
		m.Errorf("commands have capabilities, or can get some: %s", text)
	}
	if m.access == sandbox.AccessNone {
		if text, ok := m.try("echo x > f && mkdir -m 0 locked && mkdir -p d/e && chmod 0 d && ls -A | wc -l"); !ok || strings.TrimSpace(text) != "3" {
			m.Errorf("the private workspace: %s", text)
		}
		if err := write(); err != nil {
			m.Error(err)
		}
		if text, ok := m.try("cat by-files && echo y >> by-files && rm by-files"); !ok {
			m.Errorf("what came in is not the agent's: %s", text)
		}
		return
	}
	for _, name := range []string{"0600", "0640", "0400"} {
		if text, ok := m.try("cat " + name); !ok || text != "the user's" {
			m.Errorf("the agent reads %s as %q", name, text)
		}
	}
	if text, ok := m.try("cat foreign || chown 0 foreign || chmod 666 foreign"); ok {
		m.Errorf("the agent has another user's file: %s", text)
	}
	if m.access == sandbox.AccessReadOnly {
		for _, text := range []string{"echo x > f", "echo x > 0600", "mkdir d", "rm -f 0600", "chmod 777 0600"} {
			if out, ok := m.try(text); ok {
				m.Errorf("%s: went through: %s", text, out)
			}
		}
		if err := write(); !errors.Is(err, corral.ErrDenied) {
			m.Errorf("a file was written: %v", err)
		}
		return
	}
	if text, ok := m.try("echo more >> 0600 && echo x > f && mkdir d && echo y > d/g && ln -s f l && cp 0400 copy && cat by-files 2>/dev/null; [ -e copy ]"); !ok {
		m.Errorf("the agent cannot write: %s", text)
	}
	if err := write(); err != nil {
		m.Error(err)
	}
	if text, ok := m.try("echo y >> by-files"); !ok {
		m.Errorf("what came in is not the agent's: %s", text)
	}
	m.owned(m.work, "0600", "0640", "f", "d", "d/g", "l", "copy", "by-files")
	i, err := m.files.Stat(m.Context(), "f")
	if inside, ok := m.try("stat -c %u:%g f"); err != nil || !ok || strings.TrimSpace(inside) != fmt.Sprintf("%d:%d", i.UID, i.GID) {
		m.Errorf("the agent sees the owner %s, and we say %+v, %v", inside, i, err)
	}
}

// copyFor is a copy of a program in a directory that anybody can use.
func copyFor(t *testing.T, program string) string {
	t.Helper()
	dir := enginetest.OpenDir(t)
	text, err := os.ReadFile(program)
	to := filepath.Join(dir, "warden")
	if err := errors.Join(err, os.Chmod(dir, 0o777), os.WriteFile(to, text, 0o755)); err != nil {
		t.Fatal(err)
	}
	return to
}
