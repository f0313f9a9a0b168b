package hostexec_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/hostexec"
	"github.com/corral-exec/corral/internal/test/logtest"
	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/internal/test/wardenbintest"
	"github.com/corral-exec/corral/runner"
)

// A warden that comes second, as when two gateways start one, leaves the log of the
// first alone but for a line of its own. The next life has a log of its own.
func TestWardenLog(t *testing.T) {
	cfg := hostexec.Config{StateDir: testdir.New(t), WardenPath: wardenbintest.Build(t)}
	e := openHost(t, cfg, new(logtest.Log))
	if _, err := runner.Run(t.Context(), e, corral.Command{Args: []string{"/bin/true"}}, runner.Options{}); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(cfg.StateDir, "run", "host")
	name := filepath.Join(dir, "warden.log")
	first := strings.Repeat("what the first one said\n", 10)
	if err := os.WriteFile(name, []byte(first), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(cfg.WardenPath, "-host", "-dir", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	until(t, "the second one says why it ends", func() bool {
		b, err := os.ReadFile(name)
		return err == nil && string(b) == first+"corral-warden: another warden keeps this directory\n"
	})
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	until(t, "the first one ends", func() bool {
		e := openHost(t, cfg, new(logtest.Log))
		if _, err := runner.Run(t.Context(), e, corral.Command{Args: []string{"/bin/true"}}, runner.Options{}); err != nil {
			t.Fatal(err)
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(name)
		return err == nil && !strings.Contains(string(b), "the first one said")
	})
}
