package exectrace_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral/internal/test/exectrace"
)

func TestMain(m *testing.M) {
	if os.Getenv("THREADS") != "" {
		endAmongThreads()
	}
	goleak.VerifyTestMain(m)
}

// endAmongThreads ends the process by one thread while its first gets signals.
func endAmongThreads() {
	runtime.LockOSThread()
	go func() {
		for range 200 {
			_ = unix.Tgkill(os.Getpid(), os.Getpid(), unix.SIGURG) // which Go ignores
		}
		syscall.Exit(0) // at once, also with the race detector
	}()
	select {}
}

func run(t *testing.T, dir, text string, timeout time.Duration) exectrace.Result {
	t.Helper()
	r, err := exectrace.Run(exectrace.Command{
		Args:    []string{"/bin/sh", "-c", text},
		Env:     []string{"PATH=/usr/bin:/bin"},
		Dir:     dir,
		Timeout: timeout,
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// program makes a program at path, a file that is no other.
func program(t *testing.T, path string) {
	t.Helper()
	data, err := os.ReadFile("/bin/true")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o755); err != nil {
		t.Fatal(err)
	}
}

func TestRun(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	a, b, script := filepath.Join(dir, "a"), filepath.Join(dir, "b"), filepath.Join(dir, "script")
	program(t, a)
	program(t, b)
	if err := os.WriteFile(script, []byte("#!/bin/sh\nexec ./b\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("b", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		text string
		want []string
	}{
		{"./a", []string{a}},
		{"exec ./a", []string{a}},
		{"./a; (cd /; " + b + ")", []string{a, b}},
		{"echo $(./a) | { read x; ./b; }", []string{a, b}},
		{"./script", []string{script, b}},
		{"./link", []string{b}},
		{"setsid ./b", []string{b}},
		{"(setsid sh -c 'sleep 0.2; exec ./a' >/dev/null 2>&1 &)", []string{a}}, // left behind
		{"exec /proc/self/cwd/a", []string{a}},
		{"echo ./a; ./missing; true # ./b", nil},
		{"kill -STOP $$ & wait; ./b", []string{b}},
	} {
		r := run(t, dir, tt.text, 10*time.Second)
		var got []string
		for _, p := range r.Programs {
			if filepath.Dir(p) == dir {
				got = append(got, p)
			}
		}
		slices.Sort(got)
		want := slices.Sorted(slices.Values(tt.want))
		if !slices.Equal(got, want) || r.TimedOut {
			t.Errorf("%s: ran %q (timed out: %v), want %q", tt.text, got, r.TimedOut, want)
		}
	}
}

func TestRunResult(t *testing.T) {
	r := run(t, "/", "echo out; echo err >&2; cat; exit 3", 10*time.Second)
	if string(r.Stdout) != "out\n" || string(r.Stderr) != "err\n" || r.Status.ExitStatus() != 3 {
		t.Errorf("got %q, %q and status %d", r.Stdout, r.Stderr, r.Status.ExitStatus())
	}
	r = run(t, "/", "kill -TERM $$", 10*time.Second)
	if !r.Status.Signaled() || r.Status.Signal().String() != "terminated" {
		t.Errorf("status %#x of a killed command", r.Status)
	}
}

func TestRunTimeout(t *testing.T) {
	began := time.Now()
	r := run(t, "/", "while :; do (sleep 100 & sleep 100 & wait); done", 200*time.Millisecond)
	if !r.TimedOut || time.Since(began) > 5*time.Second {
		t.Errorf("timed out: %v, after %v", r.TimedOut, time.Since(began))
	}
}

func BenchmarkRun(b *testing.B) {
	for b.Loop() {
		_, err := exectrace.Run(exectrace.Command{
			Args: []string{"/bin/bash", "-c", "echo a | cat | wc -l; ls >/dev/null"}, Env: []string{"PATH=/usr/bin:/bin"}, Dir: "/", Timeout: time.Second,
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}

// What the thread started before is left to who waits for it.
func TestOtherChildren(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for _, text := range []string{"exit 7", "sleep 0.2; exit 7"} {
		other := exec.CommandContext(t.Context(), "/bin/sh", "-c", text)
		if err := other.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() {
			time.Sleep(50 * time.Millisecond) // the command is traced by now
			ended <- other.Wait()
		}()
		if r := run(t, t.TempDir(), "sleep 0.3; exit 3", time.Minute); r.Status.ExitStatus() != 3 {
			t.Errorf("%s: the traced command ended with %v", text, r.Status)
		}
		var exit *exec.ExitError
		if err := <-ended; !errors.As(err, &exit) || exit.ExitCode() != 7 {
			t.Errorf("%s: the other ended with %v", text, err)
		}
	}
}

// A process that has something to report may be ended by another of its threads before
// one asks what.
func TestThreads(t *testing.T) {
	for range 100 {
		_, err := exectrace.Run(exectrace.Command{Args: []string{os.Args[0]}, Env: []string{"THREADS=1"}, Dir: "/", Timeout: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
	}
}
