package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
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

// plainVariables are the variables that say how output looks and where the caller
// is, with the values that they are known to do no harm with: there is no path in
// them. A language of "../x" has translations read from there, and a time zone of
// "/x" that file.
var plainVariables = []struct {
	names, values *regexp.Regexp
}{
	// In some character sets a byte of a letter is a backslash or a quote: a shell
	// then reads another text than the one that was decided on.
	{plainExpr(`LANG|LC_[A-Z]+`), plainExpr(`|C|POSIX|en_(US|GB)|[A-Za-z_]{1,16}\.(UTF-8|utf-8|UTF8|utf8)(@[a-z]{1,16})?`)},
	{plainExpr(`LANGUAGE`), plainExpr(`[A-Za-z0-9_.@:-]{0,128}`)},
	{plainExpr(`TZ`), plainExpr(`[A-Za-z<][A-Za-z0-9_+,./:<>-]{0,63}|`)},
	{plainExpr(`TERM|COLORTERM`), plainExpr(`[A-Za-z0-9][A-Za-z0-9._+-]{0,63}|`)},
	{plainExpr(`NO_COLOR|FORCE_COLOR|CLICOLOR|CLICOLOR_FORCE|CI`), plainExpr(`[A-Za-z0-9_-]{0,32}`)},
	{plainExpr(`QWEN_CODE|ASIMI_CLI`), plainExpr(`1`)}, // which the tool run_shell_command sets in every call
	{plainExpr(`COLUMNS|LINES`), plainExpr(`[0-9]{1,6}|`)},
	{plainExpr(`SOURCE_DATE_EPOCH`), plainExpr(`[0-9]{1,20}|`)},
}

func plainExpr(expr string) *regexp.Regexp { return regexp.MustCompile(`^(?:` + expr + `)$`) }

// plainVariable says why a variable is none of plainVariables; empty if it is one.
func plainVariable(name, value string) string {
	for _, p := range plainVariables {
		if !p.names.MatchString(name) {
			continue
		}
		if !p.values.MatchString(value) || strings.Contains(value, "..") {
			return "its value is none of those that " + name + " is known to be harmless with"
		}
		return ""
	}
	return "it may make a program run another, or load code"
}

// isPlainVariable reports whether a name is that of one of plainVariables.
func isPlainVariable(name string) bool {
	for _, p := range plainVariables {
		if p.names.MatchString(name) {
			return true
		}
	}
	return false
}

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

// A setting is a variable that the text of a command sets.
type setting struct {
	name  string
	value Word
	expr  *syntax.CallExpr // that it is for; nil: for all that follow
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
	why = plainVariable(name, value)
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
	shell := isShell(seg.name()) && !seg.wrapper
	return slices.ContainsFunc(j.rules.List, func(r Rule) bool {
		return r.Action == Allow && envAllows(r.Env, name, value) && j.allows(&r, t, seg, shell)
	})
}

// settable says why a variable that the text sets is not allowed; empty if it is.
func (j *judge) settable(s *setting) string {
	if !s.value.Static {
		return "its value can only be told by running it"
	}
	var c *call
	if s.expr != nil {
		if c = j.callOf(s.expr); c == nil {
			return "it is set for no program"
		}
	}
	_, why := j.mayset(s.name, s.value.Text, c)
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
