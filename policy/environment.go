package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/corral-exec/corral/internal/programs"
)

// A Variable is one that the caller of a command sets for all its programs. Hundreds
// of names make some program run another one. So in allowlist mode only variables
// pass that are known not to do that, or that are allowed by a rule.
type Variable struct {
	Name   string `json:"name"`
	SHA256 string `json:"sha256"` // of its value, in hex: values may be secrets
	// By says what allows it: "harmless", "tools.exec.env.allow" or "rule";
	// empty: nothing does, and Reason says why not.
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// What allows a variable, beside byRule.
const (
	byHarmless = "harmless"
	byEnvAllow = "tools.exec.env.allow"
)

// sumValue is the SHA-256 of a value, in hex.
func sumValue(value string) string {
	sum := sha256.Sum256([]byte(value))
	return hex.EncodeToString(sum[:])
}

// EnvEntry is what Rule.Env has for exactly this value of a variable, which it
// does not tell.
func EnvEntry(v Variable) string { return v.Name + "=sha256:" + v.SHA256 }

// EnvEntryPattern is what an element of Rule.Env looks like.
const EnvEntryPattern = `^[A-Za-z_][A-Za-z0-9_]*(=.*)?$`

// envAllows reports whether one of the entries is about a variable with that
// value: NAME is, with any value; so are NAME=VALUE and NAME=sha256:HEX with that.
func envAllows(entries []string, name, value string) bool {
	return slices.ContainsFunc(entries, func(e string) bool {
		n, want, has := strings.Cut(e, "=")
		if n != name || !has {
			return n == name
		}
		if digest, ok := strings.CutPrefix(want, "sha256:"); ok && len(digest) == 64 {
			return strings.EqualFold(digest, sumValue(value))
		}
		return want == value
	})
}

// variables notes on the decision which of the call's variables are allowed, and
// reports whether all are. It is asked once all segments are looked at.
func (j *judge) variables(d *Decision) (all bool) {
	all = true
	for _, name := range slices.Sorted(maps.Keys(j.req.Env)) {
		v := Variable{Name: name, SHA256: sumValue(j.req.Env[name])}
		v.By, v.Reason = j.mayset(name, j.req.Env[name], nil)
		all = all && v.By != ""
		d.Variables = append(d.Variables, v)
	}
	return all
}

// mayset says what allows a variable for the programs of a call, or of all: each
// needs a rule that names it, if nothing else does.
func (j *judge) mayset(name, value string, c *call) (by, why string) {
	why = programs.PlainVariable(name, value)
	switch {
	case why == "":
		return byHarmless, ""
	case envAllows(j.rules.Env.Value, name, value):
		return byEnvAllow, ""
	case j.whole:
		for i := range j.rules.List {
			if r := &j.rules.List[i]; r.Action == Allow && r.IsCommand(j.req.text()) && envAllows(r.Env, name, value) {
				return byRule, ""
			}
		}
		return "", why
	}
	programs := 0
	for _, in := range j.calls {
		if c != nil && in != c {
			continue
		}
		for _, seg := range in.segments {
			if seg.By == byBuiltin || seg.By == byWrapper {
				continue
			}
			if programs++; !j.ruleSets(seg, name, value) {
				return "", why
			}
		}
	}
	if programs == 0 {
		return "", why
	}
	return byRule, ""
}

// ruleSets reports whether a rule that allows the segment allows the variable too.
func (j *judge) ruleSets(seg *Segment, name, value string) bool {
	t := j.target(seg)
	shell := programs.IsShell(seg.name()) && !seg.wrapper
	return slices.ContainsFunc(j.rules.List, func(r Rule) bool {
		return r.Action == Allow && envAllows(r.Env, name, value) && j.allows(&r, t, seg, shell)
	})
}

// settable says why a variable that the text sets is not allowed; empty if it is.
func (j *judge) settable(s *programs.Setting) string {
	if !s.Value.Static {
		return "its value can only be told by running it"
	}
	var c *call
	if s.Expr != nil {
		if c = j.callOf(s.Expr); c == nil {
			return "it is set for no program"
		}
	}
	_, why := j.mayset(s.Name, s.Value.Text, c)
	return why
}

func (j *judge) callOf(expr *syntax.CallExpr) *call {
	for _, c := range j.calls {
		if c.expr == expr {
			return c
		}
	}
	return nil
}

// wantVariables says what to change so that variables pass.
func wantVariables(names ...string) string {
	return fmt.Sprintf("leave out %s, or name it in tools.exec.env.allow, or in the env of the rule: env: [%q]", strings.Join(names, ", "), strings.Join(names, `", "`))
}
