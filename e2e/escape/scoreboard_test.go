//go:build e2e && linux

package escape_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/e2e/escape/probes"
	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/internal/escape"
	"github.com/corral-exec/corral/internal/test/wardenbintest"
	"github.com/corral-exec/corral/runner"
	"github.com/corral-exec/corral/sandbox"
	"github.com/corral-exec/corral/sandbox/engine"
)

// hostVar is a variable of the gateway's environment that nobody else may have.
const hostVar = "CORRAL_ESCAPE_SECRET"

// runLimit bounds all tries in one sandbox.
const runLimit = 3 * time.Minute

// A row is what became of one probe on one target.
type row struct {
	outcome escape.Outcome // in a sandbox of the product
	control escape.Outcome // in the weakened container
	detail  string
}

// TestScoreboard is the whole: every probe on every target, and its control.
func TestScoreboard(t *testing.T) {
	rows := board{}
	for _, tg := range scored {
		t.Run(tg.name, func(t *testing.T) { rows[tg.name] = score(t, tg) })
	}
	if !t.Failed() {
		checkTable(t, rows)
	}
}

func score(t *testing.T, tg target) map[string]row {
	s := newSite(t)
	t.Setenv(hostVar, s.secret)
	eng := tg.open(t)
	rows := s.product(t, s.sandbox(t, eng, tg), tg, eng)
	original := onlyContainer(t, eng, s.state())    // which may have ended
	s.meet(t, fmt.Sprintf("%d:%d", nobody, nobody)) // whose processes those of the controls are
	for _, c := range controls(s) {
		results := s.control(t, eng, original, c)
		for _, p := range probesOf(c.weakening) {
			r := rows[p.ID]
			r.control = verdict(t, tg, p, r.outcome, results)
			rows[p.ID] = r
		}
	}
	return rows
}

// config is a sandbox with the site's workspace, and all else as it comes.
func (s *site) config(t *testing.T, eng weakener, tg target, name string) sandbox.Config {
	t.Helper()
	return sandbox.Config{
		Engine: eng, StateDir: s.state(), Name: name, Image: images.Busybox, Runtime: tg.runtime, WardenPath: warden(t, s),
		Workspace: sandbox.Workspace{Dir: s.work, Access: sandbox.AccessReadWrite},
	}
}

func (s *site) state() string { return filepath.Join(s.dir, "state") }

func warden(t *testing.T, s *site) string {
	t.Helper()
	path := filepath.Join(s.dir, "corral-warden")
	if _, err := os.Stat(path); err == nil {
		return path
	}
	path, err := wardenbintest.BuildIn(s.dir)
	must(t, err)
	return path
}

// product makes all tries in a sandbox of the product: no one gets out, and the
// host sees nothing of them.
func (s *site) product(t *testing.T, x corral.Executor, tg target, eng weakener) map[string]row {
	t.Helper()
	s.meet(t, userOf(t, x))
	ctx, cancel := context.WithTimeout(t.Context(), runLimit)
	defer cancel()
	come := make(chan struct{})
	go func() {
		defer close(come)
		s.comeAndGo(ctx, t, eng, tg)
	}()
	results, err := s.run(ctx, t, x, "-but", probes.Killer)
	if err != nil {
		t.Error(err)
	}
	cancel()
	<-come
	// It comes last, as it ends what it runs in where it succeeds.
	last, err := s.run(t.Context(), t, x, probes.Killer)
	if err != nil {
		t.Logf("%s: %v", probes.Killer, err)
		last = []escape.Result{{ID: probes.Killer, Outcome: escape.Escaped, Detail: "it ended the sandbox"}}
	}
	rows := map[string]row{}
	for _, r := range append(results, last...) {
		rows[r.ID] = row{outcome: r.Outcome, detail: r.Detail}
	}
	for _, p := range probes.All() {
		r, tried := rows[p.ID]
		t.Logf("%-24s %-11s %s", p.ID, r.outcome, r.detail)
		inside := tg.gvisor() && p.Inside != ""
		switch {
		case !tried:
			t.Errorf("%s was not tried", p.ID)
		case r.outcome == escape.Unsupported: // so must be the control
		case inside && r.outcome != escape.Inside:
			t.Errorf("%s: %s (%s), though it is said that it succeeds: %s", p.ID, r.outcome, r.detail, p.Inside)
		case !inside && r.outcome != escape.Held:
			t.Errorf("%s: %s: %s", p.ID, r.outcome, r.detail)
		}
	}
	s.untouched(t)
	return rows
}

func (s *site) run(ctx context.Context, t *testing.T, x corral.Executor, args ...string) ([]escape.Result, error) {
	t.Helper()
	raw, err := json.Marshal(s.Site)
	must(t, err)
	res, err := runner.Run(ctx, x, corral.Command{
		Args: append([]string{sandbox.Workdir + "/probe", "run"}, args...), Env: map[string]string{escape.SiteVar: string(raw)}, Timeout: runLimit,
	}, runner.Options{MaxOutput: 1 << 20})
	if err == nil && !res.Exit.Success() {
		err = fmt.Errorf("the probes ended with %v: %.500s", res.Exit, res.Stderr.String())
	}
	results, perr := escape.ParseResults([]byte(res.Stdout.String()))
	return results, errors.Join(err, perr)
}

// comeAndGo is a second gateway that connects to the sandbox and leaves it, as
// long as the probe that wants to be faster than the warden is at work.
func (s *site) comeAndGo(ctx context.Context, t *testing.T, eng weakener, tg target) {
	for !exists(s.path(probes.DialTries)) {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return
		}
	}
	for range 20 {
		x, err := sandbox.New(s.config(t, eng, tg, ""))
		if err != nil {
			t.Error(err)
			return
		}
		if _, err := runner.Run(ctx, x, corral.Command{Args: []string{"/bin/true"}}, runner.Options{}); err != nil && ctx.Err() == nil {
			t.Error(err)
		}
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func onlyContainer(t *testing.T, eng weakener, state string) engine.Container {
	t.Helper()
	list, err := sandbox.List(t.Context(), eng, state)
	must(t, err)
	if len(list) != 1 {
		t.Fatalf("the sandbox has the containers %v", list)
	}
	return list[0]
}

// probesOf are those whose control is a weakening.
func probesOf(w probes.Weakening) []probes.Probe {
	return slices.DeleteFunc(probes.All(), func(p probes.Probe) bool { return p.Weak != w })
}

// controls are one weakened container for each weakening that a probe names.
func controls(s *site) []control {
	var list []control
	for _, p := range probes.All() {
		if slices.ContainsFunc(list, func(c control) bool { return c.weakening == p.Weak }) {
			continue
		}
		c := control{weakening: p.Weak}
		switch p.Weak {
		case probes.HostRoot, probes.Leak, probes.Sockets:
			c.binds = []bind{{"/", "/host", true}}
		case probes.Nested:
			c.binds = []bind{{s.path("nested"), sandbox.Workdir + "/nested", false}}
		case probes.Variable:
			c.env = []string{hostVar + "=" + s.secret}
		}
		list = append(list, c)
	}
	return list
}

// control makes the tries that belong to a weakening in a container that has it.
func (s *site) control(t *testing.T, eng weakener, original engine.Container, c control) []escape.Result {
	t.Helper()
	name := strings.NewReplacer(" ", "-", ",", "", "'", "").Replace(string(c.weakening)) + ".jsonl"
	must(t, os.WriteFile(s.path("out/"+name), nil, 0o666))
	must(t, os.Chmod(s.path("out/"+name), 0o666))
	raw, err := json.Marshal(s.Site)
	must(t, err)
	c.env = append(c.env, escape.SiteVar+"="+string(raw))
	c.workspace, c.owner = s.work, nobody
	c.args = []string{sandbox.Workdir + "/probe", "init", "-out", sandbox.Workdir + "/out/" + name}
	switch c.weakening {
	case probes.Leak:
		c.args = append(c.args, "-leak", "/host")
	case probes.Metadata:
		c.args = append(c.args, "-metadata")
	case probes.OpenServer:
		stop := trust(t, s.state())
		defer stop()
	}
	for _, p := range probesOf(c.weakening) {
		c.args = append(c.args, p.ID)
	}
	eng.weaken(t.Context(), t, original.ID, c)
	out, err := os.ReadFile(s.path("out/" + name))
	must(t, err)
	results, err := escape.ParseResults(out)
	if err != nil {
		t.Errorf("%s: %v", c.weakening, err)
	}
	s.canary.Touched() // as it should be
	return results
}

// trust is a gateway that speaks to whoever dials, at the sockets of a sandbox.
func trust(t *testing.T, state string) (stop func()) {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join(state, "*", "*", "run"))
	must(t, err)
	if len(dirs) != 1 {
		t.Fatalf("the sandbox has its sockets in %q", dirs)
	}
	l, err := listenSeqpacket(filepath.Join(dirs[0], "gw-trust.sock"))
	must(t, err)
	return l
}

// verdict is the outcome of a control, which must be that the probe got out, or
// was held by the kernel of the runtime for the reason that the table states. What
// this machine's kernel does not have at all is in neither of the two.
func verdict(t *testing.T, tg target, p probes.Probe, product escape.Outcome, results []escape.Result) escape.Outcome {
	t.Helper()
	i := slices.IndexFunc(results, func(r escape.Result) bool { return r.ID == p.ID })
	got := escape.Result{Outcome: escape.Escaped, Detail: "it ended the container"}
	if i >= 0 {
		got = results[i]
	} else if p.ID != probes.Killer {
		t.Errorf("%s was not tried with the weakening %q", p.ID, p.Weak)
		return ""
	}
	if got.Outcome == escape.Inside {
		got.Outcome = escape.Escaped
	}
	t.Logf("control %-24s %-11s %s: %s", p.ID, got.Outcome, p.Weak, got.Detail)
	switch byKernel := tg.heldBy(p) != ""; {
	case product == escape.Unsupported && got.Outcome == escape.Unsupported:
	case byKernel && got.Outcome == escape.Escaped:
		t.Errorf("%s: got out with the weakening %q, though it is said that %s", p.ID, p.Weak, tg.heldBy(p))
	case !byKernel && got.Outcome != escape.Escaped:
		t.Errorf("%s: does not get out with the weakening %q, so it cannot fail: %s: %s", p.ID, p.Weak, got.Outcome, got.Detail)
	}
	return got.Outcome
}
