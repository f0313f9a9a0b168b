package landlock

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral/internal/confine"
	"github.com/corral-exec/corral/internal/spawn"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// run starts a program in a domain and returns what it wrote, and its exit code.
func run(t *testing.T, s *Starter, d *confine.Domain, args ...string) (out string, code int, got Started) {
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
	got, err = s.Start(d, args[0], args, spawn.Attr{Env: []string{"PATH=/usr/bin:/bin", "LC_ALL=C"}, Files: [3]int{int(null.Fd()), int(w.Fd()), int(w.Fd())}})
	w.Close()
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	text := new(strings.Builder)
	buf := make([]byte, 4096)
	for {
		n, err := r.Read(buf)
		text.Write(buf[:n])
		if err != nil {
			break
		}
	}
	var ws syscall.WaitStatus
	if _, err := syscall.Wait4(got.PID, &ws, 0, nil); err != nil {
		t.Fatal(err)
	}
	return text.String(), ws.ExitStatus(), got
}

func real(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// loader is the one of this machine's programs.
func loader(t *testing.T) string {
	t.Helper()
	for _, path := range []string{"/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1"} {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	t.Fatal("there is no loader that is known")
	return ""
}

func TestStart(t *testing.T) {
	for _, procs := range []int{1, runtime.NumCPU()} {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
		testStart(t)
	}
}

func testStart(t *testing.T) {
	if _, err := ABI(); err != nil {
		t.Fatal(err)
	}
	s := new(Starter)
	defer s.Close()
	in, out := t.TempDir(), t.TempDir()
	bash, ld, touch, cat := real(t, "bash"), loader(t), real(t, "touch"), real(t, "cat")
	d := confine.Domain{Programs: []string{bash, cat}, Loaders: []string{ld}, Writable: []string{in}}
	for _, tc := range []struct {
		name, text string
		code       int
		refused    []string
	}{
		{"what is named", "cat /dev/null; exit 3", 3, nil},
		{"what is not", "touch " + in + "/a", 126, []string{touch}},
		{"a child's child", "(exec bash -c 'touch " + in + "/a; exit')", 126, []string{touch}},
		{"the loader", ld + " " + touch + " " + in + "/a", 127, []string{touch}},
		{"the loader, by another way to it", "cd /; exec -a x ." + ld + " --preload '' " + touch + " " + in + "/a", 127, []string{touch}},
		{"the loader of what is named", ld + " " + cat + " /dev/null", 127, []string{cat}},
		{"a write inside", "echo a >" + in + "/b && cat " + in + "/b >/dev/null", 0, nil},
		{"a write outside", "echo a >" + out + "/b", 1, nil},
		{"a copy", "cat " + touch + " >" + in + "/x; chmod() { :; }; exec " + in + "/x " + in + "/a", 126, nil},
	} {
		text, code, got := run(t, s, &d, bash, "-c", tc.text)
		if code != tc.code || !slices.Equal(got.Jail.Refused(), tc.refused) {
			t.Errorf("%s: exit code %d, refused %q: %s", tc.name, code, got.Jail.Refused(), text)
		}
		if e := got.Enforced; !e.Programs || !e.Files || !e.Loaders {
			t.Errorf("%s: in force is %+v", tc.name, e)
		}
		if _, err := os.Stat(in + "/a"); err == nil {
			t.Errorf("%s: touch ran", tc.name)
		}
	}
	// This program is not in it.
	if b, err := exec.Command(touch, filepath.Join(out, "a")).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, b)
	}
	if _, err := os.Stat(filepath.Join(out, "a")); err != nil {
		t.Error(err)
	}
}

// What Landlock does not see.
func TestFilter(t *testing.T) {
	s := new(Starter)
	defer s.Close()
	python, err := filepath.EvalSymlinks("/usr/bin/python3")
	if err != nil {
		t.Fatal(err)
	}
	d := confine.Domain{Programs: []string{python}, Loaders: []string{loader(t)}, AnyFile: true}
	for name, text := range map[string]string{
		"a file in memory":             "import os; os.memfd_create('x', 0)",
		"everything that is read runs": "import ctypes; assert ctypes.CDLL(None).personality(0x0400000) != -1, 'Permission'",
		"one that is executed":         "import os; fd = os.open('/usr/bin/touch', os.O_RDONLY); os.execve(fd, ['touch', '/tmp/x'], {})",
	} {
		out, code, _ := run(t, s, &d, python, "-c", text)
		if code == 0 || !strings.Contains(out, "Permission") && !strings.Contains(out, "not permitted") {
			t.Errorf("%s: %d, %s", name, code, out)
		}
	}
	for name, text := range map[string]string{
		"one that cannot be executed": "import os; os.memfd_create('x', 8)",
		"to ask":                      "import ctypes; assert ctypes.CDLL(None).personality(0xffffffff) != -1",
		"code that is made":           "import mmap; mmap.mmap(-1, 4096, prot=7)",
		"a rename":                    "import os, tempfile; a, b = tempfile.mkdtemp(), tempfile.mkdtemp(); open(a+'/x', 'w'); os.rename(a+'/x', b+'/x')",
	} {
		if out, code, _ := run(t, s, &d, python, "-c", text); code != 0 {
			t.Errorf("%s: %d, %s", name, code, out)
		}
	}
}

// No thread of this program is restricted: only the one was that found out how the
// kernel asks, and it has ended.
func TestThreads(t *testing.T) {
	s := new(Starter)
	defer s.Close()
	d := confine.Domain{Programs: []string{real(t, "true")}, Loaders: []string{loader(t)}}
	run(t, s, &d, real(t, "true"))
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		tasks, err := filepath.Glob("/proc/self/task/*/status")
		if err != nil {
			t.Fatal(err)
		}
		restricted := slices.IndexFunc(tasks, func(task string) bool {
			b, err := os.ReadFile(task)
			return err == nil && strings.Contains(string(b), "NoNewPrivs:\t1")
		})
		if restricted < 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s of %d threads is restricted", tasks[restricted], len(tasks))
		}
	}
}

// A kernel without Landlock, or in which it is off, says so, and nothing runs.
func TestUnsupported(t *testing.T) {
	before := createRuleset
	defer func() { createRuleset = before; abi = onceABI() }()
	for errno, want := range map[unix.Errno]string{unix.ENOSYS: "has no Landlock", unix.EOPNOTSUPP: "has Landlock turned off", unix.EPERM: "does not say which Landlock"} {
		createRuleset = func(unsafe.Pointer, uintptr, uintptr) (int, error) { return -1, errno }
		abi = onceABI()
		_, err := new(Starter).Start(&confine.Domain{}, "/bin/true", []string{"true"}, spawn.Attr{})
		if u := (*Unenforced)(nil); !errors.As(err, &u) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", errno, err)
		}
	}
}

// A process that is just made has a copy of every descriptor, so that the kernel
// may tell again that a command has ended after the watch has closed its own. What
// has its number by then is somebody else's.
func TestDescriptorThatIsShared(t *testing.T) {
	s := new(Starter)
	defer s.Close()
	name := real(t, "cat")
	d := confine.Domain{Programs: []string{name}, Loaders: []string{loader(t)}}
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	got, err := s.Start(&d, name, []string{name}, spawn.Attr{Files: [3]int{pipe[0], 1, 2}})
	if err != nil {
		t.Fatal(err)
	}
	fd := -1
	s.watch.mu.Lock()
	for n, j := range s.watch.jails {
		if j == got.Jail {
			fd = int(n)
		}
	}
	s.watch.mu.Unlock()
	shared, err := unix.Dup(fd)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(shared)
	unix.Close(pipe[0])
	unix.Close(pipe[1])
	if _, err := syscall.Wait4(got.PID, nil, 0, nil); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		s.watch.mu.Lock()
		_, watched := s.watch.jails[int32(fd)]
		s.watch.mu.Unlock()
		if !watched {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the end is not seen")
		}
	}
	// Somebody else's, with that number.
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil {
		t.Fatalf("descriptor %d is still open", fd)
	}
	if err := unix.Dup3(s.watch.end, fd, unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		time.Sleep(time.Millisecond)
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil {
			t.Fatalf("the watch closed a descriptor that is not its own: %v", err)
		}
	}
	unix.Close(fd)
}

// The rules that an older kernel can be told.
func TestOlderKernels(t *testing.T) {
	s := new(Starter)
	defer s.Close()
	for version := range 8 {
		abi = func() (int, error) { return max(version, 1), nil }
		dir := t.TempDir()
		d := confine.Domain{Programs: []string{real(t, "bash")}, Loaders: []string{loader(t)}, Writable: []string{dir}}
		if out, code, _ := run(t, s, &d, real(t, "bash"), "-c", "echo a >"+dir+"/a; cat /dev/null"); code != 126 {
			t.Errorf("version %d: %d, %s", version, code, out)
		}
		if _, err := os.Stat(dir + "/a"); err != nil {
			t.Error(err)
		}
	}
	abi = onceABI()
}

// The cost, side by side.
func BenchmarkStart(b *testing.B) {
	s := new(Starter)
	defer s.Close()
	ld, err := filepath.EvalSymlinks("/lib64/ld-linux-x86-64.so.2")
	if err != nil {
		b.Skip(err)
	}
	d := confine.Domain{Programs: []string{"/usr/bin/bash", "/usr/bin/true"}, Loaders: []string{ld}, Writable: []string{"/tmp", "/var/tmp", b.TempDir()}}
	args := []string{"/usr/bin/true"}
	attr := spawn.Attr{Files: [3]int{0, 1, 2}}
	fork := func() (int, error) { pid, _, err := spawn.Start(args[0], args, &attr); return pid, err }
	loose := d
	loose.AnyProgram = true
	starts := []func() (int, error){
		fork,
		func() (int, error) { g, err := s.Start(&loose, args[0], args, attr); return g.PID, err },
		func() (int, error) { g, err := s.Start(&d, args[0], args, attr); return g.PID, err },
	}
	took := make([][]time.Duration, len(starts))
	for b.Loop() {
		for i, start := range starts {
			began := time.Now()
			pid, err := start()
			if err != nil {
				b.Fatal(err)
			}
			if _, err := syscall.Wait4(pid, nil, 0, nil); err != nil {
				b.Fatal(err)
			}
			took[i] = append(took[i], time.Since(began))
		}
	}
	for i, name := range []string{"without", "files", "all"} {
		slices.Sort(took[i])
		b.ReportMetric(float64(took[i][len(took[i])/2].Nanoseconds())/1e3, name+"-p50-µs")
		b.ReportMetric(float64(took[i][len(took[i])/20].Nanoseconds())/1e3, name+"-p5-µs")
	}
}
