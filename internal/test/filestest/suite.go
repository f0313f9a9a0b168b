// Package filestest is what every files.FS must do. It is for tests alone.
package filestest

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/runner"
	"github.com/corral-exec/corral/sandbox/files"
)

// A Place is an FS, and an executor whose commands see the same files.
type Place struct {
	FS   files.FS
	Exec corral.Executor
	// Root is an empty directory that both can write to.
	Root string
	// What is not expected: that FIFOs are seen (gVisor has them for itself),
	// that names need not be UTF-8 (an engine's API is JSON), that a tree is
	// removed whose paths are longer than the system's limit (busybox rm).
	NoFIFOs, UTF8Only, NotDeep bool
	// Attributes: files have extended attributes.
	Attributes bool
	// UID and GID are those that commands run as; -1: not compared.
	UID, GID int
}

// Run runs the suite, each case in a place of its own or in a directory of one.
func Run(t *testing.T, p Place) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			own := p
			own.Root = path.Join(p.Root, strings.ReplaceAll(c.name, " ", "-"))
			s := &suite{T: t, Place: own}
			s.sh("mkdir -p " + own.Root)
			c.do(s)
		})
	}
}

var cases = []struct {
	name string
	do   func(*suite)
}{
	{"write and read", writeAndRead},
	{"whole files", whole},
	{"ranges", ranges},
	{"replace", replace},
	{"attributes", attributes},
	{"limits of a write", writeLimits},
	{"missing", missing},
	{"stat", stat},
	{"list", list},
	{"names", names},
	{"directories", directories},
	{"remove", remove},
	{"links", links},
	{"special files", special},
	{"deep tree", deep},
	{"upload", upload},
	{"hostile archives", hostile},
	{"download", download},
	{"download limits", downloadLimits},
	{"large", large},
	{"cancelled", cancelled},
	{"bad paths", badPaths},
}

type suite struct {
	*testing.T
	Place
}

func (s *suite) path(name string) string { return path.Join(s.Root, name) }

// sh runs a script as a user in the sandbox would.
func (s *suite) sh(text string) string {
	s.Helper()
	r, err := runner.Run(s.Context(), s.Exec, corral.Command{Args: []string{"sh", "-c", text}, Dir: "/"}, runner.Options{})
	if err != nil || !r.Exit.Success() {
		s.Fatalf("%s: %v, %v: %s", text, err, r.Exit, r.Output)
	}
	return r.Stdout.String()
}

func (s *suite) in(text string) string { s.Helper(); return s.sh("cd " + s.Root + " && " + text) }

func (s *suite) write(name, content string, o files.WriteOptions) files.Info {
	s.Helper()
	i, err := s.FS.Write(s.Context(), s.path(name), strings.NewReader(content), o)
	if err != nil {
		s.Fatal(err)
	}
	return i
}

func (s *suite) read(name string, o files.ReadOptions) string {
	s.Helper()
	text, err := s.tryRead(name, o)
	if err != nil {
		s.Fatal(err)
	}
	return text
}

func (s *suite) tryRead(name string, o files.ReadOptions) (string, error) {
	var b bytes.Buffer
	err := s.FS.Read(s.Context(), s.path(name), o, func(i files.Info) (io.Writer, error) {
		if i.Type != files.TypeFile {
			s.Errorf("reading a %s", i.Type)
		}
		return &b, nil
	})
	return b.String(), err
}

// is checks an error's kind, and that its text names the file and is no more
// than a line.
func (s *suite) is(err, kind error, text string) {
	s.Helper()
	if !errors.Is(err, kind) || !strings.Contains(fmt.Sprint(err), text) || strings.Contains(fmt.Sprint(err), "\n") {
		s.Errorf("the error is %v, want %v with %q", err, kind, text)
	}
	said := strings.Split(strings.ToLower(fmt.Sprint(err)), ": ")
	for i, part := range said[1:] {
		if part == said[i] || part == syscall.EINVAL.Error() {
			s.Errorf("%q says nothing that %q does not", part, err)
		}
	}
}

func writeAndRead(s *suite) {
	i := s.write("a.txt", "hello\n", files.WriteOptions{})
	if i.Path != s.path("a.txt") || i.Type != files.TypeFile || i.Size != 6 || i.Mode != 0o644 {
		s.Errorf("%+v", i)
	}
	if s.UID >= 0 && (i.UID != s.UID || i.GID != s.GID) {
		s.Errorf("it belongs to %d:%d, want %d:%d", i.UID, i.GID, s.UID, s.GID)
	}
	if got := s.in("cat a.txt; echo more >> a.txt"); got != "hello\n" {
		s.Errorf("commands find %q", got)
	}
	if got := s.read("a.txt", files.ReadOptions{}); got != "hello\nmore\n" {
		s.Errorf("read %q", got)
	}
	s.write("empty", "", files.WriteOptions{Mode: 0o600})
	if got := s.read("empty", files.ReadOptions{}); got != "" {
		s.Errorf("read %q", got)
	}
	if got := s.in("stat -c %a empty; ls -A"); got != "600\na.txt\nempty\n" {
		s.Errorf("commands find %q", got)
	}
	binary := strings.Repeat("\x00\x01\xff\r\n\x1b", 20000)
	s.write("binary", binary, files.WriteOptions{})
	if got := s.read("binary", files.ReadOptions{}); got != binary {
		s.Errorf("%d bytes came back of %d", len(got), len(binary))
	}
}

func whole(s *suite) {
	write := func(name, content string) {
		s.Helper()
		if err := files.WriteFile(s.Context(), s.FS, s.path(name), []byte(content)); err != nil {
			s.Fatal(err)
		}
	}
	write("new/dir/f", "one\n")
	write("empty", "")
	if got := s.in("chmod 700 new/dir/f; cat new/dir/f"); got != "one\n" {
		s.Errorf("commands find %q", got)
	}
	write("new/dir/f", "two\n")
	for name, want := range map[string]string{"new/dir/f": "two\n", "empty": ""} {
		if got, err := files.ReadFile(s.Context(), s.FS, s.path(name)); err != nil || string(got) != want {
			s.Errorf("%s: read %q, %v", name, got, err)
		}
	}
	if got := s.in("stat -c %a new/dir/f"); got != "700\n" {
		s.Errorf("its mode is %q", got)
	}
	_, err := files.ReadFile(s.Context(), s.FS, s.path("gone"))
	s.is(err, corral.ErrNotFound, s.path("gone"))
	s.in(fmt.Sprintf("truncate -s %d large", files.MaxReadFile+1))
	_, err = files.ReadFile(s.Context(), s.FS, s.path("large"))
	s.is(err, corral.ErrInvalid, s.path("large"))
	s.in("rm large")
}

func ranges(s *suite) {
	s.write("a", "0123456789", files.WriteOptions{})
	for _, c := range []struct {
		off, limit int64
		want       string
	}{{0, 3, "012"}, {3, 4, "3456"}, {8, 10, "89"}, {10, 1, ""}, {100, 0, ""}, {9, 0, "9"}} {
		if got := s.read("a", files.ReadOptions{Offset: c.off, Limit: c.limit}); got != c.want {
			s.Errorf("from %d, %d bytes: %q, want %q", c.off, c.limit, got, c.want)
		}
	}
	_, err := s.tryRead("a", files.ReadOptions{Offset: -1})
	s.is(err, corral.ErrInvalid, "-1")
}

func replace(s *suite) {
	s.in(`echo old > f; chmod 750 f; ln f other; mkdir d; ln -s f link; ln -s nowhere dangling`)
	s.write("f", "new", files.WriteOptions{})
	if got := s.in(`stat -c %a f; cat f; cat other`); got != "750\nnewold\n" {
		s.Errorf("%q: the mode is to stay, and the old file", got)
	}
	s.write("link", "through", files.WriteOptions{Mode: 0o640})
	if got := s.in(`cat f; [ -h link ] && stat -c %a f`); got != "through640\n" {
		s.Errorf("%q", got)
	}
	s.write("f", "soon", files.WriteOptions{Volatile: true})
	if got := s.in(`stat -c %a f; cat f; cat other`); got != "640\nsoonold\n" {
		s.Errorf("%q: the mode is to stay, and the old file", got)
	}
	s.write("link", "through", files.WriteOptions{Volatile: true})
	s.write("dangling", "made", files.WriteOptions{Volatile: true})
	if got := s.in(`cat nowhere`); got != "made" {
		s.Errorf("%q", got)
	}
	_, err := s.FS.Write(s.Context(), s.path("f"), strings.NewReader("x"), files.WriteOptions{New: true})
	s.is(err, corral.ErrConflict, s.path("f"))
	s.is(err, fs.ErrExist, "")
	s.write("fresh", "x", files.WriteOptions{New: true})
	for _, volatile := range []bool{false, true} {
		_, err = s.FS.Write(s.Context(), s.path("d"), strings.NewReader("x"), files.WriteOptions{Volatile: volatile})
		s.is(err, corral.ErrInvalid, s.path("d"))
	}
	if got := s.in("ls -A d; cat f; ls -A"); got != "throughd\ndangling\nf\nfresh\nlink\nnowhere\nother\n" {
		s.Errorf("there is %q", got)
	}
}

func writeLimits(s *suite) {
	s.write("f", "old", files.WriteOptions{})
	_, err := s.FS.Write(s.Context(), s.path("f"), strings.NewReader("0123456789"), files.WriteOptions{Limit: 9})
	s.is(err, corral.ErrInvalid, "9 bytes")
	broken := errors.New("the sender broke off")
	_, err = s.FS.Write(s.Context(), s.path("f"), io.MultiReader(strings.NewReader("012"), failing{broken}), files.WriteOptions{})
	s.is(err, broken, "")
	s.write("f2", "0123456789", files.WriteOptions{Limit: 10})
	if got := s.settled("ls -A; cat f"); got != "f\nf2\nold" {
		s.Errorf("there is %q", got)
	}
}

// settled is what a script in the root says once nothing is left of a write:
// what is killed may take a moment to clean up.
func (s *suite) settled(text string) string {
	s.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		got := s.in(text)
		if !strings.Contains(got, ".corral-") || time.Now().After(deadline) {
			return got
		}
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func missing(s *suite) {
	_, err := s.tryRead("none", files.ReadOptions{})
	s.is(err, corral.ErrNotFound, s.path("none"))
	s.is(err, fs.ErrNotExist, "")
	_, err = s.FS.Stat(s.Context(), s.path("none/below"))
	s.is(err, corral.ErrNotFound, s.path("none/below"))
	_, err = s.FS.List(s.Context(), s.path("none"), files.ListOptions{})
	s.is(err, corral.ErrNotFound, "none")
	_, err = s.FS.Write(s.Context(), s.path("none/f"), strings.NewReader(""), files.WriteOptions{})
	s.is(err, corral.ErrNotFound, "none/f")
	s.is(s.FS.Remove(s.Context(), s.path("none"), true), corral.ErrNotFound, "none")
	s.is(s.FS.Mkdir(s.Context(), s.path("none/d"), files.MkdirOptions{}), corral.ErrNotFound, "none/d")
	_, err = s.FS.Upload(s.Context(), s.path("none"), bytes.NewReader(nil), files.Limits{})
	s.is(err, corral.ErrNotFound, "none")
	_, err = s.FS.Download(s.Context(), s.path("none"), io.Discard, files.Limits{})
	s.is(err, corral.ErrNotFound, "none")
	s.in("echo > file")
	_, err = s.FS.Stat(s.Context(), s.path("file/below"))
	s.is(err, corral.ErrNotFound, "file/below")
	if got := s.in("ls -A"); got != "file\n" {
		s.Errorf("there is %q", got)
	}
}

func stat(s *suite) {
	s.in(`echo 12345 > f; chmod 640 f; touch -t 202001020304.05 f; mkdir -m 711 d; ln -s 'a target
in two lines' l; mkfifo p; mkdir s; chmod 1777 s; mkdir g; chmod 2750 g; : > u; chmod 4640 u`)
	for _, c := range []struct {
		name, typ, mode string
	}{{"f", "file", "0640"}, {"d", "directory", "0711"}, {"l", "symlink", ""}, {"p", "fifo", ""}, {"s", "directory", "0777"}, {"g", "directory", "0750"}, {"u", "file", "0640"}} {
		if c.typ == "fifo" && s.NoFIFOs {
			continue
		}
		i, err := s.FS.Stat(s.Context(), s.path(c.name))
		if err != nil {
			s.Fatal(err)
		}
		if i.Path != s.path(c.name) || string(i.Type) != c.typ || c.mode != "" && i.Mode.String() != c.mode {
			s.Errorf("%s is %+v", c.name, i)
		}
		if c.name == "f" && (i.Size != 6 || i.ModTime.Year() != 2020 || i.ModTime.Second() != 5) {
			s.Errorf("%s is %+v", c.name, i)
		}
		if want := map[string]string{"s": "drwxrwxrwt", "g": "drwxr-s---", "u": "-rwSr-----", "f": "-rw-r-----", "l": "lrwxrwxrwx", "p": "p"}[c.name]; !strings.HasPrefix(i.Permissions(), want) {
			s.Errorf("%s is %s, not %s", c.name, i.Permissions(), want)
		}
		if c.name == "l" && i.Target != "a target\nin two lines" {
			s.Errorf("the link leads to %q", i.Target)
		}
	}
	if i, err := s.FS.Stat(s.Context(), s.Root); err != nil || i.Type != files.TypeDir || i.Path != s.Root {
		s.Errorf("%+v, %v", i, err)
	}
}

func list(s *suite) {
	s.in(`i=0; while [ $i -lt 25 ]; do : > "f$i"; i=$((i+1)); done; mkdir d; : > .hidden; ln -s f1 l`)
	var got []string
	after := ""
	for pages := 0; ; pages++ {
		page, err := s.FS.List(s.Context(), s.Root, files.ListOptions{After: after, Limit: 10})
		if err != nil || len(page.Entries) > 10 || pages > 3 {
			s.Fatalf("%d entries, %v", len(page.Entries), err)
		}
		for _, i := range page.Entries {
			got = append(got, path.Base(i.Path))
			if i.Type == files.TypeLink && i.Target != "f1" {
				s.Errorf("%+v", i)
			}
		}
		if after = page.Next; after == "" {
			break
		}
	}
	if len(got) != 28 || !slices.IsSorted(got) || got[0] != ".hidden" || got[1] != "d" {
		s.Errorf("listed %q", got)
	}
	if page, err := s.FS.List(s.Context(), s.path("d"), files.ListOptions{}); err != nil || len(page.Entries) != 0 || page.Entries == nil {
		s.Errorf("%+v, %v", page, err)
	}
	_, err := s.FS.List(s.Context(), s.path("f1"), files.ListOptions{})
	s.is(err, corral.ErrInvalid, "")
	_, err = s.FS.List(s.Context(), s.Root, files.ListOptions{After: "!"})
	s.is(err, corral.ErrInvalid, "page")
}

// hostileNames are of files that scripts get wrong.
var hostileNames = []string{"-rf", "--", "a b", "line\nbreak", "end\n", "*", "$(reboot)", "`reboot`", "'", `"`, `\`, "ü", "\xff\xfe", "\x01", "\x1b[31m", strings.Repeat("x", 255)}

func names(s *suite) {
	hostileNames := slices.DeleteFunc(slices.Clone(hostileNames), func(n string) bool { return s.UTF8Only && !utf8.ValidString(n) })
	for _, n := range hostileNames {
		s.write(n, n, files.WriteOptions{})
	}
	page, err := s.FS.List(s.Context(), s.Root, files.ListOptions{})
	if err != nil {
		s.Fatal(err)
	}
	want := slices.Sorted(slices.Values(hostileNames))
	var got []string
	for _, i := range page.Entries {
		got = append(got, strings.TrimPrefix(i.Path, s.Root+"/"))
		if i.Size != int64(len(got[len(got)-1])) {
			s.Errorf("%q has %d bytes", i.Path, i.Size)
		}
	}
	if !slices.Equal(got, want) {
		s.Errorf("listed %q\nwant %q", got, want)
	}
	var b bytes.Buffer
	if _, err := s.FS.Download(s.Context(), s.Root, &b, files.Limits{}); err != nil {
		s.Fatal(err)
	}
	in := unpack(s.T, &b)
	for _, n := range hostileNames {
		if text := s.read(n, files.ReadOptions{}); text != n {
			s.Errorf("%q holds %q", n, text)
		}
		if e := in["names/"+n]; e.content != n {
			s.Errorf("the archive has %+v for %q", e, n)
		}
		if err := s.FS.Remove(s.Context(), s.path(n), false); err != nil {
			s.Error(err)
		}
	}
	if got := s.in("ls -A"); got != "" {
		s.Errorf("there is %q", got)
	}
}

func directories(s *suite) {
	if err := s.FS.Mkdir(s.Context(), s.path("d"), files.MkdirOptions{Mode: 0o700}); err != nil {
		s.Fatal(err)
	}
	s.is(s.FS.Mkdir(s.Context(), s.path("d"), files.MkdirOptions{}), corral.ErrConflict, s.path("d"))
	for range 2 {
		if err := s.FS.Mkdir(s.Context(), s.path("d/e/f"), files.MkdirOptions{Parents: true}); err != nil {
			s.Fatal(err)
		}
	}
	s.write("g/h/file", "x", files.WriteOptions{Parents: true})
	s.write("g/h/file", "y", files.WriteOptions{Parents: true})
	s.is(s.FS.Mkdir(s.Context(), s.path("g/h/file"), files.MkdirOptions{Parents: true}), corral.ErrInvalid, "file")
	if got := s.in(`stat -c %a d d/e/f g/h; cat g/h/file; find . ! -user "$(id -u)"`); got != "700\n755\n755\ny" {
		s.Errorf("%q", got)
	}
}

func remove(s *suite) {
	s.in(`mkdir -p d/e keep; echo > d/e/f; echo > keep/f; ln -s keep l; ln -s keep d/l; mkdir locked; echo > locked/f; mkdir locked/in; chmod 0 locked/in; chmod 0 locked; echo > f`)
	if !s.NoFIFOs {
		s.in("mkfifo p d/p")
	} else {
		s.in(": > p")
	}
	s.is(s.FS.Remove(s.Context(), s.path("d"), false), corral.ErrConflict, s.path("d"))
	for _, n := range []string{"d", "l", "f", "p", "locked"} {
		if err := s.FS.Remove(s.Context(), s.path(n), n == "d" || n == "locked"); err != nil {
			s.Error(err)
		}
	}
	if got := s.in("find . | sort"); got != ".\n./keep\n./keep/f\n" {
		s.Errorf("left is %q", got)
	}
	s.is(s.FS.Remove(s.Context(), ".", true), corral.ErrInvalid, "")
}

func links(s *suite) {
	s.in(`mkdir -p a/b c; echo in > a/b/f; ln -s ../a/b c/up; ln -s ` + s.Root + `/a abs; ln -s loop2 loop1; ln -s loop1 loop2; ln -s abs/b/f deep`)
	for _, n := range []string{"c/up/f", "abs/b/f", "deep", "c/up/../b/f"} {
		if n == "c/up/../b/f" {
			n = "a/b/../b/f" // a path's own .. is taken out before
		}
		if got := s.read(n, files.ReadOptions{}); got != "in\n" {
			s.Errorf("%s holds %q", n, got)
		}
	}
	s.write("abs/b/new", "n", files.WriteOptions{})
	if page, err := s.FS.List(s.Context(), s.path("c/up"), files.ListOptions{}); err != nil || len(page.Entries) != 2 || page.Entries[0].Path != s.path("c/up/f") {
		s.Errorf("%+v, %v", page, err)
	}
	if _, err := s.tryRead("loop1", files.ReadOptions{}); err == nil {
		s.Error("a loop was read")
	}
	if err := s.FS.Remove(s.Context(), s.path("abs"), true); err != nil {
		s.Error(err)
	}
	if got := s.in("cat a/b/new; ls"); got != "na\nc\ndeep\nloop1\nloop2\n" {
		s.Errorf("%q", got)
	}
}

func special(s *suite) {
	if s.NoFIFOs {
		return
	}
	s.in(`mkfifo p; ln -s p l; mkdir d; mkfifo d/p; echo x > d/f`)
	for _, n := range []string{"p", "l", "d"} {
		_, err := s.tryRead(n, files.ReadOptions{})
		s.is(err, corral.ErrInvalid, s.path(n))
		_, err = s.FS.Write(s.Context(), s.path(n), strings.NewReader("x"), files.WriteOptions{})
		s.is(err, corral.ErrInvalid, s.path(n))
	}
	var b bytes.Buffer
	got, err := s.FS.Download(s.Context(), s.path("d"), &b, files.Limits{})
	if err != nil || got.Skipped != 1 || got.Entries != 2 {
		s.Errorf("%+v, %v", got, err)
	}
	if in := unpack(s.T, &b); in["d/f"].content != "x\n" || len(in) != 2 {
		s.Errorf("the archive has %+v", in)
	}
}

func deep(s *suite) {
	if s.NotDeep {
		return
	}
	// Deeper than a path can be long, and than a process may have files open.
	s.in(`p=d; i=1; while [ $i -lt 300 ]; do p=$p/dddddd; i=$((i+1)); done
mkdir -p a/$p b/$p c/$p && echo x > c/$p/f && mv c b/$p/ && mv b a/$p/`)
	_, err := s.FS.Download(s.Context(), s.Root, io.Discard, files.Limits{})
	s.is(err, corral.ErrInvalid, "deep")
	if err := s.FS.Remove(s.Context(), s.path("a"), true); err != nil {
		s.Fatal(err)
	}
	if got := s.in("ls -A"); got != "" {
		s.Errorf("left is %q", got)
	}
}

func large(s *suite) {
	const size = 48 << 20 // more than a log of output holds
	if n := s.in("head -c 50331648 /dev/urandom > big; mkdir d; cp big d/big; sha256sum < big"); len(n) < 64 {
		s.Fatal(n)
	}
	sum := s.in("sha256sum < big")[:64]
	h := newSum()
	if err := s.FS.Read(s.Context(), s.path("big"), files.ReadOptions{}, func(files.Info) (io.Writer, error) { return h, nil }); err != nil {
		s.Fatal(err)
	}
	if h.n != size || h.String() != sum {
		s.Errorf("%d bytes came, another sum", h.n)
	}
	pr, pw := io.Pipe()
	copied := make(chan error, 1)
	go func() {
		_, err := s.FS.Download(s.Context(), s.path("d"), pw, files.Limits{})
		pw.CloseWithError(err)
		copied <- err
	}()
	s.in("mkdir to")
	if got, err := s.FS.Upload(s.Context(), s.path("to"), pr, files.Limits{}); err != nil || got.Bytes != size {
		s.Errorf("%+v, %v", got, err)
	}
	pr.Close()
	if err := <-copied; err != nil {
		s.Error(err)
	}
	if got := s.in("sha256sum < to/d/big; rm -rf big d to"); got[:64] != sum {
		s.Error("another sum after download and upload")
	}
}

func cancelled(s *suite) {
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	_, err := s.FS.Stat(ctx, s.Root)
	s.is(err, context.Canceled, "")
	ctx, cancel = context.WithCancel(s.Context())
	_, err = s.FS.Write(ctx, s.path("f"), cancelling{cancel}, files.WriteOptions{})
	s.is(err, context.Canceled, "")
	if got := s.settled("ls -A"); got != "" {
		s.Errorf("left is %q", got)
	}
}

type cancelling struct{ cancel func() }

func (c cancelling) Read(p []byte) (int, error) {
	c.cancel()
	return copy(p, "x"), nil
}

func badPaths(s *suite) {
	for _, n := range []string{"", "a\x00b", strings.Repeat("a/", 2100), strings.Repeat("x", 256)} {
		_, err := s.FS.Stat(s.Context(), n)
		s.is(err, corral.ErrInvalid, "")
	}
}

// An unpacked is an entry of an archive.
type unpacked struct {
	header  *tar.Header
	content string
}

func unpack(t *testing.T, r io.Reader) map[string]unpacked {
	t.Helper()
	in := map[string]unpacked{}
	tr := tar.NewReader(r)
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return in
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		in[h.Name] = unpacked{h, string(content)}
	}
}
