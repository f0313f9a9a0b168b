//go:build unix

package script

import (
	"bytes"
	"errors"
	"io/fs"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/corral-exec/corral/hostexec"
	"github.com/corral-exec/corral/internal/test/testdir"
)

func newRunner(t *testing.T) Runner {
	t.Helper()
	e, err := hostexec.New(hostexec.Config{
		InProcess: true, StateDir: testdir.New(t), Workspace: testdir.New(t), Environ: []string{"PATH=/usr/local/bin:/usr/bin:/bin"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return Runner{Exec: e, Dir: "/", Limit: time.Minute}
}

func TestOutput(t *testing.T) {
	r := newRunner(t)
	out, err := r.Output(t.Context(), `pwd; cat; printf '%s|' "$@"`, strings.NewReader("input\n"), 100, "a b", "$(c)", "")
	if err != nil || string(out) != "/\ninput\na b|$(c)||" {
		t.Errorf("%q, %v", out, err)
	}
	if _, err := r.Output(t.Context(), `printf 12345`, nil, 4); err == nil || !strings.Contains(err.Error(), "more than 4 bytes") {
		t.Errorf("too much came: %v", err)
	}
}

func TestFailures(t *testing.T) {
	r := newRunner(t)
	for text, want := range map[string]error{
		"exit 91": fs.ErrNotExist, "exit 92": fs.ErrExist, "exit 93": fs.ErrInvalid,
		"rmdir /usr": syscall.ENOTEMPTY,
		"echo x: Read-only file system >&2; exit 1":   syscall.EROFS,
		"echo x: No space left on device >&2; exit 1": syscall.ENOSPC,
	} {
		if err := r.Feed(t.Context(), text, nil); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", text, err, want)
		}
	}
	err := r.Feed(t.Context(), "printf 'one\\033[2J\\ntwo' >&2; exit 3", nil)
	if err == nil || err.Error() != "exit code 3: one two" {
		t.Errorf("%v", err)
	}
}

// An error does not repeat the message of the program.
func TestFailuresAreSaidOnce(t *testing.T) {
	r := newRunner(t)
	for text, want := range map[string]string{
		"echo 'Permission denied' >&2; exit 1":                             "permission denied",
		"echo 'find: /etc/ssl: Permission denied' >&2; exit 1":             "find: /etc/ssl: Permission denied",
		"echo 'dd: x: No space left on device.' >&2; exit 1":               "dd: x: No space left on device.",
		"echo 'mkdir: /a: Read-only file system' >&2; exit 1":              "mkdir: /a: Read-only file system",
		"printf 'rm: a: Not permitted\nrm: b: Is a directory' >&2; exit 1": "rm: a: Not permitted rm: b: Is a directory",
	} {
		if err := r.Feed(t.Context(), text, nil); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// A stream of any length arrives whole, even at a slow reader, and so does the exit status.
func TestStream(t *testing.T) {
	r := newRunner(t)
	var b bytes.Buffer
	if err := r.Stream(t.Context(), `printf "$1"; sleep 0.05; printf two`, &b, "one"); err != nil || b.String() != "onetwo" {
		t.Errorf("%q, %v", &b, err)
	}
	b.Reset()
	if err := r.Stream(t.Context(), ":", &b); err != nil || b.Len() != 0 {
		t.Errorf("%q, %v", &b, err)
	}
	slow := &slowly{}
	if err := r.Stream(t.Context(), "head -c 41943040 /dev/zero", slow); err != nil || slow.n != 40<<20 {
		t.Errorf("%d bytes, %v", slow.n, err)
	}
	if err := r.Stream(t.Context(), "printf x; exit 91", &b); !errors.Is(err, fs.ErrNotExist) || b.String() != "x" {
		t.Errorf("%q, %v", &b, err)
	}
	full := errors.New("full")
	if err := r.Stream(t.Context(), "cat /dev/zero", failing{full}); !errors.Is(err, full) {
		t.Errorf("%v", err)
	}
}

type slowly struct{ n int }

func (s *slowly) Write(p []byte) (int, error) {
	if s.n += len(p); s.n < 1<<20 {
		time.Sleep(10 * time.Millisecond)
	}
	return len(p), nil
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
