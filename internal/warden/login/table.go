//go:build linux

package login

import (
	"io"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	maxEntries = 32
	maxKey     = 32 << 10 // bytes of a shell, a directory and an environment
	maxEncoded = 256 << 10
	// rest is how long after an attempt there is no other.
	rest = time.Second
)

// A Table keeps the snapshots of one user in one container, one for each shell, environment
// and directory that commands are started with. The zero value is ready.
type Table struct {
	mu     sync.Mutex
	list   map[string]*entry
	uses   uint64
	taking bool
}

// An entry is what is known of a shell with an environment and a directory.
type entry struct {
	used    uint64 // Table.uses at the last use
	known   bool   // the rest counts
	env     []string
	watches []watch
	why     string // there is no snapshot
	tried   time.Time
}

// Shell reports whether args are those of a login shell that runs a text and can be spared
// its profile: then plain are those of that shell, its path first, without a profile.
func Shell(args []string) (plain []string, ok bool) {
	if len(args) < 2 || args[0] != "/bin/sh" && args[0] != "/bin/bash" {
		return nil, false
	}
	switch shell, rest := args[0], args[1:]; {
	case len(rest) == 2 && rest[0] == "-lc":
		return []string{shell, "-c", rest[1]}, true
	case len(rest) == 3 && rest[0] == "-l" && rest[1] == "-c":
		return []string{shell, "-c", rest[2]}, true
	}
	return nil, false
}

// A Use is how a command gets what its login profile leaves.
type Use struct {
	Env []string // of a shell that reads no profile; nil: it reads it. ProcessID is missing.
	Why string   // there is no snapshot, and there will be none for the profile as it is
	// Take is to be called if it is not nil, with the output of the warden's program
	// with the arguments Take and the shell, which is run with this environment, ProcessID
	// being Placeholder, and in this directory. With a nil reader nothing is known.
	Take func(io.Reader)
}

// Use tells how a command of a shell gets what the login profile leaves. env is without
// ProcessID.
//
// The first command with a shell, an environment and a directory reads the profile: they may
// never come again. So does the second, beside which the snapshot is taken.
func (t *Table) Use(shell string, env []string, dir string) Use {
	size := len(shell) + len(dir)
	for _, v := range env {
		size += len(v) + 1
	}
	if size > maxKey {
		return Use{}
	}
	key := shell + "\x00" + dir + "\x00" + strings.Join(env, "\x00")
	t.mu.Lock()
	defer t.mu.Unlock()
	t.uses++
	e := t.list[key]
	if e == nil {
		t.add(key, &entry{used: t.uses})
		return Use{}
	}
	e.used = t.uses
	if e.known && e.current() {
		return Use{Env: e.env, Why: e.why}
	}
	e.known = false
	if t.taking || time.Since(e.tried) < rest {
		return Use{}
	}
	t.taking, e.tried = true, time.Now()
	return Use{Take: func(r io.Reader) { t.take(e, r) }}
}

// current reports whether the files are as they were.
func (e *entry) current() bool {
	return !slices.ContainsFunc(e.watches, func(w watch) bool { return !w.current() })
}

// add makes room for an entry: one without a snapshot goes first, and of those the one
// that was not used for longest.
func (t *Table) add(key string, e *entry) {
	if t.list == nil {
		t.list = map[string]*entry{}
	}
	if len(t.list) >= maxEntries {
		var oldest string
		for k, o := range t.list {
			other := t.list[oldest]
			if other == nil || (o.env != nil) == (other.env != nil) && o.used < other.used || o.env == nil && other.env != nil {
				oldest = k
			}
		}
		delete(t.list, oldest)
	}
	t.list[key] = e
}

func (t *Table) take(e *entry, r io.Reader) {
	var s snapshot
	ok := false
	if r != nil {
		if b, err := io.ReadAll(io.LimitReader(r, maxEncoded)); err == nil {
			s, ok = decode(string(b))
		}
	}
	env := slices.DeleteFunc(s.env, func(v string) bool { return strings.HasPrefix(v, ProcessID+"=") })
	t.mu.Lock()
	defer t.mu.Unlock()
	t.taking = false
	if ok && !s.again {
		e.known, e.env, e.watches, e.why = true, env, s.watches, s.why
	}
}
