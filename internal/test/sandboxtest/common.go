package sandboxtest

import (
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/runner"
	"github.com/corral-exec/corral/sandbox"
	"github.com/corral-exec/corral/sandbox/engine"
)

// runNames has a sandbox know the addresses of localhost and of itself: servers listen on the
// one, and runtimes such as Java's look the other up. It needs no network for that.
func (pl *Place) runNames(t *testing.T) {
	read := pl.reader(t)
	name := read("hostname")
	if file := read("cat /etc/hostname"); file != name || name == "" {
		t.Errorf("the host name is %q, and %q by its file", name, file)
	}
	hosts := read("cat /etc/hosts")
	for _, n := range []string{"localhost", name} {
		loopback := func(line string) bool {
			fields := strings.Fields(line)
			if len(fields) == 0 {
				return false
			}
			a, err := netip.ParseAddr(fields[0])
			return err == nil && a.Is4() && a.IsLoopback() && slices.Contains(fields[1:], n)
		}
		if !slices.ContainsFunc(strings.Split(hosts, "\n"), loopback) {
			t.Errorf("/etc/hosts has no address of %s:\n%s", n, hosts)
		}
	}
}

// runAccount has the user's account be what commands have: a program that asks for the home
// directory of its user (ssh) is told the one that a shell has in HOME.
func (pl *Place) runAccount(t *testing.T) {
	eng, err := pl.Engine()
	if err != nil {
		t.Fatal(err)
	}
	_, reads := eng.(engine.FileReader)
	if err := eng.Close(); err != nil {
		t.Error(err)
	}
	read := pl.reader(t)
	if !reads && strings.HasPrefix(pl.Config.Runtime, GVisor) {
		return // it is as the image says, and that need not know the user
	}
	if got, want := read(`id -un >/dev/null && eval "echo ~$(id -un)"; awk -F: -v u="$(id -u)" '$3 == u { print $7; exit }' /etc/passwd`), sandbox.Workdir+"\n/bin/sh"; got != want {
		t.Errorf("by its account the user has %q, want %q", got, want)
	}
	if got := read(`test "$(id -gn)" = "$(id -un)" || id`); got != "" {
		t.Error(got)
	}
	if pl.OwnAccounts {
		return
	}
	cfg := pl.Config
	cfg.Environment.Variables = map[string]string{"HOME": "/tmp/home"}
	elsewhere := &Place{Name: pl.Name, Config: cfg, Router: pl.Router, Engine: pl.Engine, states: map[corral.Executor]string{}}
	if got := elsewhere.reader(t)(`eval "echo ~$(id -un)"; echo "$HOME"`); got != "/tmp/home\n/tmp/home" {
		t.Errorf("with another HOME the user's home directory, by its account and by HOME, is %q", got)
	}
}

// runShm has /dev/shm the size that is configured.
func (pl *Place) runShm(t *testing.T) {
	want := strconv.FormatInt(pl.Config.Resources.Shm>>10, 10)
	if got := pl.reader(t)("df -Pk /dev/shm | tail -n 1"); len(strings.Fields(got)) < 2 || strings.Fields(got)[1] != want {
		t.Errorf("%q, want %s KiB", got, want)
	}
}

// reader runs commands in a new sandbox, for what they print.
func (pl *Place) reader(t *testing.T) func(shell string) string {
	x := pl.open(t, filepath.Join(testdir.New(t), "state"))
	return func(shell string) string {
		t.Helper()
		r, err := runner.Run(t.Context(), x, corral.Command{Shell: shell, MergeStderr: true}, runner.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(r.Stdout.String())
	}
}
