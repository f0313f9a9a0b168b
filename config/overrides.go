package config

import (
	"slices"
	"strings"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/words"
	"github.com/corral-exec/corral/policy"
)

// Overrides are what /exec sets for a session: defaults of its calls in the
// place of those of the file. They are state of the session, and never written
// to the file. What is empty is not overridden.
type Overrides struct {
	Host     corral.Host     `json:"host,omitempty"`
	Security policy.Security `json:"security,omitempty"`
	Ask      policy.Ask      `json:"ask,omitempty"`
	Node     string          `json:"node,omitempty"`
}

// Bounds of what is said.
const (
	maxDirective = 1024 // bytes
	maxNode      = 256  // bytes
)

// Apply reads what comes after /exec (or with it), such as "host=gateway
// security=allowlist ask=on-miss node=mac-1", and returns the overrides with
// that changed. A colon may stand for the equals sign; a key without a value is no
// longer overridden. Empty text asks to see the present ones: changed is false.
// After an error nothing is changed.
func (o Overrides) Apply(text string) (next Overrides, changed bool, err error) {
	if len(text) > maxDirective {
		return o, false, corral.Errorf(corral.ErrInvalid, "say less", "/exec with %d bytes; %d are the most", len(text), maxDirective)
	}
	words := strings.Fields(text)
	if len(words) > 0 && strings.EqualFold(strings.TrimSuffix(words[0], ":"), "/exec") {
		words = words[1:]
	}
	next = o
	seen := map[string]bool{}
	for _, word := range words {
		i := strings.IndexAny(word, "=:")
		if i < 0 {
			i = len(word)
		}
		key := strings.ToLower(word[:i])
		if seen[key] {
			return o, false, corral.Errorf(corral.ErrInvalid, "say it once", "/exec has %s twice", key)
		}
		seen[key] = true
		if i == len(word) {
			return o, false, unrecognized("option", word, "host=, security=, ask=, node=")
		}
		if err := next.set(key, word[i+1:]); err != nil {
			return o, false, err
		}
	}
	return next, len(words) > 0, nil
}

func (o *Overrides) set(key, value string) (err error) {
	switch key {
	case "host":
		o.Host, err = choose(key, value, []corral.Host{corral.HostSandbox, corral.HostGateway, corral.HostNode})
	case "security":
		o.Security, err = choose(key, value, policy.Securities)
	case "ask":
		o.Ask, err = choose(key, value, []policy.Ask{policy.AskOff, policy.AskOnMiss, policy.AskAlways})
	case "node":
		if len(value) > maxNode {
			return corral.Errorf(corral.ErrInvalid, "use the node's ID, name or IP address", "the exec node has %d bytes; %d are the most", len(value), maxNode)
		}
		o.Node = value
	default:
		return unrecognized("option", key, "host=, security=, ask=, node=")
	}
	return err
}

// choose reads one of a closed set, or nothing.
func choose[T ~string](key, value string, set []T) (T, error) {
	v := T(strings.ToLower(value))
	if v == "" || slices.Contains(set, v) {
		return v, nil
	}
	return "", unrecognized(key, value, words.List(set))
}

func unrecognized(what, word, valid string) error {
	plural := map[string]string{"host": "hosts", "security": "security values", "ask": "ask values", "option": "options"}[what]
	return corral.Errorf(corral.ErrInvalid, "such as /exec host=gateway security=allowlist ask=on-miss node=mac-1",
		"Unrecognized exec %s %q. Valid %s: %s.", what, shorten(word), plural, valid)
}

// String is what Apply reads; empty if nothing is overridden.
func (o Overrides) String() string {
	var words []string
	for _, w := range [][2]string{{"host", string(o.Host)}, {"security", string(o.Security)}, {"ask", string(o.Ask)}, {"node", o.Node}} {
		if w[1] != "" {
			words = append(words, w[0]+"="+w[1])
		}
	}
	return strings.Join(words, " ")
}

// With is what applies to an agent in a session with these overrides. While the
// configuration is closed they change nothing.
func (a Agent) With(o Overrides) Agent {
	if a.Err != nil {
		return a
	}
	override(&a.Tools.Exec.Host, o.Host)
	override(&a.Tools.Exec.Security, o.Security)
	override(&a.Tools.Exec.Ask, o.Ask)
	override(&a.Tools.Exec.Node, o.Node)
	return a
}

func override[T ~string](s *policy.Setting[T], value T) {
	if value != "" {
		*s = policy.Setting[T]{Value: value, Source: policy.Source{Name: "session"}}
	}
}

// CheckSender says why the sender may not use /exec; nil if that is allowed. The
// error is an ErrDenied.
func (c Commands) CheckSender(s Sender) error {
	if c.AllowFrom.Value.Allow(s) {
		return nil
	}
	const key = "commands.allowFrom"
	return corral.Errorf(corral.ErrDenied, "add the sender to "+key+providerKey(s),
		"/exec is for authorised senders, and %v does not name this one", where(c.AllowFrom.Source, key))
}
