//go:build e2e && linux

package escape_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/e2e/escape/probes"
	"github.com/corral-exec/corral/internal/escape"
	"github.com/corral-exec/corral/internal/test/built"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/runner"
	"github.com/corral-exec/corral/sandbox"
)

// nobody is the owner of the workspace, and not the user of the sandbox: that has one
// of its own, where it can. It is not 65534, as whom gVisor runs on the host: a control
// that takes all that a user may have would keep other tests' sandboxes from starting.
const nobody = 60998

// A site is what is laid out on the host, and in the workspace of the sandbox.
type site struct {
	escape.Site
	canary *escape.Canary
	secret string
	dir    string // of the test
	work   string // the workspace
}

// newSite builds the program and lays everything out.
func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{dir: testdir.New(t)}
	s.work = filepath.Join(s.dir, "work")
	s.secret, s.Sum = escape.NewSecret()
	for _, d := range []string{s.work, s.path("out"), s.path("nested")} {
		must(t, os.Mkdir(d, 0o755))
		must(t, os.Chmod(d, 0o777))
		must(t, os.Chown(d, nobody, nobody))
	}
	program := s.path("probe")
	built.Copy(t, "cmd/corral-escape", program)
	must(t, os.Chown(program, nobody, nobody))
	s.layOut(t, program)
	s.findDevices(t)
	return s
}

// userOf is the user of a sandbox as the host knows it.
func userOf(t *testing.T, x corral.Executor) string {
	t.Helper()
	res, err := runner.Run(t.Context(), x, corral.Command{Shell: escape.UserScript}, runner.Options{})
	must(t, err)
	user, err := escape.HostUser(res.Stdout.String())
	must(t, err)
	t.Logf("the sandbox has the user %s", user)
	return user
}

// meet starts a process of the host for a sandbox to find, which has the same user.
func (s *site) meet(t *testing.T, user string) {
	t.Helper()
	canary, err := escape.StartCanary(s.secret, s.path("probe"), "-user", user, "-listen", "all")
	must(t, err)
	t.Cleanup(func() {
		if err := canary.Close(); err != nil {
			t.Error(err)
		}
	})
	s.canary, s.Process = canary, canary.Process
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// path is a file in the workspace, on the host.
func (s *site) path(name string) string { return filepath.Join(s.work, name) }

func (s *site) layOut(t *testing.T, program string) {
	t.Helper()
	secret := []byte(s.secret + "\n")
	// Where everybody can get to it: not in the test's directory.
	f, err := os.CreateTemp("", "corral-escape-")
	must(t, err)
	s.File = f.Name()
	t.Cleanup(func() { must(t, os.Remove(s.File)) })
	_, err = f.Write(secret)
	must(t, err)
	must(t, f.Chmod(0o644))
	must(t, f.Close())
	handle, _, err := unix.NameToHandleAt(unix.AT_FDCWD, s.File, 0)
	must(t, err)
	s.Handle = fmt.Sprintf("%d:%x", handle.Type(), handle.Bytes())

	s.Workspace = sandbox.Workdir
	inside := func(name string) string { return sandbox.Workdir + "/" + name }
	s.Locked, s.Foreign, s.SetUID, s.FileCap = inside("locked"), inside("foreign"), inside("setuid"), inside("filecap")
	must(t, os.WriteFile(s.path("locked"), secret, 0o600))
	must(t, os.WriteFile(s.path("foreign"), secret, 0o600))
	must(t, os.Chown(s.path("foreign"), 1, 1))
	content, err := os.ReadFile(program)
	must(t, err)
	must(t, os.WriteFile(s.path("setuid"), content, 0o755))
	must(t, os.Chmod(s.path("setuid"), 0o755|os.ModeSetuid))
	must(t, os.WriteFile(s.path("filecap"), content, 0o755))
	must(t, os.Chmod(s.path("filecap"), 0o755))
	must(t, unix.Setxattr(s.path("filecap"), "security.capability", probes.NetRaw(), 0))
}

// harmless are devices that can be opened without an effect. A watchdog, which
// resets the machine, is not among them.
var harmless = []string{"autofs", "fuse", "kvm", "loop-control", "tun", "userfaultfd", "vga_arbiter"}

func (s *site) findDevices(t *testing.T) {
	t.Helper()
	for _, f := range fields(t, "/proc/misc") {
		if len(f) == 2 && slices.Contains(harmless, f[1]) {
			s.Misc = append(s.Misc, "10:"+f[0])
		}
	}
	if len(s.Misc) == 0 {
		t.Fatalf("this machine has none of the devices %q", harmless)
	}
	s.Disk = s.disk(t)
}

// disk is a block device of the host that holds the secret.
func (s *site) disk(t *testing.T) string {
	t.Helper()
	const size = 64 << 10
	file, err := os.OpenFile(filepath.Join(s.dir, "disk"), os.O_CREATE|os.O_RDWR, 0o600)
	must(t, err)
	defer file.Close()
	_, err = file.WriteString(s.secret)
	must(t, err)
	must(t, file.Truncate(size))
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	must(t, err)
	defer control.Close()
	for {
		n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		must(t, err)
		loop, err := os.OpenFile(fmt.Sprintf("/dev/loop%d", n), os.O_RDWR, 0)
		must(t, err)
		cfg := unix.LoopConfig{Fd: uint32(file.Fd())}
		cfg.Info.Flags = unix.LO_FLAGS_READ_ONLY | unix.LO_FLAGS_AUTOCLEAR // it goes when it is closed
		err = unix.IoctlLoopConfigure(int(loop.Fd()), &cfg)
		if errors.Is(err, unix.EBUSY) { // somebody was faster
			must(t, loop.Close())
			continue
		}
		must(t, err)
		t.Cleanup(func() { must(t, loop.Close()) })
		var st unix.Stat_t
		must(t, unix.Fstat(int(loop.Fd()), &st))
		return fmt.Sprintf("%d:%d", unix.Major(st.Rdev), unix.Minor(st.Rdev))
	}
}

func fields(t *testing.T, file string) [][]string {
	t.Helper()
	f, err := os.Open(file)
	must(t, err)
	defer f.Close()
	var all [][]string
	for lines := bufio.NewScanner(f); lines.Scan(); {
		all = append(all, strings.Fields(lines.Text()))
	}
	return all
}

// untouched demands that nothing was done to what is laid out.
func (s *site) untouched(t *testing.T) {
	t.Helper()
	for _, what := range s.canary.Touched() {
		t.Errorf("somebody got at the process of the host: %s", what)
	}
	if b, err := os.ReadFile(s.File); err != nil || string(b) != s.secret+"\n" {
		t.Errorf("the file of the host was changed: %q, %v", b, err)
	}
	if err := syscall.Kill(s.PID, 0); err != nil {
		t.Errorf("the process of the host is gone: %v", err)
	}
}
