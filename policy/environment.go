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
// of names make some program run another one. So allowlist mode passes only variables
// that are known to be harmless, or that the configuration or a rule allows.
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

// EnvEntry is the entry of Rule.Env for exactly this value of a variable. It has the
// digest, so the value stays secret.
func EnvEntry(v Variable) string { return v.Name + "=sha256:" + v.SHA256 }

// EnvEntryPattern is the regular expression that elements of Rule.Env match.
const EnvEntryPattern = `^[A-Za-z_][A-Za-z0-9_]*(=.*)?$`

// envAllows reports whether an entry allows a variable with that value: NAME allows
// any value, NAME=VALUE that value, NAME=sha256:HEX the value with that digest.
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

// variables notes on the decision which variables of the request are allowed, and
// reports whether all are. It is called when all segments have been judged.
func (j *judge) variables(d *Decision) (all bool) {
	all = true
	for _, name := range slices.Sorted(maps.Keys(j.req.Env)) {
		v := Variable{Name: name, SHA256: sumValue(j.req.Env[name])}
		v.By, v.Reason = j.variableAllowedBy(name, j.req.Env[name], nil)
		all = all && v.By != ""
		d.Variables = append(d.Variables, v)
	}
	return all
}

// variableAllowedBy says what allows a variable for the programs of call c, or of all
// calls if c is nil; if nothing does, by is empty and why is the reason. A variable that is not
// harmless and not in tools.exec.env.allow needs a rule that names it for each program.
func (j *judge) variableAllowedBy(name, value string, c *call) (by, why string) {
	why = programs.PlainVariable(name, value)
	switch {
	case why == "":
		return byHarmless, ""
	case envAllows(j.rules.Env.Value, name, value):
		return byEnvAllow, ""
	case j.whole:
		for _, r := range j.exactly {
			if r.Action == Allow && envAllows(r.Env, name, value) {
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
	for i := range j.rules.List {
		r := &j.rules.List[i]
		if r.Action == Allow && envAllows(r.Env, name, value) && j.allows(r, t, seg, shell) {
			return true
		}
	}
	return false
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
	_, why := j.variableAllowedBy(s.Name, s.Value.Text, c)
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

// wantVariables is the fix that lets variables pass.
func wantVariables(names ...string) string {
	return fmt.Sprintf("leave out %s, or name it in tools.exec.env.allow, or in the env of the rule: env: [%q]", strings.Join(names, ", "), strings.Join(names, `", "`))
}
