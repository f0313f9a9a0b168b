package policy

import (
	"io/fs"

	"github.com/corral-exec/corral/internal/programs"
)

// A Request is a command to decide on, with what its meaning depends on.
// Exactly one of Command and Args is set.
type Request struct {
	Command string   // shell text
	Args    []string // a program and its arguments, without a shell

	Shell []string          // what reads Command, such as /bin/bash -c; see hostexec
	Dir   string            // working directory, absolute
	Path  string            // PATH of the command
	Home  string            // home directory of the account that it runs as, for ~
	Env   map[string]string // variables that the caller sets for all programs
	// Workspace is a directory that the command may write, if writes are enforced.
	Workspace string
	TTY       bool // on a terminal, where programs ask, and start pagers and editors
	Stdin     bool // standard input stays open: the caller can write to it
}

// A View is what Decide sees of the file system. Every path is absolute.
type View interface {
	// Stat describes what path names, symbolic links followed.
	Stat(path string) (fs.FileInfo, error)
	// RealPath is path without symbolic links.
	RealPath(path string) (string, error)
	// Executable reports why the account that runs the command cannot execute
	// the file.
	Executable(path string) error
	// Open opens a file for reading, for the digest of a script.
	Open(path string) (fs.File, error)
}

// Outcome says whether a command may run. The set is closed.
type Outcome string

const (
	Allowed Outcome = "allow"
	Asked   Outcome = "ask" // it has to be approved
	Denied  Outcome = "deny"
)

// A Decision says whether a command may run, and why.
type Decision struct {
	Outcome Outcome `json:"decision"`
	// Reason is one line for people. If there are several reasons, it is the
	// decisive one: the first segment or finding that is not allowed.
	Reason string `json:"reason"`
	// Fix lists changes that would allow the command, the narrowest first.
	Fix []string `json:"fix,omitempty"`
	// Rule is the rule that denied the command or asks about it.
	Rule *Rule `json:"rule,omitempty"`

	Segments []Segment `json:"segments"`
	// Findings are the parts, other than segments, that allowlist mode refuses.
	Findings []Finding `json:"findings,omitempty"`

	// Variables are the variables that the caller sets, sorted by name.
	Variables []Variable `json:"variables,omitempty"`

	Security    Setting[Security] `json:"security"`
	Ask         Setting[Ask]      `json:"ask"`
	AskFallback Setting[Security] `json:"askFallback"`

	// Miss: under security=allowlist, it is not what the rules allow.
	Miss bool `json:"miss,omitempty"`
	// Fallback is the Outcome if no approval can be obtained: Denied or Allowed.
	Fallback Outcome `json:"fallback"`

	// Run has the effect of the command, with the paths of the programs that were
	// decided on. Nil if the command cannot be written that way.
	Run *Pinned `json:"run,omitempty"`
	// Enforce says what the kernel is to enforce; nil if enforcement is not
	// configured.
	Enforce *Enforcement `json:"enforce,omitempty"`
}

// Pinned is a command whose programs are all paths.
type Pinned struct {
	Args []string `json:"args"` // a program and its arguments, maybe a shell, -c and text
}

// A Word is one word of a command, as far as it is known without running it.
type Word = programs.Word

// A Segment is a simple command somewhere in the command.
type Segment struct {
	Text   string `json:"text"`   // as written
	Offset int    `json:"offset"` // of Text in the command, in bytes; -1 in text of another shell
	Depth  int    `json:"depth"`  // how many shells' text it is in: 1 for sh -c

	// Words is the command that is decided on: the one that the wrappers run.
	Words    []Word   `json:"-"`
	Argv     []string `json:"argv"`
	Wrappers []string `json:"wrappers,omitempty"` // looked through, from the outside

	// Path is where the program was found, RealPath the same without symbolic
	// links. Both are empty if the program is not known or was not found.
	Path     string `json:"path,omitempty"`
	RealPath string `json:"realPath,omitempty"`
	// Builtin: the shell carries it out itself, and there is no file of that name.
	Builtin bool `json:"builtin,omitempty"`
	// Script is the file of code that the program is to run, and its digest.
	Script string `json:"script,omitempty"`
	SHA256 string `json:"sha256,omitempty"`

	// Inline says how the arguments make the program run more than itself; a rule
	// then has to name them. Refused says why no rule can allow the segment. Both
	// are empty if not so.
	Inline  string `json:"inline,omitempty"`
	Refused string `json:"refused,omitempty"`

	// Unbound says why the code that an interpreter or a shell runs is not fully
	// known: neither the words nor Script are all of it.
	Unbound string `json:"unbound,omitempty"`

	// By says what allows it: "rule", "safe bin", "builtin", or "wrapper" for
	// one that only runs the next segment; empty if nothing does.
	By string `json:"by,omitempty"`
	// Leeway says what it may run and write; nil if that is not enforced.
	Leeway *Leeway `json:"leeway,omitempty"`
	Rule   *Rule   `json:"rule,omitempty"` // the rule that allows, asks or denies
	// Reason says why it is not allowed, in one line; empty if it is.
	Reason string `json:"reason,omitempty"`

	call      *call
	sets      []programs.Setting // variables that it sets for the program it runs, as env does
	setsOnly  bool               // these variables are the only reason for Refused
	elsewhere []string           // paths that it may have after a cd
	pass      bool               // something allows it
	allowers  []*Rule            // all rules that allow it, if the kernel enforces them
	wrapper   bool               // it runs the program that comes after it
	own       bool               // and has to be allowed itself
	missing   string             // why there is no path
	operand   int                // index of the word that Script comes from
	scriptWhy string             // why there is no digest
	safeBin   string             // why this use of a listed safe bin is not safe
}

// What allows a segment.
const (
	byRule    = "rule"
	bySafeBin = "safe bin"
	byBuiltin = "builtin" // of the shell, and harmless
	byWrapper = "wrapper" // it only runs another program, which is allowed
)

// A Finding is something in the command that is not a segment.
type Finding struct {
	Kind   Kind   `json:"kind"`
	Text   string `json:"text"`
	Offset int    `json:"offset"`
	Reason string `json:"reason"`
	// Passes: refused by default, but allowed by these rules.
	Passes bool `json:"passes,omitempty"`

	sets    []programs.Setting // variables that an assignment sets; nil: it does more than that
	option  string             // the option of Rules that lets it pass, such as optionChaining
	unknown bool               // it hides which programs run
}

// The options of Rules that let findings pass.
const (
	optionChaining     = "allowlist.chaining: each"
	optionRedirections = "allowlist.redirections: harmless"
)

// Kind is the kind of a finding. The set is closed.
type Kind string

const (
	Syntax       Kind = "syntax"       // the text cannot be parsed
	Chaining     Kind = "chaining"     // ; && || and new lines
	Background   Kind = "background"   // &
	Redirection  Kind = "redirection"  // > < << and so on
	Substitution Kind = "substitution" // $(…), `…`, <(…), >(…)
	Expansion    Kind = "expansion"    // $((…)) and ${…} that can run code
	Assignment   Kind = "assignment"   // NAME=value
	Compound     Kind = "compound"     // if, for, while, case, (…), {…}, [[…]], functions, coproc, time, !
)
