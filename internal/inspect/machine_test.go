package inspect

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corral-exec/corral/internal/daemon"
	"github.com/corral-exec/corral/internal/doctor"
	"github.com/corral-exec/corral/internal/reach"
)

// check compares the status of a finding, and looks for words in it.
func check(t *testing.T, name string, got doctor.Finding, status doctor.Severity, words ...string) {
	t.Helper()
	all := got.Summary + " " + got.Meaning + " " + got.Fix
	if got.Status != status || slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(all, w) }) {
		t.Errorf("%s: %s %q, want %s and %q", name, got.Status, all, status, words)
	}
}

func TestCheckMode(t *testing.T) {
	check(t, "off", modeFinding(daemon.ModeOff, false), doctor.Warn, "config set sandbox.mode all", "CORRAL_SANDBOX=all", "no container")
	check(t, "off, required", modeFinding(daemon.ModeOff, true), doctor.Warn, "refused")
	check(t, "all", modeFinding(daemon.ModeAll, false), doctor.OK)
	check(t, "required", modeFinding(daemon.ModeRequired, false), doctor.OK)
}

func TestCheckGateway(t *testing.T) {
	r := &daemon.Record{PID: 7, Version: "v1", StartedAt: time.Now()}
	check(t, "none", gatewayFinding(reach.State{}, "v1"), doctor.OK, "no gateway runs")
	check(t, "runs", gatewayFinding(reach.State{Running: true, Ready: true, Gateway: r}, "v1"), doctor.OK, "pid 7", "answers")
	check(t, "other version", gatewayFinding(reach.State{Running: true, Ready: true, Gateway: r}, "v2"), doctor.Warn, "corral v1", "corral v2")
	check(t, "draining", gatewayFinding(reach.State{Running: true, Gateway: r, Error: "draining"}, "v1"), doctor.Fail, "draining")
	on := &daemon.Record{Sandbox: daemon.ModeAll}
	check(t, "its sandbox", sandboxOf(reach.State{Ready: true, Gateway: on}, daemon.ModeOff, false), doctor.OK, "of the gateway that runs: on")
	check(t, "its sandbox, off", sandboxOf(reach.State{Ready: true, Gateway: &daemon.Record{Sandbox: daemon.ModeOff}}, daemon.ModeAll, false), doctor.Warn,
		"of the gateway that runs: off", "start the gateway with --sandbox all", "Here it is all")
	check(t, "no gateway's sandbox", sandboxOf(reach.State{}, daemon.ModeAll, false), doctor.OK)
	check(t, "dead", gatewayFinding(reach.State{Error: "refused"}, "v1"), doctor.Fail, "refused")
}

func TestDoctorPolicy(t *testing.T) {
	dir := t.TempDir()
	open := filepath.Join(dir, "open")
	if err := os.Mkdir(open, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o777); err != nil { // past the umask
		t.Fatal(err)
	}
	approvals := filepath.Join(dir, daemon.ApprovalsFile)
	for _, tc := range []struct {
		config, approvals string
		mode              os.FileMode
		want              map[string]doctor.Severity
		says              string
	}{
		{"", "", 0, map[string]doctor.Severity{"config": doctor.OK, "approvals": doctor.OK, "policy": doctor.OK, "safe-bins": doctor.OK}, "security allowlist (default), ask on-miss (default), askFallback deny (default)"},
		{`{ tools: { exec: { safeBinDirs: ["` + open + `"], security: "full", ask: "off" } } }`, `{"version":1}`, 0o600,
			map[string]doctor.Severity{"config": doctor.OK, "approvals": doctor.OK, "policy": doctor.Warn, "safe-bins": doctor.Warn}, open + " is -rwxrwxrwx"},
		{`{}`, `{"version":1,"defaults":{"security":"deny"}}`, 0o644, map[string]doctor.Severity{"config": doctor.OK, "approvals": doctor.Warn, "policy": doctor.OK}, "security deny (" + approvals + ":1"},
		{`{}`, `{"version":`, 0o600, map[string]doctor.Severity{"approvals": doctor.Fail}, "Nothing may run"},
		{"{\n  tools: { exec: { ask: 'sometimes' } },\n}", "", 0, map[string]doctor.Severity{"config": doctor.Fail}, "corral.json5:2:"},
	} {
		file := filepath.Join(dir, "corral.json5")
		for path, text := range map[string]string{file: tc.config, approvals: tc.approvals} {
			_ = os.Remove(path) // it may not exist
			if text == "" {
				continue
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if tc.mode != 0 {
			if err := os.Chmod(approvals, tc.mode); err != nil {
				t.Fatal(err)
			}
		}
		m := &Machine{Place: reach.Place{StateDir: dir}}
		m.Config = daemon.ConfigFile{Path: file, Named: tc.config != ""}
		c, ofConfig := m.config()
		findings := []doctor.Finding{ofConfig}
		if c != nil {
			findings = append(findings, m.policy(c)...)
		}
		found, said := map[string]doctor.Severity{}, ""
		for _, f := range findings {
			found[f.Name] = f.Status
			said += f.Summary + " " + f.Meaning + "\n"
			if f.Status != doctor.OK && (f.Fix == "" || f.Meaning == "") {
				t.Errorf("%s does not say what it means and what to do: %+v", f.Name, f)
			}
		}
		for name, want := range tc.want {
			if found[name] != want {
				t.Errorf("%s: %s is %s, want %s; %s", tc.config, name, found[name], want, said)
			}
		}
		if !strings.Contains(said, tc.says) {
			t.Errorf("%s: it does not say %q: %s", tc.config, tc.says, said)
		}
	}
}
