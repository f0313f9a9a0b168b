package landlock

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral/internal/confine"
	"github.com/corral-exec/corral/internal/warden/spawn"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A result is how a program in a domain went.
type result struct {
	Started
	out     string
	code    int
	refused []string
}

// run starts a program in a domain and waits for it.
func run(t *testing.T, s *Starter, d *confine.Domain, args ...string) result {
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
	got, err := s.Start(d, args[0], args, spawn.Attr{Env: []string{"PATH=/usr/bin:/bin", "LC_ALL=C"}, Files: [3]int{int(null.Fd()), int(w.Fd()), int(w.Fd())}})
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
	ws := reap(t, got.Jail)
	return result{got, text.String(), ws.ExitStatus(), got.Jail.Refused()}
}

// reap waits for a command's first process.
func reap(t testing.TB, j *Jail) (ws syscall.WaitStatus) {
	t.Helper()
	if err := unix.Waitid(unix.P_PID, j.pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	j.Forget()
	if _, err := syscall.Wait4(j.pid, &ws, 0, nil); err != nil {
		t.Fatal(err)
	}
	return ws
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
		got := run(t, s, &d, bash, "-c", tc.text)
		if got.code != tc.code || !slices.Equal(got.refused, tc.refused) {
			t.Errorf("%s: exit code %d, refused %q: %s", tc.name, got.code, got.refused, got.out)
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
		got := run(t, s, &d, python, "-c", text)
		if got.code == 0 || !strings.Contains(got.out, "Permission") && !strings.Contains(got.out, "not permitted") {
			t.Errorf("%s: %d, %s", name, got.code, got.out)
		}
	}
	for name, text := range map[string]string{
		"one that cannot be executed": "import os; os.memfd_create('x', 8)",
		"to ask":                      "import ctypes; assert ctypes.CDLL(None).personality(0xffffffff) != -1",
		"code that is made":           "import mmap; mmap.mmap(-1, 4096, prot=7)",
		"a rename":                    "import os, tempfile; a, b = tempfile.mkdtemp(), tempfile.mkdtemp(); open(a+'/x', 'w'); os.rename(a+'/x', b+'/x')",
	} {
		if got := run(t, s, &d, python, "-c", text); got.code != 0 {
			t.Errorf("%s: %d, %s", name, got.code, got.out)
		}
	}
}

// One thread of this program has the filter, as long as the Starter is used.
func TestThreads(t *testing.T) {
	s := new(Starter)
	defer s.Close()
	d := confine.Domain{Programs: []string{real(t, "true")}, Loaders: []string{loader(t)}}
	for _, want := range []int{1, 0} {
		if want > 0 {
			run(t, s, &d, real(t, "true"))
		} else {
			s.Close()
		}
		for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
			tasks, err := filepath.Glob("/proc/self/task/*/status")
			if err != nil {
				t.Fatal(err)
			}
			restricted := 0
			for _, task := range tasks {
				b, err := os.ReadFile(task)
				if err == nil && strings.Contains(string(b), "NoNewPrivs:\t1") && strings.Contains(string(b), "Seccomp_filters:\t1") {
					restricted++
				}
			}
			if restricted == want {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("%d of %d threads are restricted, not %d", restricted, len(tasks), want)
			}
		}
	}
}

// A loader runs what it is given in a domain that names it as a program, for as long
// as the command does, and in no other.
func TestNamedLoader(t *testing.T) {
	s := new(Starter)
	defer s.Close()
	bash, cat, ld := real(t, "bash"), real(t, "cat"), loader(t)
	named := confine.Domain{Programs: []string{bash, cat, ld}, Loaders: []string{ld}, AnyFile: true}
	other := confine.Domain{Programs: []string{bash, cat}, Loaders: []string{ld}, AnyFile: true}
	var group sync.WaitGroup
	defer group.Wait()
	for range 4 {
		group.Go(func() {
			for range 20 {
				for _, args := range [][]string{{ld, cat, "/dev/null"}, {bash, "-c", ld + " " + cat + " /dev/null; exit"}} {
					if got := run(t, s, &named, args...); got.code != 0 {
						t.Errorf("%q: exit code %d, refused %q: %s", args, got.code, got.refused, got.out)
					}
					if got := run(t, s, &other, args...); got.code != 127 || !slices.Equal(got.refused, []string{cat}) {
						t.Errorf("%q, not named: exit code %d, refused %q: %s", args, got.code, got.refused, got.out)
					}
				}
			}
		})
	}
}

// What a process asks before it is known whose it is, since who made it is slow, has
// the same answers as what it asks later.
func TestQuestionsBefore(t *testing.T) {
	s := new(Starter)
	defer s.Close()
	version, err := ABI()
	if err != nil {
		t.Fatal(err)
	}
	bash, cat, ld := real(t, "bash"), real(t, "cat"), loader(t)
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	args := []string{bash, "-c", "exec " + ld + " " + cat + " /dev/null"}
	for _, named := range []bool{false, true} {
		d := confine.Domain{Programs: []string{bash, cat}, Loaders: []string{ld}, AnyFile: true}
		if named {
			d.Programs = append(d.Programs, ld)
		}
		w, err := s.prepare(&d)
		if err != nil {
			t.Fatal(err)
		}
		rules, err := s.rules.get(&d, version)
		if err != nil {
			t.Fatal(err)
		}
		fd := int(null.Fd())
		attr := spawn.Attr{Files: [3]int{fd, fd, fd}, Confine: true, Ruleset: rules.fd, Secret: uintptr(w.secret)}
		for delay := time.Duration(0); delay < 5*time.Millisecond; delay += 10 * time.Microsecond {
			j := &Jail{watch: w, rules: rules}
			if err := w.start(j, func() (int, error) {
				pid, err := spawn.Start(bash, args, &attr)
				for end := time.Now().Add(delay); time.Now().Before(end); {
				}
				return pid, err
			}); err != nil {
				t.Fatal(err)
			}
			ws := reap(t, j)
			if refused := j.Refused(); named != (ws.ExitStatus() == 0) || named != (len(refused) == 0) {
				t.Errorf("named %v, known after %v: exit code %d, refused %q", named, delay, ws.ExitStatus(), refused)
			}
		}
		s.rules.put(rules)
	}
}

// Whose process it is that is refused: of another session, of another thread. What is left
// of a command that has ended is refused as well.
func TestOwner(t *testing.T) {
	s := new(Starter)
	defer s.Close()
	python, ld, touch, dir := real(t, "/usr/bin/python3"), loader(t), real(t, "touch"), t.TempDir()
	d := confine.Domain{Programs: []string{python}, Loaders: []string{ld}, Writable: []string{dir}}
	for name, tc := range map[string]struct {
		text, out string
		refused   []string
	}{
		// It ends when all that have the pipe have.
		"another session": {"r, w = os.pipe()\nif os.fork() == 0: os.setsid(); os.fork() and os.wait() or os.execv(touch, ['touch', made])\nelse: os.close(w); os.read(r, 1)", "Permission", []string{touch}},
		"another thread":  {"threading.Thread(target=os.execv, args=(ld, [ld, touch, made])).start(); time.sleep(60)", "shared object", []string{touch}},
		// It has another parent and another session by then.
		"one that is left": {"if os.fork() == 0:\n if os.fork() == 0: os.setsid(); time.sleep(0.2); os.execv(ld, [ld, touch, made])", "shared object", nil},
	} {
		text := "import os, threading, time; ld, touch, made = '" + ld + "', '" + touch + "', '" + dir + "/a'\n" + tc.text
		got := run(t, s, &d, python, "-c", text)
		if !strings.Contains(got.out, tc.out) || !slices.Equal(got.refused, tc.refused) {
			t.Errorf("%s: refused %q: %s", name, got.refused, got.out)
		}
		if _, err := os.Stat(dir + "/a"); err == nil {
			t.Fatalf("%s: touch ran", name)
		}
	}
	if len(s.watch.jails) != 0 {
		t.Errorf("%d commands are still known", len(s.watch.jails))
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

// The rules that an older kernel can be told.
func TestOlderKernels(t *testing.T) {
	s := new(Starter)
	defer s.Close()
	for version := range 8 {
		abi = func() (int, error) { return max(version, 1), nil }
		dir := t.TempDir()
		d := confine.Domain{Programs: []string{real(t, "bash")}, Loaders: []string{loader(t)}, Writable: []string{dir}}
		if got := run(t, s, &d, real(t, "bash"), "-c", "echo a >"+dir+"/a; cat /dev/null"); got.code != 126 {
			t.Errorf("version %d: %d, %s", version, got.code, got.out)
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
	loose := d
	loose.AnyProgram = true
	starts := []func() (Started, error){
		func() (Started, error) { pid, err := spawn.Start(args[0], args, &attr); return Started{PID: pid}, err },
		func() (Started, error) { return s.Start(&loose, args[0], args, attr) },
		func() (Started, error) { return s.Start(&d, args[0], args, attr) },
	}
	took := make([][]time.Duration, len(starts))
	for b.Loop() {
		for i, start := range starts {
			began := time.Now()
			got, err := start()
			if err != nil {
				b.Fatal(err)
			}
			if got.Jail == nil {
				got.Jail = &Jail{pid: got.PID}
			}
			reap(b, got.Jail)
			took[i] = append(took[i], time.Since(began))
		}
	}
	for i, name := range []string{"without", "files", "all"} {
		slices.Sort(took[i])
		b.ReportMetric(float64(took[i][len(took[i])/2].Nanoseconds())/1e3, name+"-p50-µs")
		b.ReportMetric(float64(took[i][len(took[i])/20].Nanoseconds())/1e3, name+"-p5-µs")
	}
}
