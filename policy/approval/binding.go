package approval

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/policy"
)

// A Binding identifies exactly what an approval is for. It has digests of the command and
// of the environment's values in place of their texts.
type Binding struct {
	// Node is the id of the node that made it, and NodeSum its digest on the node; both
	// are empty for a binding of this host. With a node, all fields below but Command,
	// Stdin and the environment are the node's claim.
	Node    string `json:"node,omitempty"`
	NodeSum string `json:"nodeSum,omitempty"`

	Command string `json:"command"`         // SHA-256 of the text, the arguments and the shell, in hex
	Stdin   bool   `json:"stdin,omitempty"` // the caller can write to its standard input

	Dir     string   `json:"dir"`
	RealDir string   `json:"realDir"` // without symbolic links
	DirID   Identity `json:"dirId"`

	Env    []string `json:"env,omitempty"` // names of the variables that the caller set, sorted
	EnvSum string   `json:"envSum"`        // SHA-256 of names and values, in hex

	Path string `json:"path,omitempty"` // PATH, on which programs find other programs

	Programs []Program `json:"programs,omitempty"` // of each segment
	Scripts  []Script  `json:"scripts,omitempty"`
}

// Identity tells a file from every other file, also from earlier ones. It is zero if the
// system does not tell.
type Identity struct {
	Device  uint64 `json:"dev,omitempty"`
	Inode   uint64 `json:"ino,omitempty"`
	Changed int64  `json:"ctime,omitempty"` // nanoseconds since 1970; 0 for directories
}

// A Program is a file that is executed.
type Program struct {
	Name     string   `json:"name"`               // as written in the command
	Path     string   `json:"path,omitempty"`     // where it was found; empty: not found
	RealPath string   `json:"realPath,omitempty"` // without symbolic links
	ID       Identity `json:"id,omitzero"`
	Size     int64    `json:"size,omitempty"`
	Modified int64    `json:"mtime,omitempty"` // nanoseconds since 1970
}

// A Script is a file of code that a program is to run.
type Script struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256"` // in hex
}

// maxScript bounds a script, in bytes.
const maxScript = 64 << 20

// Bind makes the binding of a command with the decision on it. Env are the variables that
// the caller set. If something cannot be bound, such as an unreadable script, it returns an
// ErrDenied.
func Bind(req policy.Request, d policy.Decision, env map[string]string, view policy.View) (Binding, error) {
	b := bindText(req, env)
	info, err := view.Stat(req.Dir)
	if err == nil {
		b.RealDir, err = view.RealPath(req.Dir)
	}
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is not a directory", quote(req.Dir))
	}
	if err != nil {
		return Binding{}, corral.Errorf(corral.ErrDenied, "use a working directory that exists", "an approval needs an existing working directory: %w", err)
	}
	b.DirID = identify(info)
	b.DirID.Changed = 0 // it changes whenever a file is made in the directory

	for _, s := range d.Segments {
		p := Program{Path: s.Path, RealPath: s.RealPath}
		if len(s.Argv) > 0 {
			p.Name = s.Argv[0]
		}
		if s.Path != "" {
			info, err := view.Stat(cmp.Or(s.RealPath, s.Path))
			if err != nil {
				return Binding{}, corral.Errorf(corral.ErrDenied, "try again", "an approval needs programs that stay what they are: %w", err)
			}
			p.ID, p.Size, p.Modified = identify(info), info.Size(), info.ModTime().UnixNano()
		}
		b.Programs = append(b.Programs, p)
		if s.Script == "" {
			continue
		}
		script := Script{s.Script, s.SHA256}
		if script.SHA256 == "" {
			if script.SHA256, err = sumFile(view, s.Script); err != nil {
				return Binding{}, corral.Errorf(corral.ErrDenied, "see to it that the script can be read", "an approval needs a script that can be read: %w", err)
			}
		}
		b.Scripts = append(b.Scripts, script)
	}
	return b, nil
}

// bindText is the part of a binding that needs no file.
func bindText(req policy.Request, env map[string]string) Binding {
	b := Binding{Command: sumCommand(req), Stdin: req.Stdin || req.TTY, Dir: req.Dir, Path: req.Path}
	b.Env = slices.Sorted(maps.Keys(env))
	pairs := make([][2]string, len(b.Env))
	for i, k := range b.Env {
		pairs[i] = [2]string{k, env[k]}
	}
	b.EnvSum = sum(pairs)
	return b
}

// BindOnNode makes the binding of a command for a node. Command and environment are known
// here; said is the node's claim about the rest, and nodeSum its digest on the node. For a
// node without a policy, said is the zero Binding.
func BindOnNode(req policy.Request, env map[string]string, node string, said Binding, nodeSum string) Binding {
	b := bindText(req, env)
	b.Node, b.NodeSum = node, nodeSum
	b.RealDir, b.DirID, b.Programs, b.Scripts = said.RealDir, said.DirID, said.Programs, said.Scripts
	return b
}

// Digest identifies the binding: two bindings with the same digest are the same, but for
// Stdin, which Check compares: what was approved with an input may also run without one.
func (b Binding) Digest() string {
	b.Stdin = false
	return sum(b)
}

// sum is the SHA-256 of values, in hex. Strings may have any bytes, also invalid UTF-8.
func sum(values ...any) string {
	h := sha256.New()
	fmt.Fprintf(h, "%#v", values)
	return hex.EncodeToString(h.Sum(nil))
}

// sumCommand is the digest of a command and of how it runs: shell and terminal.
func sumCommand(req policy.Request) string {
	if req.TTY {
		return sum(req.Command, req.Args, req.Shell, "tty")
	}
	return sum(req.Command, req.Args, req.Shell)
}

func sumFile(view policy.View, path string) (string, error) {
	f, err := view.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, io.LimitReader(f, maxScript+1))
	if err == nil && n > maxScript {
		err = &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("it is larger than %d bytes", maxScript)}
	}
	return hex.EncodeToString(h.Sum(nil)), err
}

// Check compares b with the binding of the same command as it is now. If they differ, it
// returns an ErrDenied that names the first difference.
func (b Binding) Check(now Binding) error {
	if what := b.differs(now); what != "" {
		return corral.Errorf(corral.ErrDenied, "ask for a new approval", "%s", what)
	}
	if b.Digest() != now.Digest() {
		return corral.Errorf(corral.ErrDenied, "ask for a new approval", "something that the approval is for was changed after it was given")
	}
	return nil
}

func (b Binding) differs(now Binding) string {
	switch {
	case b.Command == "" || b.EnvSum == "":
		return "the approval is not bound to a command"
	case b.Node != now.Node:
		return fmt.Sprintf("it was approved for the node of id %s, and this one is %s", cmp.Or(b.Node, "none"), cmp.Or(now.Node, "none"))
	case b.Command != now.Command:
		return "the command is not the one that was approved"
	case now.Stdin && !b.Stdin:
		return "it was approved without an input that its caller can write to"
	case b.Dir != now.Dir:
		return fmt.Sprintf("the working directory is %s and not %s, for which it was approved", now.Dir, b.Dir)
	case b.RealDir != now.RealDir:
		return fmt.Sprintf("the working directory %s leads to %s now; it was approved for %s", b.Dir, now.RealDir, b.RealDir)
	case b.DirID != now.DirID:
		return fmt.Sprintf("the working directory %s is another directory now, not the one it was approved for", b.Dir)
	case !slices.Equal(b.Env, now.Env):
		return fmt.Sprintf("the environment was approved with these variables set: %s; and not: %s", names(b.Env), names(now.Env))
	case b.EnvSum != now.EnvSum:
		return "the value of an environment variable was changed after it was approved; set are: " + names(b.Env)
	case len(b.Programs) != len(now.Programs):
		return fmt.Sprintf("the command runs %d programs and not %d, which were approved", len(now.Programs), len(b.Programs))
	}
	for i, was := range b.Programs {
		is := now.Programs[i]
		where := cmp.Or(was.Path, was.Name)
		switch {
		case was.Name != is.Name || was.Path != is.Path:
			return fmt.Sprintf("%s is found at %s now; approved was %s", quote(is.Name), cmp.Or(is.Path, "no path"), cmp.Or(was.Path, "that it is not found"))
		case was.RealPath != is.RealPath:
			return fmt.Sprintf("%s leads to %s now; approved was %s", where, is.RealPath, was.RealPath)
		case was.ID.Device != is.ID.Device || was.ID.Inode != is.ID.Inode:
			return where + " was replaced after it was approved"
		case was.ID != is.ID || was.Size != is.Size || was.Modified != is.Modified:
			return where + " was changed after it was approved"
		}
	}
	if b.Path != now.Path {
		return fmt.Sprintf("PATH is %s now; approved was %s", quote(now.Path), quote(b.Path))
	}
	if len(b.Scripts) != len(now.Scripts) {
		return fmt.Sprintf("the command runs %d scripts and not %d, which were approved", len(now.Scripts), len(b.Scripts))
	}
	for i, was := range b.Scripts {
		switch is := now.Scripts[i]; {
		case was.Path != is.Path:
			return fmt.Sprintf("the script is %s and not %s, which was approved", is.Path, was.Path)
		case was.SHA256 != is.SHA256:
			return fmt.Sprintf("script %s was changed after it was approved", was.Path)
		}
	}
	return ""
}

func names(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	return oneLine(strings.Join(list, ", "), 200)
}
