package sshexec

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/decided"
	"github.com/corral-exec/corral/internal/procfs"
)

// parent is the PID of a process's parent.
func parent(t *testing.T, pid int) int {
	t.Helper()
	s, err := procfs.Read(fmt.Sprintf("/proc/%d", pid))
	if err != nil {
		t.Fatal(err)
	}
	return s.Parent
}

func start(t *testing.T, x corral.Executor, cmd corral.Command) corral.Process {
	t.Helper()
	p, err := x.Start(t.Context(), cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if pid := p.Info().PID; pid > 1 {
			_ = unix.Kill(pid, unix.SIGKILL) // it may have ended
		}
	})
	return p
}

// await reads until the log has text.
func await(t *testing.T, p corral.Process, text string) {
	t.Helper()
	got := ""
	for off, buf := int64(0), make([]byte, 4<<10); !strings.Contains(got, text); {
		c, err := p.Log().Read(t.Context(), off, buf)
		if err != nil {
			t.Fatalf("%v after %q", err, got)
		}
		got += string(c.Data)
		off = c.Next()
	}
}

// lost checks that the end of a command is said to be unknown.
func lost(t *testing.T, p corral.Process, why string) {
	t.Helper()
	exit, err := p.Wait(t.Context())
	if !errors.Is(err, corral.ErrLost) || !strings.Contains(err.Error(), why) || !reflect.ValueOf(exit).IsZero() {
		t.Errorf("Wait: %+v, %v", exit, err)
	}
}

// A command whose connection is cut is lost, whatever became of it. It can
// still be signalled, over another connection, and what comes after it runs.
func TestConnectionLost(t *testing.T) {
	d := startSSHD(t)
	n := d.open(t)
	x := box(t, n)
	p := start(t, x, corral.Command{ID: "lost", Shell: "echo up; trap '' HUP PIPE; setsid sleep 60 & sleep 60"})
	tty := start(t, x, corral.Command{Shell: "echo up; sleep 60", TTY: &corral.Size{}})
	await(t, p, "up\n")
	await(t, tty, "up\r\n")
	if err := unix.Kill(parent(t, p.Info().PID), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	lost(t, p, "connection was lost")
	lost(t, tty, "connection was lost")
	if _, err := p.Write(t.Context(), []byte("x")); !errors.Is(err, corral.ErrLost) {
		t.Errorf("Write: %v", err)
	}
	if err := p.Signal(t.Context(), corral.SIGKILL); err != nil {
		t.Errorf("Signal: %v", err)
	}
	// It is said again, and nothing runs again.
	again, err := x.Start(t.Context(), corral.Command{ID: "lost", Shell: "echo up; trap '' HUP PIPE; setsid sleep 60 & sleep 60"})
	if err != nil {
		t.Fatal(err)
	}
	lost(t, again, "connection was lost")
	for end := time.Now().Add(10 * time.Second); unix.Kill(p.Info().PID, 0) == nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it was not killed")
		}
	}
	if err := p.Signal(t.Context(), corral.SIGKILL); !errors.Is(err, corral.ErrLost) {
		t.Errorf("Signal to nobody: %v", err)
	}
	runs(t, x)
}

// A server that says nothing any more is given up.
func TestServerSilent(t *testing.T) {
	d := startSSHD(t)
	cfg := d.config(t.TempDir())
	cfg.keepalive = 200 * time.Millisecond
	x := box(t, d.hosts(t, cfg))
	p := start(t, x, corral.Command{Shell: "echo up; sleep 60"})
	await(t, p, "up\n")
	server := parent(t, p.Info().PID)
	if err := unix.Kill(server, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Kill(server, unix.SIGKILL) })
	lost(t, p, "connection was lost")
	runs(t, x)
}

// Idle connections are closed, and made again.
func TestIdle(t *testing.T) {
	d := startSSHD(t)
	cfg := d.config(t.TempDir())
	cfg.keepalive, cfg.idle = 100*time.Millisecond, 250*time.Millisecond
	n := d.hosts(t, cfg)
	x := box(t, n)
	for range 2 {
		runs(t, x)
		h, err := n.known("box")
		if err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
			h.mu.Lock()
			count := len(h.conns)
			h.mu.Unlock()
			if count == 0 {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("%d connections", count)
			}
		}
	}
}

// A server may allow fewer sessions than OpenSSH does by default, or none.
func TestMaxSessions(t *testing.T) {
	for _, most := range []int{1, 3} {
		x := box(t, startSSHD(t, "MaxSessions "+strconv.Itoa(most)).open(t))
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				want := strconv.Itoa(i) + "\n"
				if out, err := try(t, x, corral.Command{Shell: "sleep 0.2; echo " + strconv.Itoa(i)}); err != nil || out != want {
					t.Errorf("MaxSessions %d: %q, %v", most, out, err)
				}
			})
		}
		all.Wait()
	}
	refuses(t, box(t, startSSHD(t, "MaxSessions 0").open(t)), corral.ErrUnavailable, "opens no session", "MaxSessions")
}

// What servers, accounts and login files do that is no good for commands.
func TestServers(t *testing.T) {
	d := startSSHD(t, "ForceCommand echo no shell for you")
	refuses(t, box(t, d.open(t)), corral.ErrUnavailable, `it says "no shell for you"`, "ssh box")
	d = startSSHD(t, "PermitTTY no")
	x := box(t, d.open(t))
	if _, err := x.Start(t.Context(), corral.Command{Shell: "true", TTY: &corral.Size{}}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("PermitTTY no: %v", err)
	}
	runs(t, x)
	if os.Geteuid() != 0 {
		return // the files of the account are not ours to write
	}
	d = startSSHD(t)
	for _, name := range []string{".bashrc", ".zshenv", ".kshrc"} {
		write(t, filepath.Join(d.files, name), "echo noise; echo trouble >&2\n")
	}
	x = box(t, d.open(t))
	for _, cmd := range []corral.Command{
		{Args: []string{"sh", "-c", "echo out; echo err >&2"}},
		{Args: []string{"sh", "-c", "echo out; echo err >&2"}, MergeStderr: true},
	} {
		if out, err := try(t, x, cmd); err != nil || out != "out\nerr\n" && out != "err\nout\n" {
			t.Errorf("%q, %v", out, err)
		}
	}
	if out, err := try(t, x, corral.Command{Args: []string{"echo", "out"}, TTY: &corral.Size{}}); err != nil || out != "out\r\n" {
		t.Errorf("on a terminal: %q, %v", out, err)
	}
	write(t, filepath.Join(d.files, ".bashrc"), "yes | head -c 1000000\n")
	_, err := x.Start(t.Context(), corral.Command{Args: []string{"true"}})
	if !errors.Is(err, corral.ErrLost) || !strings.Contains(err.Error(), errPreamble.Error()) {
		t.Errorf("a flood before the command: %v", err)
	}
}

// What a command is given is in no argument list over there, and on no disk.
func TestNoSecretInArguments(t *testing.T) {
	d := startSSHD(t)
	x := box(t, d.open(t))
	secret := corral.NewID()
	p := start(t, x, corral.Command{Shell: "echo up; cat", Env: map[string]string{"MY_TOKEN": secret}, Stdin: true})
	await(t, p, "up\n")
	list, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil || len(list) == 0 {
		t.Fatal(list, err)
	}
	for _, name := range list {
		if b, err := os.ReadFile(name); err == nil && bytes.Contains(b, []byte(secret)) {
			t.Errorf("%s: %q", name, b)
		}
	}
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.Info().PID))
	if err != nil || !bytes.Contains(env, []byte("MY_TOKEN="+secret)) {
		t.Errorf("it is not in the environment: %v", err)
	}
}

func TestSignals(t *testing.T) {
	x := box(t, startSSHD(t).open(t))
	// Those with a name in RFC 4254 are told from each other at the end.
	for _, s := range []corral.Signal{1, 2, 3, 4, 6, 8, 9, 10, 11, 12, 13, 14, 15} {
		p := start(t, x, corral.Command{Args: []string{"sleep", "60"}})
		if err := p.Signal(t.Context(), s); err != nil {
			t.Errorf("%v: %v", s, err)
			continue
		}
		if exit, err := p.Wait(t.Context()); err != nil || exit.Signal != s || exit.Code != -1 {
			t.Errorf("%v: %v, %v", s, exit, err)
		}
	}
	p := start(t, x, corral.Command{Args: []string{"sleep", "60"}})
	if err := p.Signal(t.Context(), 31); err != nil {
		t.Error(err)
	}
	lost(t, p, "does not say which")
	p = start(t, x, corral.Command{Shell: "for s in HUP INT TERM USR1 WINCH USR2; do trap \"echo $s\" $s; done; echo up; while :; do sleep 0.05; done"})
	await(t, p, "up\n")
	for _, s := range []corral.Signal{corral.SIGHUP, corral.SIGTERM, corral.SIGUSR1, corral.SIGWINCH, corral.SIGUSR2} {
		if err := p.Signal(t.Context(), s); err != nil {
			t.Error(err)
		}
		await(t, p, strings.TrimPrefix(s.String(), "SIG")+"\n")
	}
	if err := p.Signal(t.Context(), 35); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a real-time signal: %v", err)
	}
}

func TestPath(t *testing.T) {
	x := box(t, startSSHD(t).open(t))
	for _, text := range []string{"/x:$PATH", "/x:${PATH}"} {
		for _, cmd := range []corral.Command{{Shell: `echo "$PATH"`}, {Args: []string{"sh", "-c", `echo "$PATH"`}}} {
			cmd.Env = map[string]string{"PATH": text}
			if out, err := try(t, x, cmd); err != nil || !strings.HasPrefix(out, "/x:/") || strings.Contains(out, "$") {
				t.Errorf("%q, %v", out, err)
			}
		}
	}
	_, err := x.Start(t.Context(), corral.Command{Shell: "true", Env: map[string]string{"PATH": "/x"}})
	if !errors.Is(err, corral.ErrDenied) {
		t.Errorf("a PATH in place of the node's: %v", err)
	}
	for _, name := range []string{"LD_PRELOAD", "BASH_ENV", "a.b", "a(b)"} {
		if _, err := x.Start(t.Context(), corral.Command{Shell: "true", Env: map[string]string{name: "x"}}); !errors.Is(err, corral.ErrDenied) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What a guard looked at is what runs.
func TestExec(t *testing.T) {
	x := box(t, startSSHD(t).open(t))
	out, err := try(t, x, corral.Command{Shell: "echo text", Decided: decided.About{Exec: []string{"/bin/echo", "pinned"}}})
	if err != nil || out != "pinned\n" {
		t.Errorf("%q, %v", out, err)
	}
}

// One ID is one command, on whichever host.
func TestTwoHosts(t *testing.T) {
	d := startSSHD(t)
	d.configure("Host also", "HostName 127.0.0.1", "Port "+d.port, "User "+d.user)
	cfg := d.config(t.TempDir())
	cfg.Allowed = func() []string { return []string{"box", "also"} }
	all := d.hosts(t, cfg)
	nodes := Nodes{SSH: all, Others: none{}}
	also, name, err := nodes.Select(t.Context(), "ssh:also")
	if err != nil || name != "ssh:also" {
		t.Fatal(name, err)
	}
	cmd := corral.Command{ID: "one", Shell: "echo one"}
	p := start(t, box(t, all), cmd)
	if _, err := also.Start(t.Context(), cmd); !errors.Is(err, corral.ErrConflict) {
		t.Errorf("Start on another host: %v", err)
	}
	if _, err := also.Attach(t.Context(), "one"); !errors.Is(err, corral.ErrNotFound) {
		t.Errorf("Attach on another host: %v", err)
	}
	q, err := nodes.Attach(t.Context(), "one")
	if err != nil || q.Info().Node != "ssh:box" || q.Info().PID != p.Info().PID {
		t.Errorf("Attach: %v", err)
	}
	if _, err := nodes.Attach(t.Context(), "two"); !errors.Is(err, corral.ErrNotFound) {
		t.Errorf("Attach to nothing: %v", err)
	}
	if _, err := p.Wait(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := p.Log().Read(t.Context(), 4, make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("Read: %v", err)
	}
}

// The PID of a command that has ended may belong to another process by now.
func TestSignalAfterEnd(t *testing.T) {
	all := startSSHD(t).open(t)
	x := box(t, all)
	other := start(t, x, corral.Command{Args: []string{"sleep", "60"}})
	ended := start(t, x, corral.Command{Args: []string{"true"}})
	if _, err := ended.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	h, err := all.known("box")
	if err != nil {
		t.Fatal(err)
	}
	info := ended.Info()
	info.PID = other.Info().PID
	if found, err := h.kill(t.Context(), info, corral.SIGKILL, false); found != 0 || err != nil {
		t.Errorf("found %d, %v", found, err)
	}
	if found, err := h.kill(t.Context(), info, corral.SIGCONT, true); found != 1 || err != nil {
		t.Errorf("by the PID of a command that runs: found %d, %v", found, err)
	}
}

// Where the terminal edits the line, Backspace erases a character and not one of its bytes.
func TestTerminalErasesCharacters(t *testing.T) {
	x := box(t, startSSHD(t).open(t))
	if out, err := try(t, x, corral.Command{Shell: "stty -a | grep -ow -e -*iutf8", TTY: &corral.Size{}}); err != nil || out != "iutf8\r\n" {
		t.Errorf("%q, %v", out, err)
	}
}
