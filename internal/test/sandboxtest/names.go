package sandboxtest

import (
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/runner"
)

// runNames has a sandbox know the addresses of localhost and of itself: servers listen on the
// one, and runtimes such as Java's look the other up. It needs no network for that.
func (pl *Place) runNames(t *testing.T) {
	x := pl.open(t, filepath.Join(testdir.New(t), "state"))
	read := func(shell string) string {
		t.Helper()
		r, err := runner.Run(t.Context(), x, corral.Command{Shell: shell, MergeStderr: true}, runner.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(r.Stdout.String())
	}
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
