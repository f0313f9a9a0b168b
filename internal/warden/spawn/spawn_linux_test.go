//go:build amd64 || arm64

package spawn

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// run starts a program, and returns what it wrote and how it ended.
func run(t *testing.T, a Attr, args ...string) (string, syscall.WaitStatus) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	a.Files = [3]int{int(null.Fd()), int(w.Fd()), int(w.Fd())}
	pid, err := Start(args[0], args, &a)
	w.Close()
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text), wait(t, pid)
}

func wait(t *testing.T, pid int) (ws syscall.WaitStatus) {
	t.Helper()
	if _, err := syscall.Wait4(pid, &ws, 0, nil); err != nil {
		t.Fatal(err)
	}
	return ws
}

func TestStart(t *testing.T) {
	dir := t.TempDir()
	// Whoever started this test may have left some open.
	b, err := exec.Command("/bin/ls", "/proc/self/fd").Output()
	if err != nil {
		t.Fatal(err)
	}
	others := string(b)
	for _, tc := range []struct {
		name, text, out string
		attr            Attr
		code            int
	}{
		{name: "exit", text: "exit 7", code: 7},
		{name: "output", text: "echo a; echo b >&2", out: "a\nb\n"},
		{name: "directory", text: "pwd", out: dir + "\n", attr: Attr{Dir: dir}},
		{name: "environment", text: "echo $A-$B", out: "1-\n", attr: Attr{Env: []string{"A=1"}}},
		{name: "session", text: `read -r pid _ _ _ pgid sid _ </proc/self/stat; [ $sid = $$ ] && [ $pgid = $$ ] || exit 1`},
		{name: "no other descriptors", text: "ls /proc/self/fd", out: others},
		{name: "no signal is blocked", text: "grep SigBlk /proc/self/status", out: "SigBlk:\t0000000000000000\n"},
		{name: "limit", text: "grep 'realtime timeout' /proc/self/limits | tr -s ' '", attr: Attr{RealTime: &unix.Rlimit{Cur: 1 << 57, Max: unix.RLIM_INFINITY}}, out: "Max realtime timeout 144115188075855872 unlimited us \n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.attr.Env = append(tc.attr.Env, "PATH=/usr/bin:/bin")
			out, ws := run(t, tc.attr, "/bin/sh", "-c", tc.text)
			if out != tc.out || ws.ExitStatus() != tc.code {
				t.Errorf("%q, status %#x; not %q, %d", out, ws, tc.out, tc.code)
			}
		})
	}
}

// The descriptors are put in place in any order.
func TestFiles(t *testing.T) {
	if os.Getenv("SPAWN_TEST_FILES") == "" {
		// Where 0, 1 and 2 may be changed.
		cmd := exec.Command(os.Args[0], "-test.run=^TestFiles$", "-test.count=1")
		cmd.Env = append(os.Environ(), "SPAWN_TEST_FILES=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	var paths [3]string
	for i := range paths {
		paths[i] = filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(paths[i], nil, 0o600); err != nil {
			t.Fatal(err)
		}
		fd, err := unix.Open(paths[i], unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err == nil {
			err = unix.Dup3(fd, i, unix.O_CLOEXEC)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, files := range [][3]int{{0, 1, 2}, {2, 1, 0}, {1, 2, 0}, {0, 0, 0}, {2, 2, 1}} {
		text := ""
		for i, from := range files {
			text += fmt.Sprintf("[ $(readlink /proc/$$/fd/%d) = %s ] || exit %d\n", i, paths[from], 10+i)
		}
		pid, err := Start("/bin/sh", []string{"sh", "-c", text}, &Attr{Files: files, Env: []string{"PATH=/usr/bin:/bin"}})
		if err != nil {
			t.Fatal(err)
		}
		if ws := wait(t, pid); ws != 0 {
			t.Errorf("%v: status %#x", files, ws)
		}
	}
}

// What cannot be executed is told as syscall.ForkExec tells it, and leaves nothing.
func TestErrors(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"plain": 0o600, "nothing": 0o700, "script": 0o700} {
		text := map[string]string{"script": "#!/nowhere/sh\n"}[name]
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	before := descriptors(t)
	for _, tc := range []struct{ file, dir string }{
		{"/nowhere", ""}, {dir, ""}, {dir + "/plain", ""}, {dir + "/nothing", ""}, {dir + "/script", ""}, {"/bin/sh", "/nowhere"}, {"/bin/sh", dir + "/plain"},
	} {
		_, want := syscall.ForkExec(tc.file, []string{"x"}, &syscall.ProcAttr{Dir: tc.dir, Files: []uintptr{0, 1, 2}})
		pid, err := Start(tc.file, []string{"x"}, &Attr{Dir: tc.dir, Files: [3]int{0, 1, 2}})
		if !errors.Is(err, want) || tc.dir == "" && err != want {
			t.Errorf("%s in %q: %v (pid %d), not %v", tc.file, tc.dir, err, pid, want)
		}
	}
	if _, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); err != syscall.ECHILD {
		t.Errorf("children are left: %v", err)
	}
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors are open, not %d", after, before)
	}
	for _, bad := range []func() error{
		func() error { _, err := Start("a\x00", nil, &Attr{}); return err },
		func() error { _, err := Start("a", []string{"a\x00"}, &Attr{}); return err },
		func() error { _, err := Start("a", nil, &Attr{Dir: "a\x00"}); return err },
		func() error { _, err := Start("a", nil, &Attr{Env: []string{"a\x00"}}); return err },
	} {
		if err := bad(); err != syscall.EINVAL {
			t.Errorf("a zero byte: %v", err)
		}
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

func TestTerminal(t *testing.T) {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	if err := unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	slave, err := unix.Open(fmt.Sprintf("/dev/pts/%d", n), unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(slave)
	pid, err := Start("/bin/sh", []string{"sh", "-c", ": </dev/tty"}, &Attr{Files: [3]int{slave, slave, slave}, Terminal: true})
	if err != nil {
		t.Fatal(err)
	}
	if ws := wait(t, pid); ws != 0 {
		t.Errorf("it has no terminal: status %#x", ws)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	fd := int(null.Fd())
	if _, err := Start("/bin/sh", []string{"sh"}, &Attr{Files: [3]int{fd, fd, fd}, Terminal: true}); !errors.Is(err, unix.ENOTTY) || !strings.Contains(err.Error(), "terminal") {
		t.Errorf("a file as a terminal: %v", err)
	}
}

// A child has the limit of open files that this program was started with, unless
// the program has set another.
func TestOpenFiles(t *testing.T) {
	if set := os.Getenv("SPAWN_TEST_LIMIT"); set != "" {
		if set == "set" {
			if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 300, Max: 4096}); err != nil {
				t.Fatal(err)
			}
		}
		if out, _ := run(t, Attr{}, "/bin/sh", "-c", "ulimit -n"); out != os.Getenv("SPAWN_TEST_WANT")+"\n" {
			t.Errorf("%q", out)
		}
		return
	}
	for _, tc := range []struct{ soft, set, want string }{{"256", "no", "256"}, {"256", "set", "300"}, {"4096", "no", "4096"}} {
		cmd := exec.Command("/bin/sh", "-c", `ulimit -Sn "$1" && ulimit -Hn 4096 && exec "$0" -test.run='^TestOpenFiles$' -test.count=1`, os.Args[0], tc.soft)
		cmd.Env = append(os.Environ(), "SPAWN_TEST_LIMIT="+tc.set, "SPAWN_TEST_WANT="+tc.want)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%+v: %v: %s", tc, err, out)
		}
	}
}

// Several are made at a time, beside others of package syscall.
func TestParallel(t *testing.T) {
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 30 {
				if i%2 == 0 {
					if err := exec.Command("/bin/true").Run(); err != nil {
						t.Error(err)
					}
					continue
				}
				pid, err := Start("/bin/sh", []string{"sh", "-c", "exit 3"}, &Attr{Files: [3]int{0, 1, 2}})
				if err != nil {
					t.Error(err)
					continue
				}
				var ws syscall.WaitStatus
				if _, err := syscall.Wait4(pid, &ws, 0, nil); err != nil || ws.ExitStatus() != 3 {
					t.Errorf("%#x, %v", ws, err)
				}
			}
		})
	}
	wg.Wait()
}

// What confines a process is in force before it is executed; what cannot be says so.
func TestConfine(t *testing.T) {
	_, err := Start("/bin/true", []string{"true"}, &Attr{Files: [3]int{0, 1, 2}, Confine: true, Ruleset: 0})
	if c := (*ConfineError)(nil); !errors.As(err, &c) {
		t.Errorf("a ruleset that is none: %v", err)
	}
}
