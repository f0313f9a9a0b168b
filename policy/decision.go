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
	Home  string            // of the account that it runs as, for ~
	Env   map[string]string // what the caller sets, for all programs
	// Workspace is where the command may write, where that is enforced.
	Workspace string
	TTY       bool // on a terminal, where programs ask, and start pagers and editors
}

// A View is what Decide sees of the file system. Every path is absolute.
type View interface {
	// Stat describes what path names, symbolic links followed.
	Stat(path string) (fs.FileInfo, error)
	// RealPath is path without symbolic links.
	RealPath(path string) (string, error)
	// Executable reports why the file cannot be executed by who would.
	Executable(path string) error
	// Open opens a file for reading, for the digest of a script.
	Open(path string) (fs.File, error)
}

// Outcome is what becomes of a command. The set is closed.
type Outcome string

const (
	Allowed Outcome = "allow"
	Asked   Outcome = "ask" // it has to be approved
	Denied  Outcome = "deny"
)

// A Decision says what becomes of a command, and why.
type Decision struct {
	Outcome Outcome `json:"decision"`
	// Reason is one line for people. Of several it is the one that settled
	// it: the first segment or finding that is not allowed.
	Reason string `json:"reason"`
	// Fix is what to change so that it would be allowed, the most narrow
	// change first.
	Fix []string `json:"fix,omitempty"`
	// Rule is the rule that denied it, or that had it asked about.
	Rule *Rule `json:"rule,omitempty"`

	Segments []Segment `json:"segments"`
	// Findings are what allowlist mode refuses, apart from segments.
	Findings []Finding `json:"findings,omitempty"`

	// Variables are those that the caller sets, by name.
	Variables []Variable `json:"variables,omitempty"`

	Security    Setting[Security] `json:"security"`
	Ask         Setting[Ask]      `json:"ask"`
	AskFallback Setting[Security] `json:"askFallback"`

	// Miss: under security=allowlist, it is not what the rules allow.
	Miss bool `json:"miss,omitempty"`
	// Fallback is what Outcome is when an approval cannot be had; Denied or
	// Allowed.
	Fallback Outcome `json:"fallback"`

	// Run is what has the same effect as the command and runs the very
	// programs that were decided on. Nil if that cannot be written down.
	Run *Pinned `json:"run,omitempty"`
	// Enforce is what the kernel is to enforce of it; nil where nothing is
	// configured.
	Enforce *Enforcement `json:"enforce,omitempty"`
}

// Pinned is a command whose programs are all paths.
type Pinned struct {
	Args []string `json:"args"` // a program and its arguments, maybe a shell, -c and text
}

// A Word is one word of a command, as far as it can be told without running it.
type Word = programs.Word

// A Segment is a simple command somewhere in the command.
type Segment struct {
	Text   string `json:"text"`   // as written
	Offset int    `json:"offset"` // of Text in the command, in bytes; -1 in text of another shell
	Depth  int    `json:"depth"`  // how many shells' text it is in: 1 for sh -c

	// Words is the command that is decided on: what the wrappers run.
	Words    []Word   `json:"-"`
	Argv     []string `json:"argv"`
	Wrappers []string `json:"wrappers,omitempty"` // looked through, from the outside

	// Path is where the program was found, RealPath the file that is there.
	// Both are empty if it cannot be told, or nothing was found.
	Path     string `json:"path,omitempty"`
	RealPath string `json:"realPath,omitempty"`
	// Builtin: the shell does it itself, and there is no file of that name.
	Builtin bool `json:"builtin,omitempty"`
	// Script is the file of code that the program is to run, and its digest.
	Script string `json:"script,omitempty"`
	SHA256 string `json:"sha256,omitempty"`

	// Inline says how its arguments make the program run more than itself, so
	// that a rule has to name them, and Refused why no rule can allow it; empty
	// if it is not so.
	Inline  string `json:"inline,omitempty"`
	Refused string `json:"refused,omitempty"`

	// Unbound says why it cannot be told which code an interpreter or a shell is
	// to run: neither the words nor Script are all of it.
	Unbound string `json:"unbound,omitempty"`

	// By says what allows it: "rule", "safe bin", "builtin", or "wrapper" for
	// one that only runs the next segment; empty if nothing does.
	By string `json:"by,omitempty"`
	// Leeway is what it may run and write, where that is enforced; else nil.
	Leeway *Leeway `json:"leeway,omitempty"`
	Rule   *Rule   `json:"rule,omitempty"` // that allows, asks or denies
	// Reason says why it is not allowed, in one line; empty if it is.
	Reason string `json:"reason,omitempty"`

	call      *call
	sets      []programs.Setting // variables that it sets for what it runs, as env does
	setsOnly  bool               // it is refused for no other reason
	elsewhere []string           // paths that it may have after a cd
	pass      bool               // something allows it
	allowers  []*Rule            // all that allow it, where what it may is enforced
	wrapper   bool               // it runs what comes after it
	own       bool               // and has to be allowed itself
	missing   string             // why there is no path
	operand   int                // which word Script is
	scriptWhy string             // why there is no digest
	safeBin   string             // why it is no safe bin, of one that is on the list
}

// What allows a segment.
const (
	byRule    = "rule"
	bySafeBin = "safe bin"
	byBuiltin = "builtin" // of the shell, and harmless
	byWrapper = "wrapper" // it does nothing but run another, which is allowed
)

// A Finding is something in the command that is not a segment.
type Finding struct {
	Kind   Kind   `json:"kind"`
	Text   string `json:"text"`
	Offset int    `json:"offset"`
	Reason string `json:"reason"`
	// Passes: it is refused by default, and not by these rules.
	Passes bool `json:"passes,omitempty"`

	sets    []programs.Setting // what an assignment sets; nil: it is more than that
	option  string             // which of Rules makes it harmless: optionChaining and so on
	unknown bool               // it hides which programs run
}

// The options of Rules that have findings pass.
const (
	optionChaining     = "allowlist.chaining: each"
	optionRedirections = "allowlist.redirections: harmless"
)

// Kind is what a finding is. The set is closed.
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
