package boundary

import (
	"errors"
	"strings"

	"github.com/corral-exec/corral"
)

// Rule is why something is refused. The set is closed.
type Rule string

const (
	BindSyntax     Rule = "bind-syntax"     // not SOURCE:TARGET[:ro|rw]
	BindRelative   Rule = "bind-relative"   // the source is no absolute path
	BindTarget     Rule = "bind-target"     // nothing can be mounted there
	BindReserved   Rule = "bind-reserved"   // the target is Corral's
	BindTwice      Rule = "bind-twice"      // two with one target
	BindRoot       Rule = "bind-root"       // the source is the whole machine
	BindSystem     Rule = "bind-system"     // it is, or is in, a directory of the system
	BindCovers     Rule = "bind-covers"     // it holds one that is refused
	BindCredential Rule = "bind-credential" // it is or holds credentials
	BindHome       Rule = "bind-home"       // it is a home directory, or holds one
	BindEngine     Rule = "bind-engine"     // it is, or holds, an engine's socket
	BindSocket     Rule = "bind-socket"     // it is a socket
	BindSpecial    Rule = "bind-special"    // it is a device, a pipe or the like
	BindState      Rule = "bind-state"      // it holds, or is in, what Corral keeps
	BindOutside    Rule = "bind-outside"    // it is in none of the allowed roots
	BindUnknown    Rule = "bind-unknown"    // it cannot be looked at

	NetworkHost      Rule = "network-host"      // the machine's own
	NetworkContainer Rule = "network-container" // another container's, or another namespace
	NetworkEgress    Rule = "network-egress"    // a list of hosts, which there is not yet
	NetworkName      Rule = "network-name"      // no name of a network

	SeccompUnconfined  Rule = "seccomp-unconfined"  // no profile, or one that allows what it does not name
	SeccompProfile     Rule = "seccomp-profile"     // no profile that can be used
	AppArmorUnconfined Rule = "apparmor-unconfined" // no profile
	AppArmorProfile    Rule = "apparmor-profile"    // no name of a profile

	UserRoot Rule = "user-root" // commands would run as root
)

// A Refusal is something that a sandbox is not given. It is an error, of kind
// corral.ErrDenied or, where it cannot be understood, corral.ErrInvalid.
type Refusal struct {
	Rule    Rule   `json:"rule"`
	Subject string `json:"subject"`           // what was asked for, as it was written
	Path    string `json:"path,omitempty"`    // what it comes to on this machine
	Blocked string `json:"blocked,omitempty"` // the path that is protected
	Why     string `json:"why"`               // the end of a sentence about the subject
	Fix     string `json:"fix"`               // what to do
}

// Error is one line, with the rule.
func (r *Refusal) Error() string { return r.Text() + " (" + string(r.Rule) + ")" }

// Text is one line, for where the rule is named beside it.
func (r *Refusal) Text() string {
	kind, _, _ := strings.Cut(string(r.Rule), "-")
	switch kind {
	case "bind":
		return "cannot mount " + plain(r.Subject) + " into a sandbox: " + r.Why
	case "user":
		return "a sandbox is refused the user " + plain(r.Subject) + ": " + r.Why
	case "network":
		return "a sandbox is refused the network " + quote(r.Subject) + ": " + r.Why
	}
	return "a sandbox is refused the " + kind + " profile " + quote(r.Subject) + ": " + r.Why
}

// plain is what was asked for, quoted only if it has to be.
func plain(s string) string {
	if q := quote(s); q != `"`+s+`"` || s == "" || strings.Contains(s, " ") {
		return q
	}
	return s
}

// Unwrap makes errors.Is find the kind, and corral.Hint the fix, and who says more.
func (r *Refusal) Unwrap() error {
	kind := corral.ErrDenied
	switch r.Rule {
	case BindSyntax, BindRelative, BindTarget, BindTwice, NetworkName, SeccompProfile, AppArmorProfile, UserRoot:
		kind = corral.ErrInvalid
	}
	return &corral.Error{Kind: kind, Text: r.Error(), Hint: r.Fix + "; corral sandbox explain shows all that the configuration is refused"}
}

// Join is errors.Join, but in one line, and a single error stays as it is.
func Join(errs []error) error {
	switch len(errs) {
	case 0:
		return nil
	case 1:
		return errs[0]
	}
	return &several{errs}
}

type several struct{ errs []error }

func (s *several) Error() string {
	texts := make([]string, len(s.errs))
	for i, err := range s.errs {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}

func (s *several) Unwrap() []error { return s.errs }

// Refusals are those among errs, which may be joined or wrapped.
func Refusals(err error) []Refusal {
	if joined, ok := err.(interface{ Unwrap() []error }); ok { //nolint:errorlint // this is the walk
		var list []Refusal
		for _, e := range joined.Unwrap() {
			list = append(list, Refusals(e)...)
		}
		return list
	}
	if r, ok := errors.AsType[*Refusal](err); ok {
		return []Refusal{*r}
	}
	return nil
}

// maxSubject bounds what an error quotes, in bytes.
const maxSubject = 300
