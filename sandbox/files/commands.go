package files

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/script"
)

// Commands is the FS of what commands in a sandbox can name, by scripts for any
// POSIX shell that run there, with stat, find, head, tail, dd and tar (those of
// busybox are enough).
type Commands struct {
	Exec corral.Executor
	Root string // what relative paths are relative to; absolute and clean
}

const (
	stepLimit   = time.Minute   // of a script that does one thing
	streamLimit = 2 * time.Hour // of one that copies
	maxAnswer   = 4 << 20       // bytes
	maxArgs     = 64 << 10      // bytes of names that one script is given
)

func (c Commands) step() script.Runner {
	return script.Runner{Exec: c.Exec, Dir: "/", Limit: stepLimit}
}

func (c Commands) stream() script.Runner {
	return script.Runner{Exec: c.Exec, Dir: "/", Limit: streamLimit}
}

// statFormat is a line of stat: mode, size, uid, gid, and when it was changed.
const statFormat = `stat -c '%f %s %u %g %Y' `

// absent ends a script if there is no $1.
var absent = fmt.Sprintf(`if [ ! -e "$1" ] && [ ! -h "$1" ]; then
	if [ -d "${1%%/*}/" ] && [ ! -x "${1%%/*}/" ]; then echo 'Permission denied' >&2; exit 1; fi
	exit %d
fi
`, script.ExitAbsent)

// Stat implements FS.
func (c Commands) Stat(ctx context.Context, name string) (Info, error) {
	name, err := Clean(c.Root, name)
	if err != nil {
		return Info{}, err
	}
	i, err := c.stat(ctx, name)
	return i, fail("look at", name, err)
}

func (c Commands) stat(ctx context.Context, name string) (Info, error) {
	out, err := c.step().Output(ctx, absent+statFormat+`"$1" || exit
if [ -h "$1" ]; then readlink "$1"; fi`, nil, 2*maxPath, name)
	if err != nil {
		return Info{}, err
	}
	line, target, _ := strings.Cut(string(out), "\n")
	i, err := parseStat(name, line)
	if i.Type == TypeLink {
		i.Target = strings.TrimSuffix(target, "\n")
	}
	return i, err
}

// parseStat reads a line of statFormat, which a program in the sandbox can have
// forged.
func parseStat(name, line string) (Info, error) {
	bad := func() (Info, error) { return Info{}, fmt.Errorf("stat wrote %.80q", line) }
	f := strings.Fields(line)
	if len(f) != 5 {
		return bad()
	}
	mode, err := strconv.ParseUint(f[0], 16, 32)
	if err != nil {
		return bad()
	}
	var n [4]int64
	for i := range n {
		if n[i], err = strconv.ParseInt(f[1+i], 10, 64); err != nil || n[i] < 0 && i < 3 || i > 0 && i < 3 && n[i] > 1<<32 {
			return bad()
		}
	}
	i := newInfo(name)
	i.Mode, i.Size, i.UID, i.GID, i.ModTime = Mode(mode)&permBits, n[0], int(n[1]), int(n[2]), time.Unix(n[3], 0).UTC()
	i.setSpecial(uint32(mode))
	if y := i.ModTime.Year(); y < 0 || y > 9999 { // JSON has no others
		i.ModTime = time.Time{}
	}
	i.Type = map[uint64]Type{
		0o100000: TypeFile, 0o040000: TypeDir, 0o120000: TypeLink, 0o010000: TypeFIFO,
		0o140000: TypeSocket, 0o020000: TypeDevice, 0o060000: TypeDevice,
	}[mode&0o170000]
	i.Type = cmp.Or(i.Type, typeUnknown)
	return i, nil
}

// wantDir ends a script if $1 is no directory.
var wantDir = absent + fmt.Sprintf(`if [ ! -d "$1" ]; then exit %d; fi
`, script.ExitKind)

// List implements FS.
func (c Commands) List(ctx context.Context, name string, o ListOptions) (Page, error) {
	name, err := Clean(c.Root, name)
	if err != nil {
		return Page{}, err
	}
	pager, err := newPager(o)
	if err != nil {
		return Page{}, err
	}
	names := &splitter{each: func(name string) {
		if name = path.Base(name); name != "." && name != "/" {
			pager.add(name)
		}
	}}
	err = c.stream().Stream(ctx, wantDir+`[ -r "$1" ] && [ -x "$1" ] || { echo 'Permission denied' >&2; exit 1; }
cd "$1" && find . ! -name . -prune -print0`, names, name)
	if err != nil {
		return Page{}, fail("list", name, notKind(err, TypeDir))
	}
	found, next := pager.page()
	page := Page{Entries: make([]Info, 0, len(found)), Next: next}
	for len(found) > 0 {
		n, size := 0, 0
		for n < len(found) && size < maxArgs {
			size += len(found[n]) + len(name) + 32
			n++
		}
		infos, err := c.stats(ctx, name, found[:n])
		if err != nil {
			return Page{}, fail("list", name, err)
		}
		page.Entries = append(page.Entries, infos...)
		found = found[n:]
	}
	return page, nil
}

// stats describes files in a directory. What is gone by then is left out.
func (c Commands) stats(ctx context.Context, dir string, names []string) ([]Info, error) {
	args := []string{dir}
	for _, n := range names {
		args = append(args, "./"+n)
	}
	// One stat for all, unless one of them is gone: then one for each.
	out, err := c.step().Output(ctx, `cd "$1" || exit
shift
all=$(`+statFormat+`"$@" 2>/dev/null) && printf '%s\n' "$all" ||
for f do `+statFormat+`"$f" 2>/dev/null || echo gone; done
for f do if [ -h "$f" ]; then readlink -n "$f"; fi; printf '\0'; done`, nil, maxAnswer, args...)
	if err != nil {
		return nil, err
	}
	infos := make([]Info, 0, len(names))
	text := string(out)
	targets := strings.Split(text, "\x00")
	lines := strings.SplitN(text, "\n", len(names)+1)
	if len(lines) != len(names)+1 || len(targets) != len(names)+1 {
		return nil, fmt.Errorf("%d files were asked for, and %d described", len(names), len(lines)-1)
	}
	targets[0] = strings.SplitN(lines[len(names)], "\x00", 2)[0]
	for i, n := range names {
		if lines[i] == "gone" {
			continue
		}
		info, err := parseStat(path.Join(dir, n), lines[i])
		if err != nil {
			return nil, err
		}
		if info.Type == TypeLink {
			info.Target = targets[i]
		}
		infos = append(infos, info)
	}
	return infos, nil
}

// A splitter takes names that end with NUL.
type splitter struct {
	each func(string)
	rest []byte
}

func (s *splitter) Write(p []byte) (int, error) {
	n := len(p)
	for {
		name, rest, found := bytes.Cut(p, []byte{0})
		if len(s.rest)+len(name) > maxPath {
			return 0, fmt.Errorf("a name of more than %d bytes", maxPath)
		}
		if !found {
			s.rest = append(s.rest, name...)
			return n, nil
		}
		s.each(string(s.rest) + string(name))
		s.rest, p = s.rest[:0], rest
	}
}

// notKind says what the exit code for the wrong kind means.
func notKind(err error, want Type) error {
	if errors.Is(err, fs.ErrInvalid) {
		return &kindError{want: want}
	}
	return err
}

var wantFile = absent + fmt.Sprintf(`if [ ! -f "$1" ]; then exit %d; fi
if [ ! -r "$1" ]; then echo 'Permission denied' >&2; exit 1; fi
`, script.ExitKind)

// described is what a file is, or what a link leads to.
func (c Commands) described(ctx context.Context, name string) (Info, error) {
	out, err := c.step().Output(ctx, wantFile+`stat -L -c '%f %s %u %g %Y' "$1"`, nil, maxPath, name)
	if err != nil {
		return Info{}, notKind(err, TypeFile)
	}
	return parseStat(name, strings.TrimSuffix(string(out), "\n"))
}

// Read implements FS.
func (c Commands) Read(ctx context.Context, name string, o ReadOptions, to func(Info) (io.Writer, error)) error {
	name, err := Clean(c.Root, name)
	if err != nil {
		return err
	}
	if err := o.check(); err != nil {
		return err
	}
	info, err := c.described(ctx, name)
	if err != nil {
		return fail("read", name, err)
	}
	w, err := to(info)
	if err != nil {
		return fail("read", name, err)
	}
	n, w := o.part(info.Size, w)
	if n == 0 {
		return fail("read", name, c.step().Feed(ctx, wantFile+`: < "$1"`, nil, name))
	}
	// Without dd where it can be: what it could not read would seem to be the end.
	err = c.stream().Stream(ctx, wantFile+`if [ "$2$3" = 01 ]; then exec head -c "$4" "$1"; fi
dd if="$1" bs=4096 skip="$2" 2>/dev/null | tail -c "+$3" | head -c "$4"`, w,
		name, number(o.Offset/block), number(o.Offset%block+1), number(n))
	return fail("read", name, notKind(err, TypeFile))
}

// block is what dd seeks by.
const block = 4096

func number(n int64) string { return strconv.FormatInt(n, 10) }

// final follows links from $1, to $t: mv replaces a link itself. What is named by
// $tmp is beside it, and called $2.
const final = `t=$1 n=0
while [ -h "$t" ]; do
	l=$(readlink "$t"; echo .) l=${l%??}
	case $l in
	/*) t=$l ;;
	*) t=$(dirname "$t"; echo .) t=${t%??}/$l ;;
	esac
	n=$((n + 1))
	if [ "$n" -gt 40 ]; then echo 'Too many levels of symbolic links' >&2; exit 1; fi
done
tmp=$(dirname "$t"; echo .) tmp=${tmp%??}/$2
`

// Writing is two scripts: the first of them cannot know whether its input was
// all of it. A $3 says that the file must be new, and $4 what mode it gets.
var (
	writing = final + fmt.Sprintf(`if [ -e "$t" ]; then
	if [ ! -f "$t" ]; then exit %d; fi
	if [ -n "$3" ]; then exit %d; fi
fi
umask 077
set -C
cat > "$tmp"`, script.ExitKind, script.ExitExists)

	placing = final + fmt.Sprintf(`mode=$4
[ -n "$mode" ] || mode=$(stat -c %%a "$t" 2>/dev/null) || mode=0644
chmod "$mode" "$tmp" || exit
if [ -n "$3" ]; then
	ln "$tmp" "$t" || exit %d
	exec rm -f "$tmp"
fi
if [ -d "$t" ]; then exit %d; fi
exec mv -f "$tmp" "$t"`, script.ExitExists, script.ExitKind)

	withdrawing = final + `exec rm -f "$tmp"`
)

// Write implements FS.
func (c Commands) Write(ctx context.Context, name string, r io.Reader, o WriteOptions) (Info, error) {
	name, err := Clean(c.Root, name)
	if err != nil {
		return Info{}, err
	}
	if len(o.Attributes) > 0 {
		return Info{}, corral.Errorf(errors.ErrUnsupported, "leave them out, or write a file of a workspace that the gateway sees", "%s cannot have attributes: it is written by commands in the sandbox", show(name))
	}
	mode, fresh := "", ""
	if o.Mode != 0 {
		mode = o.Mode.String()
	}
	if o.New {
		fresh = "1"
	}
	if err := c.parents(ctx, name, o.Parents); err != nil {
		return Info{}, fail("write", name, err)
	}
	args := []string{name, ".corral-write-" + corral.NewID(), fresh, mode}
	if err = c.stream().Feed(ctx, writing, reader{ctx, o.bounded(r)}, args...); err == nil {
		err = c.step().Feed(ctx, placing, nil, args...)
	}
	if err != nil {
		// Why this fails as well is less than why it has to be done.
		_ = c.step().Feed(context.WithoutCancel(ctx), withdrawing, nil, args...)
		return Info{}, fail("write", name, notKind(err, TypeFile))
	}
	i, err := c.described(ctx, name)
	return i, fail("look at", name, err)
}

func (c Commands) parents(ctx context.Context, name string, wanted bool) error {
	parent := path.Dir(name)
	if !wanted {
		return c.step().Feed(ctx, wantDir, nil, parent)
	}
	return c.step().Feed(ctx, `umask 022; mkdir -p "$1"`, nil, parent)
}

// Mkdir implements FS.
func (c Commands) Mkdir(ctx context.Context, name string, o MkdirOptions) error {
	name, err := Clean(c.Root, name)
	if err != nil {
		return err
	}
	mode := cmp.Or(o.Mode, 0o755)
	exists := fmt.Sprintf("exit %d", script.ExitExists)
	if o.Parents {
		exists = fmt.Sprintf(`[ -d "$1" ] || exit %d; exit 0`, script.ExitKind)
	}
	err = c.parents(ctx, name, o.Parents)
	if err == nil {
		err = c.step().Feed(ctx, `if [ -e "$1" ] || [ -h "$1" ]; then `+exists+`; fi
umask 077; mkdir "$1" && chmod "$2" "$1"`, nil, name, mode.String())
	}
	return fail("make the directory", name, notKind(err, TypeDir))
}

// Remove implements FS.
func (c Commands) Remove(ctx context.Context, name string, all bool) error {
	name, err := Clean(c.Root, name)
	if err != nil {
		return err
	}
	if name == c.Root || name == "/" {
		return corral.Errorf(corral.ErrInvalid, "remove what is in it, or the sandbox", "the workspace itself cannot be removed")
	}
	recursive := ""
	if all {
		recursive = "1"
	}
	err = c.step().Feed(ctx, absent+`if [ ! -d "$1" ] || [ -h "$1" ]; then exec rm -f "$1"; fi
if [ -z "$2" ]; then exec rmdir "$1"; fi
rm -rf "$1" 2>/dev/null && exit
chmod -R u+rwX "$1" 2>/dev/null
rm -rf "$1"`, nil, name, recursive)
	return fail("remove", name, err)
}

// Upload implements FS. The archive is written anew, entry by entry, and what
// tar in the sandbox gets holds nothing that was not checked.
func (c Commands) Upload(ctx context.Context, name string, r io.Reader, l Limits) (Totals, error) {
	name, err := Clean(c.Root, name)
	if err != nil {
		return Totals{}, err
	}
	if err := c.step().Feed(ctx, wantDir+`[ -w "$1" ] || { echo 'Permission denied' >&2; exit 1; }`, nil, name); err != nil {
		return Totals{}, fail("unpack an archive in", name, notKind(err, TypeDir))
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	pr, pw := io.Pipe()
	a, done := newArchive(reader{ctx, r}, l), make(chan error, 1)
	w := newWriter(pw, a.limits)
	w.fillable = true
	go func() {
		_, err := normalise(w, a)
		if err == nil {
			err = w.finish()
		}
		if err == nil {
			err = drain(r)
		}
		pw.CloseWithError(err)
		done <- err
	}()
	err = c.stream().Feed(ctx, `umask 0; cd "$1" && exec tar -xof -`, pr, name)
	// The goroutine that reads r must have ended when this returns.
	pr.CloseWithError(errors.Join(err, io.ErrClosedPipe))
	if aerr := <-done; err == nil || aerr != nil && errors.Is(err, aerr) {
		err = aerr
	}
	if err == nil {
		err = c.modes(ctx, name, w.later)
	}
	return a.got, fail("unpack an archive in", name, err)
}

// modes gives directories theirs, the last first.
func (c Commands) modes(ctx context.Context, dir string, of []entry) error {
	for len(of) > 0 {
		args := []string{dir}
		for size := 0; len(of) > 0 && size < maxArgs; {
			e := of[len(of)-1]
			of = of[:len(of)-1]
			args = append(args, e.mode.String(), "./"+e.name)
			size += len(e.name)
		}
		if err := c.step().Feed(ctx, `cd "$1" || exit
shift
while [ $# -gt 0 ]; do chmod "$1" "$2" || exit; shift 2; done`, nil, args...); err != nil {
			return err
		}
	}
	return nil
}

// Download implements FS.
func (c Commands) Download(ctx context.Context, name string, w io.Writer, l Limits) (Totals, error) {
	name, err := Clean(c.Root, name)
	if err != nil {
		return Totals{}, err
	}
	out := newWriter(w, l)
	dir, base := path.Split(name)
	if name == "/" || name == c.Root {
		dir, base = name, "."
	}
	// One file alone, since it takes commands of its own.
	out.empty = func(e string) ([]byte, error) {
		if e != base {
			return nil, nil
		}
		return ReadFile(ctx, c, name)
	}
	pr, pw := io.Pipe()
	type result struct {
		got Totals
		err error
	}
	done := make(chan result, 1)
	go func() {
		got, err := recreate(out, pr, l)
		pr.CloseWithError(err)
		done <- result{got, err}
	}()
	err = c.stream().Stream(ctx, absent+`cd "$2" && exec tar -cf - "./$3"`, pw, name, dir, base)
	pw.CloseWithError(errors.Join(err, io.EOF))
	res := <-done
	if err == nil || res.err != nil && errors.Is(err, res.err) { // else it is what came of that
		err = res.err
	}
	return res.got, fail("copy", name, err)
}
