package runshell

import (
	"fmt"
	"slices"
	"strings"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/pathenv"
	"github.com/corral-exec/corral/policy"
)

// A Verdict is the decision of the restrictions on a command.
type Verdict struct {
	// Outcome is policy.Asked for a command that may run if a person allows it.
	// Without an Approver it is denied.
	Outcome policy.Outcome `json:"decision"`
	Reason  string         `json:"reason,omitempty"` // why it is not allowed, in a sentence
	// Parts are the commands in it that are not allowed, as written.
	Parts []string `json:"parts,omitempty"`

	missing []part // Parts, if Outcome is Asked
}

func (v Verdict) hard() bool { return v.Outcome == policy.Denied }

func (v Verdict) denial() error {
	hint := "change excludeTools to allow it"
	switch {
	case strings.HasPrefix(v.Reason, substitution):
		hint = "run the inner command by itself first, and write its output into the command"
	case strings.HasPrefix(v.Reason, unparsed):
		hint = "write it so that bash can read it"
	}
	return corral.Errorf(corral.ErrDenied, hint, "%s", v.Reason)
}

// The beginnings of reasons.
const (
	substitution = "Command substitution using $(), `` ` ``, <(), or >() is not allowed for security reasons"
	unparsed     = "It cannot be told whether the command has a command substitution"
	disabled     = "Shell tool is globally disabled in configuration"
	notAllowed   = "Command(s) not in the allowed commands list."
	notApproved  = "Command(s) not on the global or session allowlist."
	untold       = "It cannot be told which commands run"
)

// A part is a simple command somewhere in a command: in a list, a pipeline, a
// substitution, a function or the text of another shell. A wrapper (sudo, env, xargs)
// is a part, and the command that it runs is another.
type part struct {
	Text  string // as written; for a wrapper's command, its words
	Words []policy.Word
}

func parts(command string) ([]part, []policy.Finding) {
	segments, findings := policy.Parts(command, "bash")
	list := make([]part, len(segments))
	for i, s := range segments {
		list[i] = part{s.Text, s.Words}
		if len(s.Wrappers) > 0 {
			list[i].Text = strings.Join(texts(s.Words), " ")
		}
	}
	return list, findings
}

// Check decides on a command by the restrictions. An excluded command is always denied. If
// coreTools name commands, all others are Asked. In profile asimi, command substitution
// is denied, and with an Approver every command is Asked that coreTools do not have.
//
// Every part of the command is checked separately. If the parts are not known, and it
// matters, the command is Asked.
func (t *Tool) Check(command string) Verdict {
	found, findings := parts(command)
	if t.cfg.Profile == pathenv.ProfileAsimi {
		if why := substitutes(findings); why != "" {
			return Verdict{Outcome: policy.Denied, Reason: why, Parts: []string{command}}
		}
	}
	core, exclude := t.rules.core, t.rules.exclude
	if exclude.all {
		return Verdict{Outcome: policy.Denied, Reason: disabled, Parts: written(found)}
	}
	confirm := t.cfg.Profile == pathenv.ProfileAsimi && t.cfg.Approve != nil
	strict := !core.all && (core.specific || confirm)
	hidden := ""
	if i := slices.IndexFunc(findings, policy.Finding.Hides); i >= 0 && (exclude.specific || strict) {
		hidden = findings[i].Reason
		if text := findings[i].Text; text != "" {
			hidden = text + ": " + hidden
		}
	}
	if hidden == "" && strict {
		hidden = redirects(findings)
	}
	for _, p := range found {
		sure, maybe := exclude.forbids(p.Words)
		if sure {
			return Verdict{Outcome: policy.Denied, Reason: fmt.Sprintf("Command '%s' is blocked by configuration", p.Text), Parts: []string{p.Text}}
		}
		if maybe && hidden == "" {
			hidden = p.Text + " may be one that is blocked by configuration, which can only be told by running it"
		}
	}
	missing := slices.DeleteFunc(found, func(p part) bool { return !strict || core.allows(p.Words) || t.approved.allow(p.Words) })
	switch {
	case len(missing) == 0 && hidden == "":
		return Verdict{Outcome: policy.Allowed}
	case len(missing) == 0:
		return Verdict{Outcome: policy.Asked, Reason: untold + ": " + hidden + ".", Parts: []string{command}}
	}
	reason := notAllowed
	if !core.specific {
		reason = notApproved
	}
	return Verdict{
		Outcome: policy.Asked, Parts: written(missing), missing: missing,
		Reason: reason + " Disallowed commands: " + quoted(written(missing)),
	}
}

// substitutes says why the shell substitutes, or may substitute, the output of another
// command in this one; empty if it does not.
func substitutes(findings []policy.Finding) string {
	for _, f := range findings {
		switch {
		case f.Kind == policy.Substitution, f.Kind == policy.Expansion && strings.HasSuffix(f.Text, "@P}"): // @P expands a prompt, which may run commands
			return substitution
		case f.Kind == policy.Syntax && f.Hides():
			return unparsed + ": it " + f.Reason
		}
	}
	return ""
}

// redirects names a variable that a command sets and that can make an allowed program run
// another: PATH, LD_PRELOAD, GIT_SSH_COMMAND. These are the variables that no call may set
// for a command on the gateway.
func redirects(findings []policy.Finding) string {
	for _, f := range findings {
		if f.Kind != policy.Assignment {
			continue
		}
		name := f.Text
		if i := strings.IndexFunc(name, notInName); i >= 0 {
			name = name[:i]
		}
		if _, err := pathenv.Gateway(pathenv.GatewayOptions{Call: map[string]string{name: ""}}); err != nil {
			return f.Text + ": what runs depends on this variable"
		}
	}
	return ""
}

func notInName(r rune) bool {
	return r != '_' && (r < '0' || '9' < r) && (r < 'A' || 'Z' < r) && (r < 'a' || 'z' < r)
}

// written are the texts of parts, each once.
func written(list []part) []string {
	var all []string
	for _, p := range list {
		if !slices.Contains(all, p.Text) {
			all = append(all, p.Text)
		}
	}
	return all
}

func quoted(list []string) string {
	var b strings.Builder
	for i, s := range list {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(`"` + s + `"`)
	}
	return b.String()
}
