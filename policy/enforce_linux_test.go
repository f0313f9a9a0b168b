package policy_test

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/corral-exec/corral/internal/programs"
	"github.com/corral-exec/corral/policy"
)

// within reports whether a program is among those of a domain.
func within(programs []string, file string) bool {
	return slices.ContainsFunc(programs, func(p string) bool {
		real, err := filepath.EvalSymlinks(p)
		if err != nil {
			return false
		}
		return real == file || strings.HasSuffix(p, "/") && strings.HasPrefix(file, real+"/")
	})
}

// allowlist allows all bypassPrograms, strictly or not, and has the kernel enforce it.
func (f fixture) allowlist(row bypass, dir string, loose bool) policy.Rules {
	rules := policy.Rules{
		Security:    policy.Setting[policy.Security]{Value: policy.SecurityAllowlist},
		Ask:         policy.Setting[policy.Ask]{Value: policy.AskOnMiss},
		Enforce:     policy.Setting[policy.Enforce]{Value: policy.EnforceRequire},
		SafeBinDirs: []string{f.bin},
	}
	for _, name := range bypassPrograms {
		rules.List = append(rules.List, policy.Rule{Action: policy.Allow, Pattern: policy.QuotePattern(filepath.Join(f.bin, name))})
	}
	if row.linked() {
		rules.List = append(rules.List, policy.Rule{Action: policy.Allow, Pattern: filepath.Join(dir, "links/*")})
	}
	rules.Chaining.Value, rules.Redirections.Value = loose, loose
	return rules
}

func (f fixture) request(row bypass, dir string) policy.Request {
	req := policy.Request{
		Command: f.filled(row.text, dir), Shell: []string{row.shellPath(), "-c"}, Dir: dir, Path: f.bin, Home: dir, Workspace: dir, Env: map[string]string{},
	}
	for _, set := range row.env {
		name, value, _ := strings.Cut(f.filled(set, dir), "=")
		req.Env[name] = value
	}
	return req
}

// allBypasses are the bypasses that can be run here.
func allBypasses() []bypass {
	var rows []bypass
	for _, class := range slices.Concat(shellBypasses, wrapperBypasses, carrierBypasses) {
		for _, row := range class.rows {
			if row.unproved == "" && (row.needs == "" || present(row.needs)) && !row.code {
				rows = append(rows, row)
			}
		}
	}
	return rows
}

// The kernel makes up for errors in the tables. Each row of the tables is removed in
// turn. If the policy then allows a bypass, enforcement keeps it from running rm, and
// every other program that was not decided on.
func TestWrongTables(t *testing.T) {
	f := newFixture(t)
	rows := allBypasses()
	wrong, kept, uncovered := 0, 0, map[string]bool{}
	unused := map[int]string{} // directories in which nothing ran yet; deciding does not change them
	for i := range programs.TableRows() {
		programs.WithoutRow(i, func(name string, programs []string) {
			runs, stopped := 0, 0
			for n, row := range rows {
				if runs == 3 || !slices.ContainsFunc(programs, func(p string) bool { return slices.Contains(strings.Fields(row.text), p) }) {
					continue
				}
				dir, ok := unused[n]
				if !ok {
					dir = f.make(t, row)
					unused[n] = dir
				}
				d := policy.Decide(f.request(row, dir), f.allowlist(row, dir, true), policy.OS{})
				if d.Outcome != policy.Allowed || row.kernel != "" || row.pinned {
					continue
				}
				delete(unused, n)
				if !f.runsRM(t, row, dir, d.Run.Args) {
					continue
				}
				runs++
				if d.Enforce.Domain == nil || d.Enforce.Domain.AnyProgram {
					if slices.ContainsFunc(programs, policy.IsLeaf) {
						t.Errorf("without %q, %s is allowed, and not enforced: %s", name, row.name(), d.Enforce.Reason)
					}
					uncovered[name] = true
					continue
				}
				if dir := f.make(t, row); f.runsRMIn(t, row, dir, policy.Decide(f.request(row, dir), f.allowlist(row, dir, true), policy.OS{}).Run.Args, d.Enforce.Domain) {
					t.Errorf("without %q, %s is allowed and runs rm, although it is enforced: %q", name, row.name(), d.Enforce.Domain.Programs)
				}
				stopped++
			}
			if runs > 0 {
				wrong++
			}
			if stopped > 0 {
				kept++
				t.Logf("without %q: %d bypasses are allowed and stopped", name, stopped)
			}
		})
	}
	t.Logf("%d rows of the tables are wanted by a bypass that runs rm; without %d of them the kernel stops it; of %d it is not known what they run: %q",
		wrong, kept, len(uncovered), slices.Sorted(maps.Keys(uncovered)))
	if kept < 20 {
		t.Errorf("only %d deliberately wrong tables", kept)
	}
}

// Every bypass runs in the domain that it would have if it were allowed. If its programs
// are known, rm does not run.
func TestBypassesEnforced(t *testing.T) {
	f := newFixture(t)
	stopped, unlimited := 0, 0
	rows := allBypasses()
	for _, class := range furtherBypasses {
		for _, row := range class.rows {
			if row.unproved == "" && (row.needs == "" || present(row.needs)) && !row.code {
				rows = append(rows, row)
			}
		}
	}
	for _, row := range rows {
		dir, d := f.ifAllowed(t, row)
		if d == nil || d.AnyProgram {
			unlimited++
			continue
		}
		stopped++
		if f.runsRMIn(t, row, dir, []string{row.shellPath(), "-c", f.filled(row.text, dir)}, d) {
			t.Errorf("%s runs rm, although it is enforced: %q", row.name(), d.Programs)
		}
	}
	t.Logf("%d bypasses: %d are stopped by the kernel, %d have a program of which it is not known what it runs", stopped+unlimited, stopped, unlimited)
	if stopped < 300 {
		t.Errorf("only %d bypasses are enforced", stopped)
	}
}

// The kernel stops bypasses that no table can find, such as those by files of the
// workspace, if it is known which programs the allowed program runs.
func TestKernelStops(t *testing.T) {
	f := newFixture(t)
	stopped, left := 0, []string{}
	for _, class := range workspaceBypasses {
		for _, row := range class.rows {
			if row.kernel == "" || row.unproved != "" || row.code || row.needs != "" && !present(row.needs) {
				continue
			}
			dir := f.make(t, row)
			d := policy.Decide(f.request(row, dir), f.allowlist(row, dir, false), policy.OS{})
			if d.Outcome != policy.Allowed {
				t.Errorf("%s is not allowed: %s", row.name(), d.Reason)
				continue
			}
			if d.Enforce.Domain == nil {
				left = append(left, row.text)
				continue
			}
			stopped++
			if f.runsRMIn(t, row, dir, d.Run.Args, d.Enforce.Domain) {
				t.Errorf("%s runs rm, although it is enforced: %q", row.name(), d.Enforce.Domain.Programs)
			}
		}
	}
	t.Logf("%d are stopped; of these it is not known what they run: %q", stopped, left)
	if stopped < 5 {
		t.Errorf("only %d are stopped", stopped)
	}
}
