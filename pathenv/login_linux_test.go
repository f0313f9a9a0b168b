package pathenv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/corral-exec/corral"
)

// realProbe makes a probe of a real shell with the given profile.
func realProbe(t *testing.T, shell, profile string, timeout time.Duration) *LoginProbe {
	t.Helper()
	home := t.TempDir()
	writeFile(t, filepath.Join(home, ".profile"), profile+"\n", 0o600)
	shells := filepath.Join(t.TempDir(), "shells")
	writeFile(t, shells, shell+"\n", 0o600)
	p := NewLoginProbe(ProbeOptions{
		Environ: []string{"SHELL=" + shell, "PATH=" + DefaultPath("linux")},
		Home:    home,
		Shells:  shells,
		Timeout: timeout,
	})
	t.Cleanup(p.Close)
	return p
}

// nap is a length of sleep that no other process of this machine uses, so that a process
// left behind can be found.
func nap() string { return fmt.Sprintf("1000.%d%04d", os.Getpid(), naps.Add(1)) }

var naps atomic.Int32

func TestLoginProbeRealShells(t *testing.T) {
	const sets = "PATH=/from/profile:/usr/bin:/bin; export PATH; "
	tests := []struct {
		name, profile string
		timeout       time.Duration
		want          string // part of the error; empty: the PATH is found
	}{
		{name: "quiet", profile: sets},
		{name: "greeting without an end", profile: sets + "printf 'PATH=/greeting A=B'"},
		{name: "value with newlines", profile: sets + "export PS9='\nPATH=/not/this\n'"},
		{name: "asks a question", profile: sets + "read answer; read answer </dev/tty"},
		{name: "leaves a process that holds the output", profile: sets + "sleep NAP &"},
		{name: "leaves a process that ignores signals", profile: sets + "(trap '' HUP TERM INT; sleep NAP) &"},
		{name: "leaves a process in a group of its own", profile: sets + "set -m; sleep NAP & set +m"},
		{name: "sleeps", profile: sets + "sleep NAP", timeout: 200 * time.Millisecond, want: "did not answer in time"},
		{name: "becomes something else", profile: sets + "exec sleep NAP", timeout: 200 * time.Millisecond, want: "did not answer in time"},
		{name: "sleeps in a group of its own", profile: sets + "set -m; sleep NAP", timeout: 200 * time.Millisecond, want: "did not answer in time"},
		{name: "floods", profile: sets + "yes", want: "more than 2097152 bytes"},
		{name: "exits", profile: sets + "exit 3", want: "exit status 3"},
		{name: "exits and leaves a process", profile: sets + "sleep NAP & exit 3", timeout: 200 * time.Millisecond, want: "did not answer in time"},
		{name: "has no env", profile: "PATH=/nowhere", want: "has no PATH"},
		{name: "empties PATH", profile: "PATH=' '; env() { /usr/bin/env \"$@\"; }", want: "has no PATH"},
	}
	for _, shell := range []string{"/bin/dash", "/bin/bash"} {
		for _, test := range tests {
			t.Run(filepath.Base(shell)+"/"+test.name, func(t *testing.T) {
				length := nap()
				p := realProbe(t, shell, strings.ReplaceAll(test.profile, "NAP", length), test.timeout)
				began := time.Now()
				path, err := p.PATH(t.Context())
				if took := time.Since(began); took > 5*time.Second {
					t.Errorf("took %v", took)
				}
				if left := processesWith(t, length); len(left) > 0 {
					t.Errorf("left behind: %q", left)
				}
				if test.want == "" {
					if path != "/from/profile:/usr/bin:/bin" || err != nil {
						t.Errorf("PATH = %q, %v", path, err)
					}
					return
				}
				if path != "" || !errors.Is(err, corral.ErrUnavailable) || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), shell) {
					t.Errorf("PATH = %q, %v; want ErrUnavailable naming %s and %q", path, err, shell, test.want)
				}
			})
		}
	}
}

func TestLoginProbeCloseKills(t *testing.T) {
	length := nap()
	p := realProbe(t, "/bin/sh", "sleep "+length, time.Minute)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := p.PATH(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("PATH = %v, want DeadlineExceeded", err)
	}
	if len(processesWith(t, length)) == 0 {
		t.Fatal("the profile does not run; the test shows nothing")
	}
	p.Close()
	if left := processesWith(t, length); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// A profile that is ended in its middle can release its locks.
func TestLoginProbeCloseLetsCleanUp(t *testing.T) {
	lock := filepath.Join(t.TempDir(), "lock")
	p := realProbe(t, "/bin/bash", "trap 'rm -f "+lock+"' EXIT; : >"+lock+"; sleep "+nap(), time.Minute)
	go func() { _, _ = p.PATH(context.Background()) }() // it fails when the probe is closed
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		if _, err := os.Stat(lock); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the profile does not run; the test shows nothing")
		}
	}
	p.Close()
	if _, err := os.Stat(lock); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the lock is left: %v", err)
	}
}

func TestLoginProbeNoShell(t *testing.T) {
	shells := filepath.Join(t.TempDir(), "shells")
	writeFile(t, shells, "/nonexistent/shell\n", 0o600)
	p := NewLoginProbe(ProbeOptions{Environ: []string{"SHELL=/nonexistent/shell"}, Shells: shells})
	defer p.Close()
	if _, err := p.PATH(t.Context()); !errors.Is(err, os.ErrNotExist) || !errors.Is(err, corral.ErrUnavailable) {
		t.Errorf("PATH = %v, want ErrNotExist and ErrUnavailable", err)
	}
}

func TestAccountHome(t *testing.T) {
	want := must(AccountHome())
	t.Setenv("HOME", "/tmp/evil")
	t.Setenv("USER", "nobody")
	if got := must(AccountHome()); got != want || got == "" || got == "/tmp/evil" {
		t.Errorf("AccountHome = %q, want %q", got, want)
	}
}

// processesWith lists living processes with text in their arguments.
func processesWith(t *testing.T, text string) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil || len(files) == 0 {
		t.Fatalf("cannot list processes: %v", err)
	}
	var found []string
	for _, file := range files {
		args, err := os.ReadFile(file)
		if err == nil && bytes.Contains(args, []byte(text)) {
			found = append(found, string(bytes.ReplaceAll(args, []byte{0}, []byte(" "))))
		}
	}
	return found
}
