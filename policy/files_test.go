package policy

import (
	"io/fs"
	"path"
	"strings"
	"testing/fstest"
	"time"
)

// files is a file system for tests. The value of a name says what it is: "-> target" a
// link, "dir" a directory, "data" a file that cannot be executed, "denied" a file in a
// directory that may not be searched. Any other value is the content of a program.
type files map[string]string

func (f files) real(name string) (string, error) {
	for range 40 {
		target, ok := strings.CutPrefix(f[name], "-> ")
		if !ok {
			if v, ok := f[name]; !ok {
				return "", &fs.PathError{Op: "stat", Path: name, Err: fs.ErrNotExist}
			} else if v == "denied" {
				return "", &fs.PathError{Op: "stat", Path: name, Err: fs.ErrPermission}
			}
			return name, nil
		}
		if !path.IsAbs(target) {
			target = path.Join(path.Dir(name), target)
		}
		name = target
	}
	return "", &fs.PathError{Op: "stat", Path: name, Err: errLoop{}}
}

type errLoop struct{}

func (errLoop) Error() string { return "too many levels of symbolic links" }

func (f files) Stat(name string) (fs.FileInfo, error) {
	real, err := f.real(name)
	if err != nil {
		return nil, err
	}
	return fileInfo{name: path.Base(real), dir: f[real] == "dir"}, nil
}

func (f files) RealPath(name string) (string, error) { return f.real(name) }

func (f files) Executable(name string) error {
	if real, err := f.real(name); err != nil {
		return err
	} else if f[real] == "data" {
		return fs.ErrPermission
	}
	return nil
}

func (f files) Open(name string) (fs.File, error) {
	real, err := f.real(name)
	if err != nil {
		return nil, err
	}
	mode := fs.FileMode(0o755)
	if f[real] == "dir" {
		mode |= fs.ModeDir
	}
	return fstest.MapFS{strings.TrimPrefix(real, "/"): {Data: []byte(f[real]), Mode: mode}}.Open(strings.TrimPrefix(real, "/"))
}

type fileInfo struct {
	name string
	dir  bool
}

func (i fileInfo) Name() string       { return i.name }
func (i fileInfo) Size() int64        { return 0 }
func (i fileInfo) ModTime() time.Time { return time.Time{} }
func (i fileInfo) IsDir() bool        { return i.dir }
func (i fileInfo) Sys() any           { return nil }
func (i fileInfo) Mode() fs.FileMode {
	if i.dir {
		return fs.ModeDir | 0o755
	}
	return 0o755
}

// someFiles is the file system of most tests.
var someFiles = files{
	"/bin/bash": "", "/bin/sh": "", "/bin/ls": "", "/bin/cat": "", "/bin/rm": "", "/bin/echo": "", "/bin/env": "", "/bin/sleep": "", "/bin/corral": "",
	"/usr/bin/git": "", "/usr/bin/grep": "", "/usr/bin/head": "", "/usr/bin/sort": "", "/usr/bin/python3": "-> python3.11", "/usr/bin/python3.11": "",
	"/usr/bin/npm": "", "/usr/bin/xargs": "", "/usr/bin/nice": "", "/usr/bin/tr": "", "/usr/bin/wc": "", "/usr/bin/make": "", "/usr/bin/find": "", "/usr/bin/awk": "",
	"/opt/brew/bin/rg": "-> ../cellar/rg/14/rg", "/opt/brew/cellar/rg/14/rg": "", "/home/a/bin/tool": "", "/srv/run.sh": "echo run\n", "/srv/my tool": "",
}

// requestOf is a request for bash to run text in /srv.
func requestOf(text string) Request {
	return Request{Command: text, Shell: []string{"/bin/bash", "-c"}, Dir: "/srv", Path: "/home/a/bin:/opt/brew/bin:/usr/bin:/bin", Home: "/home/a"}
}

func rulesOf(security Security, ask Ask, list ...Rule) Rules {
	var r Rules
	r.Security = Setting[Security]{security, Source{Name: "test"}}
	r.Ask = Setting[Ask]{ask, Source{Name: "test"}}
	r.AskFallback = Setting[Security]{SecurityDeny, Source{Name: "default"}}
	for i := range list {
		if list[i].Source == (Source{}) {
			list[i].Source = Source{File: "/etc/rules", Line: i + 1}
		}
	}
	r.List = list
	return r
}

func allow(pattern string) Rule { return Rule{Action: Allow, Pattern: pattern} }
func deny(pattern string) Rule  { return Rule{Action: Deny, Pattern: pattern} }
func query(pattern string) Rule { return Rule{Action: Query, Pattern: pattern} }
