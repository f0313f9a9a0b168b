package pathenv

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/corral-exec/corral/internal/state/journal"
	"github.com/corral-exec/corral/internal/test/damagetest"
)

// A keptTest makes one probe after the other, like programs that start and end.
type keptTest struct {
	t     *testing.T
	file  string // of the answers
	shell string
	opts  ProbeOptions
	asked int
	late  time.Duration // how far the test's clock is ahead
}

// newKept makes a home directory with a profile. Both are old for the test's clock.
func newKept(t *testing.T) *keptTest {
	dir := t.TempDir()
	k := &keptTest{t: t, file: filepath.Join(dir, "state", "login-path.json"), shell: filepath.Join(dir, "shell"), late: time.Hour}
	home := filepath.Join(dir, "home")
	for _, d := range []string{"", ".config/fish/conf.d"} {
		if err := os.MkdirAll(filepath.Join(home, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	writeFile(t, filepath.Join(home, ".profile"), "PATH=/1\n", 0o600)
	writeFile(t, k.shell, "#!/bin/sh\n", 0o700)
	shells := filepath.Join(dir, "shells")
	writeFile(t, shells, k.shell+"\n/bin/sh\n", 0o600)
	k.opts = ProbeOptions{
		Environ: []string{"SHELL=" + k.shell, "PATH=/bin", "USER=me", "PWD=/a", "OLDPWD=/b", "_=/bin/corral", "LANG=C"},
		Home:    home, Shells: shells, Kept: k.file,
		now: func() time.Time { return time.Now().Add(k.late) },
	}
	return k
}

// path is the PATH that a new program gets. The shell answers 1, 2, 3, …
func (k *keptTest) path() string {
	k.t.Helper()
	o := k.opts
	if o.Run == nil {
		o.Run = func(context.Context, string, []string, []string) ([]byte, error) {
			k.asked++
			return fmt.Appendf(nil, "\x00PATH=/%d\x00\x00", k.asked), nil
		}
	}
	p := NewLoginProbe(o)
	defer p.Close()
	path, err := p.PATH(k.t.Context())
	if err != nil {
		k.t.Fatal(err)
	}
	return path
}

// want checks the PATH that a new program gets.
func (k *keptTest) want(path, why string) {
	k.t.Helper()
	if got := k.path(); got != path {
		k.t.Errorf("%s: PATH is %s, not %s", why, got, path)
	}
}

func (k *keptTest) home(name string) string { return filepath.Join(k.opts.Home, name) }

func (k *keptTest) setenv(kv string) {
	name, _, _ := strings.Cut(kv, "=")
	for i, have := range k.opts.Environ {
		if strings.HasPrefix(have, name+"=") {
			k.opts.Environ[i] = kv
			return
		}
	}
	k.opts.Environ = append(k.opts.Environ, kv)
}

func TestKeptAnswerCountsUntilSomethingChanges(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(k *keptTest)
		stays  bool // the answer is still used
	}{
		{name: "nothing", change: func(*keptTest) {}, stays: true},
		{name: "another directory", change: func(k *keptTest) { k.setenv("PWD=/c"); k.setenv("OLDPWD=/a") }, stays: true},
		{name: "another caller", change: func(k *keptTest) { k.setenv("_=/usr/bin/make") }, stays: true},
		{name: "a variable that is not handed on", change: func(k *keptTest) { k.setenv("GITHUB_TOKEN=x") }, stays: true},
		{name: "an unrelated file", change: func(k *keptTest) { writeFile(k.t, k.home("notes"), "x", 0o600) }, stays: true},

		{name: "PATH", change: func(k *keptTest) { k.setenv("PATH=/bin:/sbin") }},
		{name: "USER", change: func(k *keptTest) { k.setenv("USER=you") }},
		{name: "any other variable", change: func(k *keptTest) { k.setenv("VIRTUAL=1") }},
		{name: "another shell", change: func(k *keptTest) { k.setenv("SHELL=/bin/sh") }},
		{name: "another home directory", change: func(k *keptTest) {
			k.opts.Home = k.home("other")
			if err := os.Mkdir(k.opts.Home, 0o700); err != nil {
				k.t.Fatal(err)
			}
		}},
		{name: "a new program of the shell", change: func(k *keptTest) { replace(k.t, k.shell, "#!/bin/sh\n") }},
		{name: "the shell is no login shell any more", change: func(k *keptTest) { writeFile(k.t, k.opts.Shells, "/bin/sh\n", 0o600) }},
		{name: "the profile is longer", change: func(k *keptTest) { writeFile(k.t, k.home(".profile"), "PATH=/1:/2\n", 0o600) }},
		{name: "the profile is as long as before", change: func(k *keptTest) {
			info, err := os.Stat(k.home(".profile"))
			if err != nil {
				k.t.Fatal(err)
			}
			writeFile(k.t, k.home(".profile"), "PATH=/2\n", 0o600)
			if err := os.Chtimes(k.home(".profile"), info.ModTime(), info.ModTime()); err != nil { // as if it had not changed
				k.t.Fatal(err)
			}
		}},
		{name: "another profile in its place", change: func(k *keptTest) { replace(k.t, k.home(".profile"), "PATH=/1\n") }},
		{name: "the profile cannot be read", change: func(k *keptTest) {
			if err := os.Chmod(k.home(".profile"), 0); err != nil {
				k.t.Fatal(err)
			}
		}},
		{name: "the profile is gone", change: func(k *keptTest) { remove(k.t, k.home(".profile")) }},
		{name: "~/.bash_profile", change: func(k *keptTest) { writeFile(k.t, k.home(".bash_profile"), "", 0o600) }},
		{name: "~/.bash_login", change: func(k *keptTest) { writeFile(k.t, k.home(".bash_login"), "", 0o600) }},
		{name: "~/.bashrc", change: func(k *keptTest) { writeFile(k.t, k.home(".bashrc"), "", 0o600) }},
		{name: "~/.zshenv", change: func(k *keptTest) { writeFile(k.t, k.home(".zshenv"), "", 0o600) }},
		{name: "~/.zprofile", change: func(k *keptTest) { writeFile(k.t, k.home(".zprofile"), "", 0o600) }},
		{name: "~/.zshrc", change: func(k *keptTest) { writeFile(k.t, k.home(".zshrc"), "", 0o600) }},
		{name: "a file in a directory of fish", change: func(k *keptTest) { writeFile(k.t, k.home(".config/fish/conf.d/a.fish"), "", 0o600) }},
		{name: "~/bin", change: func(k *keptTest) {
			if err := os.Mkdir(k.home("bin"), 0o700); err != nil {
				k.t.Fatal(err)
			}
		}},
		{name: "~/.local/bin", change: func(k *keptTest) {
			if err := os.MkdirAll(k.home(".local/bin"), 0o700); err != nil {
				k.t.Fatal(err)
			}
		}},
		{name: "nine minutes", change: func(k *keptTest) { k.late += 9 * time.Minute }, stays: true},
		{name: "ten minutes", change: func(k *keptTest) { k.late += keptFor }},
		{name: "the clock was set back", change: func(k *keptTest) { k.late -= time.Minute }},
		{name: "others can write to the file", change: func(k *keptTest) {
			if err := os.Chmod(k.file, 0o620); err != nil {
				k.t.Fatal(err)
			}
		}},
		{name: "a link in its place", change: func(k *keptTest) {
			if err := os.Rename(k.file, k.file+".1"); err != nil {
				k.t.Fatal(err)
			}
			if err := os.Symlink(k.file+".1", k.file); err != nil {
				k.t.Fatal(err)
			}
		}},
		{name: "another version", change: func(k *keptTest) {
			line := bytes.Replace(read(k.t, k.file), []byte(`"version":1`), []byte(`"version":2`), 1)
			line = append(line[:bytes.LastIndex(line, []byte(`,"sum"`))], '}')
			writeFile(k.t, k.file, string(journal.Sign(line)), 0o600)
		}},
		{name: "no checksum", change: func(k *keptTest) {
			line := read(k.t, k.file)
			writeFile(k.t, k.file, string(line[:bytes.LastIndex(line, []byte(`,"sum"`))])+"}", 0o600)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k := newKept(t)
			k.want("/1", "at first")
			k.want("/1", "again")
			if k.asked != 1 {
				t.Fatalf("asked %d times before anything changed", k.asked)
			}
			tt.change(k)
			if tt.stays {
				k.want("/1", "afterwards")
				return
			}
			k.want("/2", "afterwards")
			k.want("/2", "the new answer is kept")
		})
	}
}

func TestKeptAnswerOfAnotherUser(t *testing.T) {
	k := newKept(t)
	k.want("/1", "at first")
	if err := os.Chown(k.file, 12345, -1); err != nil {
		t.Fatal(err) // tests run as root
	}
	k.want("/2", "the file is another user's")
	k.want("/2", "which was replaced")
}

// An answer is not kept if a profile changes while the shell reads it.
func TestAnswerIsNotKept(t *testing.T) {
	t.Run("a profile that changes meanwhile", func(t *testing.T) {
		k := newKept(t)
		asked := 0
		k.opts.Run = func(context.Context, string, []string, []string) ([]byte, error) {
			asked++
			writeFile(t, k.home(".profile"), strings.Repeat("#\n", asked), 0o600)
			return fmt.Appendf(nil, "PATH=/%d\x00\x00", asked), nil
		}
		k.want("/1", "at first")
		k.want("/2", "again")
	})
	t.Run("a profile that changed just now", func(t *testing.T) {
		k := newKept(t)
		k.late = 0
		k.want("/1", "at first")
		k.want("/2", "again")
	})
	t.Run("no home directory", func(t *testing.T) {
		k := newKept(t)
		k.opts.Home = ""
		k.want("/1", "at first")
		k.want("/2", "again")
	})
	t.Run("no place for it", func(t *testing.T) {
		k := newKept(t)
		k.opts.Kept = filepath.Join(k.shell, "login-path.json") // that is no directory
		k.want("/1", "at first")
		k.want("/2", "again")
	})
	t.Run("no answer", func(t *testing.T) {
		k := newKept(t)
		k.opts.Run = func(context.Context, string, []string, []string) ([]byte, error) {
			return nil, context.DeadlineExceeded
		}
		p := NewLoginProbe(k.opts)
		defer p.Close()
		if path, err := p.PATH(t.Context()); err == nil {
			t.Fatalf("PATH is %s", path)
		}
		k.opts.Run = nil
		k.want("/1", "after a failure")
	})
}

// Each terminal has its own environment, and so its own answer, up to keptMost.
func TestKeptAnswers(t *testing.T) {
	k := newKept(t)
	for i := range keptMost + 1 {
		k.setenv(fmt.Sprintf("TERMINAL=%d", i))
		k.want(fmt.Sprintf("/%d", i+1), "the first time")
	}
	for i := 1; i <= keptMost; i++ {
		k.setenv(fmt.Sprintf("TERMINAL=%d", i))
		k.want(fmt.Sprintf("/%d", i+1), "the second time")
	}
	k.setenv("TERMINAL=0")
	k.want(fmt.Sprintf("/%d", keptMost+2), "the oldest was pushed out")
	info, err := os.Stat(k.file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

func TestKeptAnswersAreDamaged(t *testing.T) {
	k := newKept(t)
	k.want("/1", "at first")
	whole := readKept(k.file)
	content := read(t, k.file)
	damagetest.Each(content, func(how string, damaged []byte) {
		writeFile(t, k.file, string(damaged), 0o600)
		got := readKept(k.file)
		if len(got) == 0 {
			return
		}
		// The newline at the end is not part of the content.
		if len(got) != 1 || got[0] != whole[0] || !bytes.HasPrefix(damaged, bytes.TrimSuffix(content, []byte("\n"))) {
			t.Errorf("%s: %+v", how, got)
		}
	})
	writeFile(t, k.file, "", 0o600)
	k.want("/2", "the file is empty")
	k.want("/2", "and made anew")
}

func replace(t *testing.T, path, content string) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, path+".new", content, info.Mode().Perm())
	if err := os.Chtimes(path+".new", info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
