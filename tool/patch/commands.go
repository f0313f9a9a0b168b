package patch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/script"
)

// Commands is the Target for a workspace that is not a directory of this machine, such
// as the private workspace of a sandbox whose engine is elsewhere. Every step is a small
// command there, for any POSIX shell with the usual programs (busybox has them). The
// algorithm and the journal are those of a Directory.
//
// The alternative would be a patch program in the container (the warden). But Commands
// works with every Executor: with every driver, every image that has a shell, and on
// nodes. It costs some 15 commands a file.
//
// It differs from a Directory in three points. Commands run as the user of the sandbox and
// can do no more than that user: if directories are exchanged for symbolic links during a
// patch, the executor confines it. Nothing is forced to the disk: a power cut of that
// machine can leave half a patch, a kill of any program cannot. A lock in this value keeps
// patches apart, so a program should have only one Commands for a workspace.
type Commands struct {
	ex   corral.Executor
	root string
	busy chan struct{}
}

// NewCommands returns the workspace root (an absolute path there) of an executor.
func NewCommands(ex corral.Executor, root string) *Commands {
	return &Commands{ex: ex, root: path.Clean(root), busy: make(chan struct{}, 1)}
}

// stepLimit bounds one command.
const stepLimit = 30 * time.Second

func (c *Commands) open(ctx context.Context) (workspace, error) {
	if !path.IsAbs(c.root) {
		return nil, corral.Errorf(corral.ErrInvalid, "name it by its absolute path", "the workspace %s is not an absolute path", c.root)
	}
	select {
	case c.busy <- struct{}{}:
	case <-ctx.Done():
		return nil, corral.Errorf(corral.ErrUnavailable, "try again", "another patch is being applied to the workspace %s: %w", c.root, ctx.Err())
	}
	w := &commands{Commands: c}
	out, err := w.run(ctx, `id -u`, nil)
	if err == nil {
		w.uid, err = strconv.Atoi(strings.TrimSpace(string(out)))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot use the workspace %s: %w", c.root, err), w.close())
	}
	return w, nil
}

type commands struct {
	*Commands
	uid int
}

func (w *commands) close() error {
	<-w.busy
	return nil
}

func (w *commands) roots() []string { return []string{w.root} }

// Exit codes of the scripts.
const (
	exitAbsent = script.ExitAbsent
	exitExists = script.ExitExists
	exitNoFile = script.ExitKind
)

// run runs a script in the root. Names among its arguments are relative to it.
func (w *commands) run(ctx context.Context, text string, input []byte, args ...string) ([]byte, error) {
	r := script.Runner{Exec: w.ex, Dir: w.root, Limit: stepLimit}
	var in io.Reader
	if input != nil {
		in = bytes.NewReader(input)
	}
	return r.Output(ctx, text, in, maxRecord+4096, args...)
}

// arg is a name as an argument that is never an option.
func arg(name string) string { return "./" + name }

// describe prints a line for $f: inode, mode, links, uid, gid, size, and more.
const describe = `describe() {
	if [ -e "$f" ] || [ -h "$f" ]; then ls -ldin "$f" | head -n 1; else echo absent; fi
}
`

func (w *commands) stat(ctx context.Context, names ...string) ([]stat, error) {
	args := make([]string, len(names))
	for i, name := range names {
		args[i] = arg(name)
	}
	out, err := w.run(ctx, describe+`for f do describe || exit; done`, nil, args...)
	if err != nil {
		return nil, err
	}
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(lines) != len(names) {
		return nil, fmt.Errorf("%d files were asked for, and %d described", len(names), len(lines))
	}
	stats := make([]stat, len(names))
	for i, line := range lines {
		if stats[i], err = w.parse(line); err != nil {
			return nil, err
		}
	}
	return stats, nil
}

// parse reads a line of ls -ldin.
func (w *commands) parse(line string) (stat, error) {
	if line == "absent" {
		return stat{}, nil
	}
	f := strings.Fields(line)
	if len(f) < 6 || len(f[1]) < 10 {
		return stat{}, fmt.Errorf("ls wrote %q", cut(line))
	}
	s := stat{kind: kindOther, heirs: anyOwner, id: f[0]}
	switch f[1][0] {
	case '-':
		s.kind = kindFile
	case 'd':
		s.kind = kindDir
	case 'l':
		s.kind = kindLink
	}
	for i, c := range f[1][1:10] {
		if c != '-' && c != 'S' && c != 'T' {
			s.perm |= 1 << (8 - i)
		}
	}
	var numbers [4]int64
	for i := range numbers {
		n, err := strconv.ParseInt(strings.TrimSuffix(f[2+i], ","), 10, 64)
		if err != nil {
			return stat{}, fmt.Errorf("ls wrote %q", cut(line))
		}
		numbers[i] = n
	}
	s.links, s.owner, s.size = uint64(numbers[0]), owner{int(numbers[1]), int(numbers[2])}, numbers[3] //nolint:gosec // counts
	s.ours = w.uid == 0 || w.uid == s.owner.uid
	s.made = w.uid == s.owner.uid && s.perm&0o077 == 0
	return s, nil
}

func (w *commands) read(ctx context.Context, name string, limit int64) ([]byte, stat, error) {
	out, err := w.run(ctx, describe+fmt.Sprintf(`f=$1
if [ ! -e "$f" ] && [ ! -h "$f" ]; then exit %d; fi
if [ -h "$f" ] || [ ! -f "$f" ]; then exit %d; fi
describe && cat "$f"`, exitAbsent, exitNoFile), nil, arg(name))
	if err != nil {
		return nil, stat{}, err
	}
	line, content, found := bytes.Cut(out, []byte("\n"))
	if !found {
		return nil, stat{}, errors.New("the file was not described")
	}
	s, err := w.parse(string(line))
	if err == nil && int64(len(content)) > limit {
		err = tooLarge(name, limit)
	}
	return content, s, err
}

func (w *commands) journals(ctx context.Context) ([]string, error) {
	out, err := w.run(ctx, `for f in `+journalPrefix+`*; do if [ -d "$f" ]; then printf '%s\n' "$f"; fi; done`, nil)
	// A name with a line end in it is two.
	return slices.DeleteFunc(listed(out), func(name string) bool { return !strings.HasPrefix(name, journalPrefix) }), err
}

func (w *commands) members(ctx context.Context, journal string) ([]string, error) {
	out, err := w.run(ctx, fmt.Sprintf(`[ -d "$1" ] || exit %d; ls -A "$1"`, exitAbsent), nil, arg(journal))
	return listed(out), err
}

func listed(out []byte) []string {
	return strings.FieldsFunc(string(out), func(r rune) bool { return r == '\n' })
}

// A file that is created privately gets its permissions at the end.
const private = `if [ -n "$2" ]; then umask 077; fi
`

func mode(perm fs.FileMode) string {
	if perm == byUmask {
		return ""
	}
	return fmt.Sprintf("%04o", perm)
}

func (w *commands) mkdir(ctx context.Context, name string, perm fs.FileMode, _ owner) error {
	_, err := w.run(ctx, private+`mkdir "$1" && if [ -n "$2" ]; then chmod "$2" "$1"; fi`, nil, arg(name), mode(perm))
	return err
}

func (w *commands) create(ctx context.Context, name string, content []byte, perm fs.FileMode, o owner) error {
	group := ""
	if o.gid >= 0 {
		group = strconv.Itoa(o.gid)
	}
	if content == nil {
		content = []byte{}
	}
	_, err := w.run(ctx, private+`set -C
cat > "$1" || exit
if [ -n "$3" ] && [ "$(id -g)" != "$3" ]; then chgrp "$3" "$1" || exit; fi
if [ -n "$2" ]; then chmod "$2" "$1"; fi`, content, arg(name), mode(perm), group)
	return err
}

// existing ends the script if $1 does not exist.
var existing = fmt.Sprintf(`if [ ! -e "$1" ] && [ ! -h "$1" ]; then exit %d; fi
`, exitAbsent)

func (w *commands) link(ctx context.Context, from, to string) error {
	_, err := w.run(ctx, existing+fmt.Sprintf(`if [ -e "$2" ] || [ -h "$2" ]; then exit %d; fi
ln "$1" "$2"`, exitExists), nil, arg(from), arg(to))
	return err
}

func (w *commands) rename(ctx context.Context, from, to string) error {
	// If $2 were a directory, mv would move $1 into it. A directory replaces nothing.
	_, err := w.run(ctx, existing+fmt.Sprintf(`if [ -d "$1" ] && { [ -e "$2" ] || [ -h "$2" ]; }; then exit %[1]d; fi
if [ -h "$2" ]; then rm -f "$2" || exit; fi
if [ -d "$2" ]; then exit %[1]d; fi
mv -f "$1" "$2"`, exitExists), nil, arg(from), arg(to))
	return err
}

func (w *commands) remove(ctx context.Context, name string) error {
	_, err := w.run(ctx, existing+`if [ -d "$1" ] && [ ! -h "$1" ]; then rmdir "$1"; else rm -f "$1"; fi`, nil, arg(name))
	return err
}

func (w *commands) sync(context.Context, string) error { return nil }
