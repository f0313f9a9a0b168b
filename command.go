package corral

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/corral-exec/corral/internal/confine"
	"github.com/corral-exec/corral/internal/decided"
)

// A Command is what to run. Exactly one of Shell and Args is set.
type Command struct {
	// ID names the process for Attach and makes Start idempotent. Letters,
	// digits, '.', '_' and '-', at most 64, not starting with '.' or '-'.
	// Empty: Start makes one up.
	ID string `json:"id,omitempty"`

	// Shell is text for the host's shell: sh -lc in a sandbox, $SHELL -c on
	// the gateway (see hostexec for the exact rule).
	Shell string `json:"command,omitempty"`
	// Args is a program and its arguments, run without a shell. A program
	// without a slash is looked up on the command's PATH, where it runs.
	Args []string `json:"args,omitempty"`

	// Dir is the working directory. Relative is relative to the executor's
	// workspace; empty is the workspace itself.
	Dir string `json:"workdir,omitempty"`

	// Env overrides variables of the executor's own environment; which keys
	// are refused is the executor's rule (see pathenv).
	Env map[string]string `json:"env,omitempty"`
	// PathPrepend are directories to put before PATH; in a sandbox after
	// the login profile has set it.
	PathPrepend []string `json:"pathPrepend,omitempty"`

	// Stdin keeps standard input open for Process.Write. Without it the
	// command reads end-of-file. A terminal always has input.
	Stdin bool `json:"stdin,omitempty"`
	// TTY runs the command on a pseudo-terminal of that size; a zero size
	// is DefaultSize. Standard error is then part of standard output.
	TTY *Size `json:"tty,omitempty"`
	// MergeStderr gives the command one pipe for standard output and
	// standard error: exact order, one stream. Without it the order
	// between the two streams is that in which they were read.
	MergeStderr bool `json:"mergeStderr,omitempty"`

	// Timeout ends the whole process tree when it expires, enforced next to
	// the process. 0: none.
	Timeout time.Duration `json:"timeout,omitempty"`
	// Grace is the time between SIGTERM and SIGKILL on a time-out. 0 is
	// DefaultGrace; negative kills at once.
	Grace time.Duration `json:"grace,omitempty"`

	// Log bounds the output that is kept.
	Log LogLimit `json:"log,omitzero"`

	// Description tells people what the command is for. It is shown where commands are
	// approved or listed, and has no other effect.
	Description string `json:"description,omitempty"`

	// The Router and its Guard read the fields below; executors ignore them.
	Host     Host   `json:"host,omitempty"`
	Node     string `json:"node,omitempty"`
	Elevated bool   `json:"elevated,omitempty"`
	// Security and Ask tighten the policy for this command; see package
	// policy for their values. Empty: as configured.
	Security string `json:"security,omitempty"`
	Ask      string `json:"ask,omitempty"`
	// Approval is the id of the approval by which the command may run.
	Approval string `json:"approval,omitempty"`

	// Domain, if set, limits which programs the command may execute and which files it
	// may write. The kernel of the gateway's machine or of the node enforces it. A
	// Guard sets it; the Router drops any other.
	Domain *Domain `json:"-"`
	// Decided carries the Guard's decision about the command to its executor. Its type
	// is Corral's own; the Router drops any value that a caller set.
	Decided decided.About `json:"-"`
}

// A Domain lists the programs that a command and its descendants may execute, and the
// files that they may write.
type Domain = confine.Domain

// Enforced is the part of a Domain that is in force for a process.
type Enforced = confine.Enforced

// DefaultGrace is the time between SIGTERM and SIGKILL when a Timeout expires and
// Command.Grace is 0.
const DefaultGrace = 2 * time.Second

const (
	maxIDLen = 64
	// MaxDescription bounds Description, in bytes.
	MaxDescription = 4096
	// MaxCommandBytes bounds Shell, Args and Env together. Linux itself
	// refuses a single argument over 128 KiB (MAX_ARG_STRLEN).
	MaxCommandBytes = 2 << 20
)

// NewID returns an unguessable ID.
func NewID() string { return strings.ToLower(rand.Text()) }

// ValidateID reports whether id can name a process.
func ValidateID(id string) error {
	if id == "" || len(id) > maxIDLen {
		return Errorf(ErrInvalid, "use 1 to 64 letters, digits, '.', '_' or '-'", "id %q has %d characters", id, len(id))
	}
	for i := 0; i < len(id); i++ {
		c := id[i]
		alnum := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !alnum && (i == 0 || c != '.' && c != '-') && c != '_' {
			return Errorf(ErrInvalid, "use letters, digits, '.', '_' or '-', and begin with a letter, a digit or '_'", "id %q has %q at position %d", id, c, i)
		}
	}
	return nil
}

// Digest identifies the effect of c: two commands with the same digest do the same on
// any host. It leaves out the ID, the Description, the fields that only the Router
// reads, Domain and Decided.
func (c Command) Digest() string {
	h := sha256.New()
	// %q keeps any bytes of strings apart, and prints maps sorted.
	fmt.Fprintf(h, "%q %q %q %q %q %t %t %d %d %d %d", c.Shell, c.Args, c.Dir, c.Env, c.PathPrepend,
		c.Stdin, c.MergeStderr, c.Timeout, c.Grace, c.Log.Head, c.Log.Tail)
	if c.TTY != nil {
		fmt.Fprintf(h, " %d %d", c.TTY.Rows, c.TTY.Cols)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// Validate reports what is wrong with c, as an ErrInvalid that names the
// field. An empty ID is valid.
func (c Command) Validate() error {
	if c.ID != "" {
		if err := ValidateID(c.ID); err != nil {
			return err
		}
	}
	switch {
	case len(c.Args) > 0 && c.Shell != "":
		return Errorf(ErrInvalid, "set only one of them", "both shell text and an argument list are given")
	case len(c.Args) > 0 && c.Args[0] == "":
		return Errorf(ErrInvalid, "name a program", "the program's name is empty")
	case len(c.Args) == 0 && strings.TrimFunc(c.Shell, unicode.IsSpace) == "":
		return Errorf(ErrInvalid, "provide a command to start", "the command is empty")
	case c.Timeout < 0:
		return Errorf(ErrInvalid, "0 means no time-out", "the time-out %v is negative", c.Timeout)
	case !c.Log.Valid():
		return Errorf(ErrInvalid, "0 means the default", "no log can have the limit %d+%d", c.Log.Head, c.Log.Tail)
	}
	if len(c.Description) > MaxDescription {
		return Errorf(ErrInvalid, fmt.Sprintf("use at most %d bytes", MaxDescription), "the description has %d bytes", len(c.Description))
	}
	total := 0
	text := func(field, s string) error {
		total += len(s) + 1
		if i := strings.IndexByte(s, 0); i >= 0 {
			return Errorf(ErrInvalid, "no argument or variable of a process can hold one", "%s has a NUL byte at position %d", field, i)
		}
		return nil
	}
	if err := text("the command", c.Shell); err != nil {
		return err
	}
	if err := text("the working directory", c.Dir); err != nil {
		return err
	}
	for i, a := range c.Args {
		if err := text(fmt.Sprintf("argument %d", i), a); err != nil {
			return err
		}
	}
	for _, k := range slices.Sorted(maps.Keys(c.Env)) {
		if k == "" || strings.Contains(k, "=") {
			return Errorf(ErrInvalid, "a name is not empty and has no '='", "%q is not the name of an environment variable", k)
		}
		if err := text("the name of an environment variable", k); err != nil {
			return err
		}
		if err := text("the environment variable "+k, c.Env[k]); err != nil {
			return err
		}
	}
	for i, d := range c.PathPrepend {
		field := fmt.Sprintf("pathPrepend[%d]", i)
		if err := text(field, d); err != nil {
			return err
		}
		if strings.Contains(d, ":") {
			return Errorf(ErrInvalid, "a directory with ':' in its name cannot be on PATH", "%s is %q", field, d)
		}
	}
	if total > MaxCommandBytes {
		return Errorf(ErrInvalid, "pass large data on standard input or in a file", "the command, its arguments and its environment have %d bytes, more than %d", total, MaxCommandBytes)
	}
	return nil
}
