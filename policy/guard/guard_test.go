package guard

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/policy"
	"github.com/corral-exec/corral/policy/approval"
)

func TestPinned(t *testing.T) {
	r := newRig(t, onHost)
	cmd := corral.Command{ID: "one", Shell: "tool a b"}
	rec := r.pending(cmd)
	if again := r.pending(cmd); again.ID != rec.ID {
		t.Error("the same command is asked about twice")
	}
	cmd.Approval = rec.ID
	r.denied(cmd, "it is not approved: approval "+rec.Slug+" is pending until ")
	r.answer(rec, approval.AllowOnce)
	out, err := r.check(cmd)
	r.ok(err)
	if !slices.ContainsFunc(out.Decided.Exec, func(w string) bool { return strings.Contains(w, r.at("bin/tool")) }) {
		t.Errorf("%q is not the program that was approved", out.Decided.Exec)
	}
	if _, err := r.check(cmd); err != nil { // the start may be repeated
		t.Error(err)
	}
	cmd.ID = "two"
	r.denied(cmd, `was answered allow-once by "alice"`)
	cmd.Approval = ""
	if next := r.pending(cmd); next.ID == rec.ID {
		t.Error("allow-once allowed it twice")
	}
}

func TestAlways(t *testing.T) {
	r := newRig(t, onHost)
	cmd := corral.Command{ID: "one", Shell: "tool a"}
	rec := r.answer(r.pending(cmd), approval.AllowAlways)
	cmd.Approval = rec.ID
	if _, err := r.check(cmd); err != nil {
		t.Fatal(err)
	}
	if now, err := r.desk.Get("main", rec.ID); err != nil || now.State != approval.Consumed {
		t.Errorf("it could be used again: %+v, %v", now, err)
	}
	r.again()
	if _, err := r.check(corral.Command{ID: "two", Shell: "tool a"}); err != nil {
		t.Error(err)
	}
	r.pending(corral.Command{ID: "three", Shell: "tool b"})
	_, err := r.guard.For("other")(t.Context(), corral.Command{ID: "four", Shell: "tool a"}, gateway)
	if _, ok := approval.AsPending(err); !ok {
		t.Errorf("it was remembered for another agent: %v", err)
	}
}

// Only the approved command runs: after any change it does not run.
func TestChangedAfterApproval(t *testing.T) {
	for _, tc := range []struct {
		name   string
		cmd    corral.Command
		change func(*rig)
		why    string // DIR stands for the directory of the test
	}{
		{"the file was replaced", corral.Command{Shell: "tool"}, func(r *rig) { r.replace("bin/tool", "echo evil") },
			"DIR/bin/tool was replaced after it was approved"},
		{"the file was written to", corral.Command{Shell: "tool"}, func(r *rig) { r.program("bin/tool", "echo evil, and longer") },
			"DIR/bin/tool was changed after it was approved"},
		{"another is found first", corral.Command{Shell: "tool"}, func(r *rig) {
			r.ok(os.Mkdir(r.at("first"), 0o755))
			r.program("first/tool", "echo evil")
		}, `"tool" is found at DIR/first/tool now; approved was DIR/bin/tool`},
		{"the directory was swapped", corral.Command{Shell: "tool"}, func(r *rig) {
			r.ok(os.Rename(r.at("work"), r.at("old")))
			r.ok(os.Mkdir(r.at("work"), 0o755))
		}, "the working directory DIR/work is another directory now, not the one it was approved for"},
		{"the directory leads elsewhere", corral.Command{Shell: "tool"}, func(r *rig) {
			r.ok(os.Rename(r.at("work"), r.at("old")))
			r.ok(os.Symlink(r.at("bin"), r.at("work")))
		}, "the working directory DIR/work leads to DIR/bin now; it was approved for DIR/work"},
		{"the script was edited", corral.Command{Args: []string{"/bin/sh", "run.sh"}}, func(r *rig) { r.write("work/run.sh", "echo evil") },
			"script DIR/work/run.sh was changed after it was approved"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, onHost)
			r.write("work/run.sh", "echo fine")
			tc.cmd.ID = "one"
			rec := r.answer(r.pending(tc.cmd), approval.AllowOnce)
			tc.change(r)
			tc.cmd.Approval = rec.ID
			r.denied(tc.cmd, strings.ReplaceAll(tc.why, "DIR", r.dir))
		})
	}
}

func TestBoundTo(t *testing.T) {
	r := newRig(t, onHost)
	rec := r.answer(r.pending(corral.Command{ID: "one", Shell: "tool a", Env: map[string]string{"A": "1"}}), approval.AllowOnce)
	for why, cmd := range map[string]corral.Command{
		"the command is not the one that was approved":                                       {Shell: "tool b", Env: map[string]string{"A": "1"}},
		"the value of an environment variable was changed after it was approved; set are: A": {Shell: "tool a", Env: map[string]string{"A": "2"}},
		"the environment was approved with these variables set: A; and not: A, B":            {Shell: "tool a", Env: map[string]string{"A": "1", "B": "1"}},
		"it was approved without an input that its caller can write to":                      {Shell: "tool a", Env: map[string]string{"A": "1"}, Stdin: true},
		"the working directory is " + r.at("bin") + " and not " + r.at("work"):               {Shell: "tool a", Env: map[string]string{"A": "1"}, Dir: r.at("bin")},
	} {
		cmd.ID, cmd.Approval = "one", rec.ID
		r.denied(cmd, why)
	}
	with := r.pending(corral.Command{ID: "with", Shell: "tool c", Stdin: true})
	if without := r.pending(corral.Command{ID: "without", Shell: "tool c"}); without.ID != with.ID {
		t.Error("a command with an input is asked about again without one")
	}
	with = r.answer(with, approval.AllowOnce)
	if _, err := r.check(corral.Command{ID: "without", Shell: "tool c", Approval: with.ID}); err != nil {
		t.Errorf("approved with an input, and run without: %v", err)
	}
	_, err := r.guard.For("other")(t.Context(), corral.Command{ID: "one", Shell: "tool a", Approval: rec.ID}, gateway)
	if !errors.Is(err, corral.ErrNotFound) {
		t.Errorf("another agent's approval: %v", err)
	}
	for _, wrong := range []string{"nonsense", "../x", strings.Repeat("x", 1<<16)} {
		if _, err := r.check(corral.Command{ID: "x", Shell: "tool a", Approval: wrong}); !errors.Is(err, corral.ErrNotFound) {
			t.Errorf("%.20q: %v", wrong, err)
		}
	}
}

func TestUnattended(t *testing.T) {
	r := newRig(t, `agents: {defaults: {unattended: true}}, `+onHost)
	r.denied(corral.Command{ID: "one", Shell: "tool"}, "it needs an approval, nobody can be asked, and askFallback is deny (default)")
	if list := r.desk.List(approval.Filter{}); len(list) != 0 {
		t.Errorf("somebody was asked: %+v", list)
	}
	r = newRig(t, `agents: {defaults: {unattended: true}}, tools: {exec: {host: "gateway", security: "full", ask: "always", askFallback: "full"}}`)
	r.write("state/exec-approvals.json", `{"version": 1, "defaults": {"security": "full", "askFallback": "full"}}`)
	if out, err := r.check(corral.Command{ID: "one", Shell: "tool"}); err != nil || out.Decided.Exec != nil {
		t.Errorf("%+v, %v", out, err)
	}
}

func TestDenyBeatsApproval(t *testing.T) {
	r := newRig(t, onHost)
	cmd := corral.Command{ID: "one", Shell: "tool a"}
	rec := r.answer(r.pending(cmd), approval.AllowOnce)
	r.ok(r.file.Add("*", "", policy.Rule{Action: policy.Deny, Pattern: "tool", Reason: "not today"}))
	cmd.Approval = rec.ID
	_, err := r.check(cmd)
	d, ok := policy.AsDenied(err)
	if !ok || d.Decision.Rule == nil || d.Decision.Rule.Reason != "not today" || !strings.Contains(err.Error(), "not today") {
		t.Errorf("%v, %+v", err, d)
	}
}

// A file that cannot be read allows nothing, and the error says where it is wrong.
func TestClosed(t *testing.T) {
	r := newRig(t, onHost)
	rec := r.answer(r.pending(corral.Command{ID: "one", Shell: "tool"}), approval.AllowOnce)
	r.write("state/exec-approvals.json", "{\n  \"version\": 1,\n  \"agents\": nonsense\n}")
	for _, cmd := range []corral.Command{{ID: "one", Shell: "tool", Approval: rec.ID}, {ID: "two", Shell: "head"}, {ID: "three", Args: []string{"/bin/true"}}} {
		if _, err := r.check(cmd); !errors.Is(err, corral.ErrDenied) || errors.Is(err, corral.ErrApproval) {
			t.Errorf("%+v: %v", cmd, err)
		}
	}
	e, err := r.guard.Explain(t.Context(), "main", corral.Command{ID: "x", Shell: "tool"}, gateway)
	if err != nil || len(e.Warnings) != 1 || !strings.Contains(e.Warnings[0], "exec-approvals.json:3:") || !strings.Contains(e.Warnings[0], "byte ") {
		t.Errorf("%q, %v", e.Warnings, err)
	}
	r.ok(os.Remove(r.at("state/exec-approvals.json")))
	r.write("config.json5", "{\n tools: {exec: {host: gateway}}}")
	_, err = r.check(corral.Command{ID: "one", Shell: "head"})
	if !errors.Is(err, corral.ErrDenied) {
		t.Errorf("a configuration with a mistake: %v", err)
	}
	if e, err := r.guard.Explain(t.Context(), "main", corral.Command{ID: "x", Shell: "tool"}, gateway); err != nil || len(e.Warnings) != 1 || !strings.Contains(e.Warnings[0], "config.json5:2:") {
		t.Errorf("%q, %v", e.Warnings, err)
	}
}

func TestEnvironmentIsNotWritten(t *testing.T) {
	r := newRig(t, onHost)
	cmd := corral.Command{ID: "one", Shell: "tool", Env: map[string]string{"PASSWORD_OF_MINE": "hunter2-hunter2"}}
	h := r.serve()
	rec := r.pending(cmd)
	if !r.holds("PASSWORD_OF_MINE") || r.holds("hunter2") {
		t.Error("of the environment there are more or less than its names on disk")
	}
	r.answer(rec, approval.AllowOnce)
	h.next()
	if ran, _, _ := h.got(); len(ran) != 1 || ran[0].Env["PASSWORD_OF_MINE"] != "hunter2-hunter2" {
		t.Errorf("%+v", ran)
	}
	if r.holds("hunter2") {
		t.Error("a value is on disk")
	}
	// After a restart the environment is lost, and the command does not run without it.
	cmd.ID, cmd.Env["PASSWORD_OF_MINE"] = "two", "other-hunter2"
	rec = r.pending(cmd)
	r.again()
	h = r.serve()
	r.answer(rec, approval.AllowOnce)
	h.next()
	if ran, _, denials := h.got(); len(ran) != 0 || len(denials) != 1 || !strings.HasPrefix(denials[0], "its environment, which is not written down") {
		t.Errorf("%+v, %q", ran, denials)
	}
	if _, err := r.check(cmd); err != nil { // the command asked for again uses the approval
		t.Error(err)
	}
}

func TestErrors(t *testing.T) {
	r := newRig(t, onHost)
	_, err := r.check(corral.Command{ID: "one", Shell: "tool", Env: map[string]string{"A": "1"}})
	p, _ := approval.AsPending(err)
	if p.Record.Note == nil || p.Details().(approval.Record).Note != nil || corral.Hint(err) != "corral approvals allow "+p.Record.Slug {
		t.Errorf("%+v, hint %q", p.Details(), corral.Hint(err))
	}
	if p.Record.StartID() != "one" || (approval.Record{}).StartID() != "" {
		t.Error(p.Record.StartID())
	}
	for _, cmd := range []corral.Command{{Shell: "tool", Security: "none"}, {Shell: "tool", Ask: "never"}} {
		if _, err := r.check(cmd); !errors.Is(err, corral.ErrInvalid) {
			t.Errorf("%+v: %v", cmd, err)
		}
	}
	if _, err := r.guard.For("main")(t.Context(), corral.Command{Shell: "head", Security: "deny"}, gateway); !errors.Is(err, corral.ErrDenied) {
		t.Errorf("a call cannot tighten: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	cancel()
	if _, err := r.guard.For("main")(ctx, corral.Command{ID: "z", Shell: "tool z"}, gateway); !errors.Is(err, context.Canceled) {
		t.Errorf("a call that was cancelled: %v", err)
	}
}
