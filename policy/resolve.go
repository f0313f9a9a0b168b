package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/corral-exec/corral/internal/programs"
)

// A finder finds the file of each program. It looks only once for each name.
type finder struct {
	req   Request
	view  View
	known map[sought]located
	dirs  map[string]string // directories without symbolic links
}

// located is the file of a program.
type located struct {
	path, real string // real is without symbolic links
	why        string // why there is none
	plain      bool   // path itself is no symbolic link
}

// special are the characters behind a tilde that do not stand for themselves.
const special = "$`*?[{\\'\"~"

// program finds the file for a word in command position. With moved, the working
// directory is not known, so relative paths are not found.
func (f *finder) program(w Word, moved bool) (Word, located) {
	if !w.Static {
		home, ok := strings.CutPrefix(w.Text, "~/")
		if !ok || f.req.Home == "" || strings.ContainsAny(home, special) {
			return w, located{why: "which program it is can only be told by running it"}
		}
		at := w.At
		w = programs.Literal(strings.TrimSuffix(f.req.Home, "/") + "/" + home)
		w.At = at
	}
	if moved && !filepath.IsAbs(w.Text) && (strings.Contains(w.Text, "/") || f.relativePath()) {
		return w, located{why: "it is relative to a directory that the command changes to"}
	}
	return w, f.look(f.req.Dir, w.Text)
}

func (f *finder) relativePath() bool {
	for dir := range strings.SplitSeq(f.req.Path, ":") {
		if !strings.HasPrefix(dir, "/") {
			return true
		}
	}
	return false
}

// A sought is a program's name in a working directory.
type sought struct{ dir, name string }

// look finds a program as a shell in dir does.
func (f *finder) look(dir, name string) located {
	s := sought{dir, name}
	got, ok := f.known[s]
	if !ok {
		got = f.resolve(f.search(s))
		f.known[s] = got
	}
	return got
}

// search finds the first file on PATH that can be executed, and leaves its links as they
// are. For a shell, an empty entry of PATH is the working directory.
func (f *finder) search(s sought) located {
	if s.name == "" {
		return located{why: "the program has no name"}
	}
	if _, unseen := f.view.(Nothing); unseen {
		return located{why: "the machine's programs cannot be seen from here"}
	}
	if strings.Contains(s.name, "/") {
		return f.file(from(s.dir, s.name))
	}
	why := "command not found on PATH"
	for dir := range strings.SplitSeq(f.req.Path, ":") {
		got := f.file(filepath.Join(from(s.dir, dir), s.name))
		if got.path != "" {
			return got
		}
		if got.why != notThere {
			why = got.why
		}
	}
	return located{why: why}
}

const notThere = "there is no such file"

func (f *finder) absolute(name string) string { return from(f.req.Dir, name) }

// from resolves a name in a directory.
func from(dir, name string) string {
	if filepath.IsAbs(name) {
		return filepath.Clean(name)
	}
	return filepath.Join(dir, name)
}

// linkView is a View that can tell links from files. For a file that is no link,
// only its directory is resolved, once for all programs in it.
type linkView interface {
	// Type is that of path itself, also if it is a symbolic link. Most programs are looked for
	// where they are not, so its errors are cheap.
	Type(path string) (fs.FileMode, error)
}

func (f *finder) file(path string) located {
	var kind fs.FileMode
	var err error
	links, ok := f.view.(linkView)
	if ok {
		kind, err = links.Type(path)
	}
	plain := ok && err == nil && kind != fs.ModeSymlink
	if !ok || err == nil && !plain {
		var info fs.FileInfo
		if info, err = f.view.Stat(path); err == nil {
			kind = info.Mode().Type()
		}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return located{why: notThere}
	case err != nil:
		return located{why: "cannot be looked at: " + err.Error()}
	case !kind.IsRegular():
		return located{why: path + " is no program"}
	}
	if err := f.view.Executable(path); err != nil {
		return located{why: path + " cannot be executed"}
	}
	return located{path: path, plain: plain}
}

// resolve adds the path without symbolic links.
func (f *finder) resolve(got located) located {
	if got.path == "" {
		return got
	}
	var err error
	if got.plain {
		got.real, err = f.directory(filepath.Dir(got.path))
		got.real = filepath.Join(got.real, filepath.Base(got.path))
	} else {
		got.real, err = f.view.RealPath(got.path)
	}
	if err != nil {
		return located{why: "cannot be looked at: " + err.Error()}
	}
	return got
}

// directory resolves the symbolic links of a directory, once for each directory.
func (f *finder) directory(dir string) (string, error) {
	if real, ok := f.dirs[dir]; ok {
		return real, nil
	}
	real, err := f.view.RealPath(dir)
	if err == nil {
		f.dirs[dir] = real
	}
	return real, err
}

// maxScript is the largest file of code that is hashed, in bytes.
const maxScript = 16 << 20

// digest is the SHA-256 of a file.
func (f *finder) digest(path string) (sum string, err error) {
	file, err := f.view.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", errors.New("it is no regular file")
	}
	h := sha256.New()
	n, err := io.Copy(h, io.LimitReader(file, maxScript+1))
	switch {
	case err != nil:
		return "", err
	case n > maxScript:
		return "", errors.New("it is longer than 16 MiB")
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
