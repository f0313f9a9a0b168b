package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/corral-exec/corral/internal/programs"
)

// An Action is what a rule says about the commands that it matches. The order
// is that in which rules beat each other.
type Action string

const (
	Deny  Action = "deny"
	Query Action = "ask"
	Allow Action = "allow"
)

// A Rule allows, asks about or denies a program, or some uses of it.
//
// The first word of Pattern is the program. In an allow rule it is a glob over
// the path at which the program was found: '*' is any run of characters but
// '/', '**' any run, '?' one character but '/', '~' at the beginning the home
// directory. A base name never allows anything, except "*" alone, which matches
// every program that can be parsed. In a deny or ask rule, the glob is also
// compared with the base names of the program and of the file it is a link to.
// So "rm" matches every rm.
//
// The words after it are the first arguments, each a glob in which '*' also
// matches '/'. In an allow rule they must be the command's first arguments. In a
// deny or ask rule they are also found behind options, in clusters of flags and
// in another order, since there a miss does harm.
type Rule struct {
	Action  Action `json:"action"`
	Pattern string `json:"pattern"`

	// Args are exactly the arguments that the command must have; nil: any.
	Args []string `json:"args,omitzero"`
	// ArgPattern is a regular expression (RE2) over the arguments, joined by
	// spaces; or, if there is a NUL in it, each ended by a NUL, and two NULs if
	// there are none. Empty: any.
	ArgPattern string `json:"argPattern,omitempty"`
	// SHA256 is the digest that the program's script must have, in hex; empty:
	// any.
	SHA256 string `json:"sha256,omitempty"`
	// Env are variables that the caller may set for the program, in an allow
	// rule: NAME with any value, NAME=VALUE, or NAME=sha256: and the SHA-256 of
	// the value in hex.
	Env []string `json:"env,omitempty"`
	// Command is the exact text of the command, or its CommandDigest; the other
	// fields but Env are then empty. It is for commands that cannot be divided into
	// programs.
	Command string `json:"command,omitempty"`

	// Runs are the programs that the allowed program may run, if that is enforced:
	// absolute paths, a slash at the end for a directory, ~/ for the home
	// directory; or RunsAny. Nil: those of the built-in table; empty: none.
	Runs []string `json:"runs,omitzero"`
	// Writes are the paths that it may write beside the workspace and the
	// directories for temporary files, written as in Runs; nil: those of the
	// built-in table.
	Writes []string `json:"writes,omitzero"`

	Reason string `json:"reason,omitempty"` // why the rule exists, for people
	ID     string `json:"id,omitempty"`     // empty if the rule has none
	Source Source `json:"source"`           // where it is written
}

// CommandDigest stands for the text of a command in Rule.Command, so that secrets in
// the text are not kept.
func CommandDigest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// IsCommand reports whether text is exactly the command that the rule names.
func (r *Rule) IsCommand(text string) bool {
	return r.Command != "" && (r.Command == text || r.Command == CommandDigest(text))
}

// A Source is where a rule or a value is written.
type Source struct {
	File string `json:"file,omitempty"` // empty: no file
	Line int    `json:"line,omitempty"` // from 1
	Key  string `json:"key,omitempty"`  // such as tools.exec.rules[2]
	Name string `json:"name,omitempty"` // if it is in no file: "default", "request", "session"
	Fix  string `json:"-"`              // what to do about it, if that is no change of a setting
}

func (s Source) String() string {
	switch {
	case s.File == "":
		return s.Name
	case s.Line == 0 && s.Key == "":
		return s.File
	case s.Line == 0:
		return s.File + " " + s.Key
	case s.Key == "":
		return fmt.Sprintf("%s:%d", s.File, s.Line)
	}
	return fmt.Sprintf("%s:%d %s", s.File, s.Line, s.Key)
}

// A Setting is a value and where it comes from.
type Setting[T any] struct {
	Value  T      `json:"value"`
	Source Source `json:"source"`
}

// A SafeBin says which uses of a program read nothing but standard input and
// write nothing but standard output.
type SafeBin = programs.SafeBin

// Rules are all rules and modes that apply to a command, with their sources.
type Rules struct {
	Security Setting[Security]
	Ask      Setting[Ask]
	// AskFallback is the Security that applies when an approval is needed and
	// cannot be asked for, or does not come in time. Without a value: deny.
	AskFallback Setting[Security]

	// List has every rule; their order does not matter.
	List []Rule

	// Env are further variables that callers may set for all programs, as in
	// Rule.Env.
	Env Setting[[]string]

	SafeBins Setting[[]string]
	// SafeBinDirs are the directories in which safe bins are trusted, beside
	// /bin and /usr/bin.
	SafeBinDirs []string
	// SafeBinProfiles are the profiles of further safe bins, by name.
	SafeBinProfiles map[string]SafeBin

	// Chaining allows lists of commands (; && || and new lines) when each of them
	// is allowed.
	Chaining Setting[bool]
	// Redirections allows harmless redirections: to and from /dev/null, and of one
	// output into the other; and here-documents that are not expanded.
	Redirections Setting[bool]

	// Enforce says whether the kernel enforces the decision; without a value,
	// enforcement is not configured and Decision.Enforce is nil.
	Enforce Setting[Enforce]
}
