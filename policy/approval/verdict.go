package approval

import (
	"slices"
	"strconv"
	"strings"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/words"
	"github.com/corral-exec/corral/policy"
)

// A Verdict is an answer to a request for an approval. The set is closed.
type Verdict string

const (
	AllowOnce   Verdict = "allow-once"
	AllowAlways Verdict = "allow-always" // and remember it; see Scope
	Deny        Verdict = "deny"
)

// Verdicts is the closed set.
var Verdicts = []Verdict{AllowOnce, AllowAlways, Deny}

// A Scope says how wide the rules of AllowAlways are. The set is closed.
type Scope string

const (
	// ScopeExact: each program with exactly these arguments, and scripts as
	// they are now.
	ScopeExact Scope = "exact"
	// ScopeSubcommand: each program with this first argument, such as git
	// status.
	ScopeSubcommand Scope = "subcommand"
	// ScopeProgram: each program with any arguments.
	ScopeProgram Scope = "program"
)

// Scopes is the closed set, from narrow to wide.
var Scopes = []Scope{ScopeExact, ScopeSubcommand, ScopeProgram}

var aliases = map[string]Verdict{
	"allow": AllowOnce, "once": AllowOnce, "allowonce": AllowOnce, "allow-once": AllowOnce,
	"always": AllowAlways, "allowalways": AllowAlways, "allow-always": AllowAlways,
	"deny": Deny, "reject": Deny, "block": Deny,
}

// ParseVerdict reads a verdict or one of its aliases, in any case.
func ParseVerdict(s string) (Verdict, error) {
	if v, ok := aliases[strings.ToLower(strings.TrimSpace(s))]; ok {
		return v, nil
	}
	return "", corral.Errorf(corral.ErrInvalid, "use allow-once, allow-always or deny", "%s is no decision", quote(s))
}

// ParseScope reads a scope; empty is ScopeExact.
func ParseScope(s string) (Scope, error) {
	scope := Scope(strings.ToLower(strings.TrimSpace(s)))
	if scope == "" {
		return ScopeExact, nil
	}
	if !slices.Contains(Scopes, scope) {
		return "", corral.Errorf(corral.ErrInvalid, "use exact, subcommand or program", "%s is no scope", quote(s))
	}
	return scope, nil
}

// A Reply is an answer in the text of a chat.
type Reply struct {
	ID      string // or a slug, or the beginning of one of them
	Verdict Verdict
	Scope   Scope
}

// ParseReply reads "/approve ID DECISION", in either order, with an optional scope after
// it. In a group "/approve@NAME" is for the bot of that name only.
func ParseReply(text, bot string) (Reply, error) {
	const usage = "write /approve ID DECISION, where DECISION is allow-once, allow-always or deny"
	words := strings.Fields(text)
	if len(words) == 0 {
		return Reply{}, corral.Errorf(corral.ErrInvalid, usage, "the reply is empty")
	}
	name, at, addressed := strings.Cut(words[0], "@")
	if !strings.EqualFold(name, "/approve") {
		return Reply{}, corral.Errorf(corral.ErrInvalid, usage, "%s is not /approve", quote(words[0]))
	}
	if addressed && !strings.EqualFold(at, strings.TrimPrefix(bot, "@")) {
		return Reply{}, corral.Errorf(corral.ErrInvalid, "", "the reply is for another bot, %s", quote(at))
	}
	if len(words) < 3 || len(words) > 4 {
		return Reply{}, corral.Errorf(corral.ErrInvalid, usage, "the reply has to have an ID and a decision")
	}
	id := words[1]
	verdict, err := ParseVerdict(words[2])
	if err != nil {
		id = words[2]
		if verdict, err = ParseVerdict(words[1]); err != nil {
			return Reply{}, corral.Errorf(corral.ErrInvalid, usage, "neither %s nor %s is a decision", quote(words[1]), quote(words[2]))
		}
	}
	reply := Reply{ID: id, Verdict: verdict}
	if len(words) == 4 {
		if reply.Scope, err = ParseScope(words[3]); err != nil {
			return Reply{}, err
		}
	}
	return reply, nil
}

// decisions are the possible answers, and why AllowAlways is not among them.
func decisions(d policy.Decision, previews []Preview, remembers bool) ([]Verdict, string) {
	without := []Verdict{AllowOnce, Deny}
	switch {
	case d.Ask.Value == policy.AskAlways:
		return without, "allow-always is unavailable because the effective policy requires approval every time"
	case d.Rule != nil && d.Rule.Action == policy.Query:
		return without, "allow-always is unavailable because a rule has this asked about every time: " + d.Rule.Source.String()
	case !remembers:
		return without, "allow-always is unavailable because there is no file of approvals to remember it in"
	case !slices.ContainsFunc(previews, func(p Preview) bool { return p.Unavailable == "" }):
		return without, "allow-always is unavailable because " + previews[0].Unavailable
	}
	return Verdicts, ""
}

// quote bounds and quotes text that came from outside.
func quote(s string) string {
	return strconv.Quote(oneLine(s, 80))
}

// oneLine is the beginning of s in one line without control characters, in at
// most n characters.
func oneLine(s string, n int) string {
	r := []rune(strings.Join(strings.Fields(words.StripANSI(s)), " "))
	if len(r) > n {
		r = append(r[:n-1:n-1], '…')
	}
	return string(r)
}
