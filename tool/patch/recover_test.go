//go:build unix

package patch

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/corral-exec/corral"
)

// interrupted leaves everyKindPatch half applied in a new directory.
func interrupted(t *testing.T) (dir string, before tree) {
	t.Helper()
	dir, before = makeEveryKind(t)
	steps, name, dead := 0, "", false
	f := faulty{Directory{Path: dir}, func(int) error {
		if dead = dead || name == "dir/deep.txt"; dead {
			return errDead
		}
		return nil
	}, &steps, &name}
	r := New(Config{Target: f}).Call(t.Context(), callArguments(t, everyKindPatch))
	if r.Status != StatusUnknown || r.Reason != ReasonLost || r.Hint == "" || strings.Contains(r.Text(), "No file was changed") {
		t.Fatalf("%+v", r)
	}
	if differs(snapshot(t, dir), before) == "" {
		t.Fatal("nothing is left to undo")
	}
	return dir, before
}

// Changes by other programs after the crash are not undone, and warnings name them.
func TestRecoverKeepsForeignChanges(t *testing.T) {
	dir, before := interrupted(t)
	theirs := map[string]string{"change.txt": "theirs\n", "new/added.txt": "theirs\n", "new/more.txt": "theirs\n"}
	write(t, dir, theirs)
	warnings, err := Recover(t.Context(), Directory{Path: dir})
	if err != nil || len(warnings) != 1 || !strings.HasSuffix(warnings[0], ": new/added.txt, change.txt.") {
		t.Errorf("%q, %v", warnings, err)
	}
	for name, content := range theirs {
		before[name] = "-rw-r--r--\n" + content
	}
	before["new"] = "drwxr-xr-x"
	if d := differs(snapshot(t, dir), before); d != "" {
		t.Error(d)
	}
	if warnings, err := Recover(t.Context(), Directory{Path: dir}); err != nil || len(warnings) != 0 {
		t.Errorf("again: %q, %v", warnings, err)
	}
}

// The next call first undoes the interrupted patch. It warns only if files were left alone.
func TestNextCallRecovers(t *testing.T) {
	dir, before := interrupted(t)
	r := call(t, dir, patchOf("*** Update File: change.txt", "@@", "-two", "+2"))
	before["change.txt"] = "-rw-r--r--\none\n2\nthree\n"
	if d := differs(snapshot(t, dir), before); d != "" || r.Failed() || len(r.Warnings) > 0 {
		t.Errorf("%+v\n%s", r, d)
	}
}

// What another program made where the patch wanted a directory is not removed.
func TestUndoSparesForeignFiles(t *testing.T) {
	for _, kind := range []string{"theirs\n", "-> elsewhere"} {
		for name, target := range targets {
			for _, dies := range []bool{false, true} {
				dir, before := makeEveryKind(t)
				steps, at, dead := 0, "", false
				f := faulty{target(t, dir), func(int) error {
					if at == "new" && !dead {
						write(t, dir, map[string]string{"new": kind})
						dead = dies
					}
					if dead {
						return errDead
					}
					return nil
				}, &steps, &at}
				r := New(Config{Target: f}).Call(t.Context(), callArguments(t, everyKindPatch))
				if !r.Failed() {
					t.Fatalf("%s: %+v", name, r)
				}
				if _, err := Recover(t.Context(), target(t, dir)); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				after := snapshot(t, dir)
				if after["new"] == "" {
					t.Errorf("%s, dies %t: their %q is gone", name, dies, kind)
				}
				delete(after, "new")
				if d := differs(after, before); d != "" {
					t.Errorf("%s, dies %t: %s", name, dies, d)
				}
			}
		}
	}
}

// If the time for putting a patch in place was up, there is time to undo it.
func TestUndoHasItsOwnTime(t *testing.T) {
	defer func(was time.Duration) { settleLimit = was }(settleLimit)
	settleLimit = 100 * time.Millisecond
	dir, before := makeEveryKind(t)
	r := New(Config{Target: slow{Directory{Path: dir}}}).Call(t.Context(), callArguments(t, everyKindPatch))
	if r.Reason == ReasonLost || !r.Failed() {
		t.Errorf("%+v", r)
	}
	if d := differs(snapshot(t, dir), before); d != "" {
		t.Error(d)
	}
}

// A slow target does nothing once its time is up, which is when dir/deep.txt is changed.
type slow struct{ Target }

func (s slow) open(ctx context.Context) (workspace, error) {
	ws, err := s.Target.open(ctx)
	return &slowWorkspace{workspace: ws}, err
}

type slowWorkspace struct {
	workspace
	slept bool
}

func (w *slowWorkspace) rename(ctx context.Context, from, to string) error {
	if to == "dir/deep.txt" && !w.slept {
		w.slept = true
		<-ctx.Done()
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return w.workspace.rename(ctx, from, to)
}

func (w *slowWorkspace) remove(ctx context.Context, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return w.workspace.remove(ctx, name)
}

// A record that no patch can have written is not undone.
func TestRecordsThatAreNone(t *testing.T) {
	ok := hash([]byte("a\n"))
	for name, text := range map[string]string{
		"no JSON":         "{",
		"another version": `{"version": 2}`,
		"up":              `{"version": 1, "changes": [{"name": "../outside", "new": "` + ok + `"}]}`,
		"absolute":        `{"version": 1, "changes": [{"name": "/etc/passwd", "was": true}]}`,
		"the root":        `{"version": 1, "dirs": ["."]}`,
		"not clean":       `{"version": 1, "dirs": ["a//b"]}`,
		"a journal":       `{"version": 1, "dirs": [".corral-patch-y"]}`,
	} {
		t.Run(name, func(t *testing.T) {
			top := t.TempDir()
			write(t, top, map[string]string{"outside": "a\n", "work/a.txt": "a\n", "work/.corral-patch-x/record": text, "work/.corral-patch-x/old-0": "theirs\n"})
			work := filepath.Join(top, "work")
			if err := os.Chmod(filepath.Join(work, ".corral-patch-x"), 0o700); err != nil {
				t.Fatal(err)
			}
			before := snapshot(t, top)
			r := call(t, work, patchOf("*** Delete File: a.txt"))
			if r.Reason != ReasonUnavailable || !strings.Contains(r.Text(), "an interrupted patch cannot be undone: its record") || !strings.Contains(r.Hint, work+"/.corral-patch-x") {
				t.Errorf("%+v", r)
			}
			if d := differs(snapshot(t, top), before); d != "" {
				t.Error(d)
			}
		})
	}
}

// A directory with the name of a journal that another user may have made is left alone.
func TestForeignJournals(t *testing.T) {
	dir := t.TempDir()
	forged, err := json.Marshal(record{Version: recordVersion, Changes: []recordChange{{Name: "a.txt", New: hash([]byte("a\n"))}}})
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, map[string]string{
		"a.txt": "a\n", ".corral-patch-file": "x", ".corral-patch-link": "-> sub", "sub/record": string(forged),
		".corral-patch-public/record": string(forged), // 0755: others may have written it
	})
	before := snapshot(t, dir)
	if warnings, err := Recover(t.Context(), Directory{Path: dir}); err != nil || len(warnings) > 0 {
		t.Errorf("%q, %v", warnings, err)
	}
	if d := differs(snapshot(t, dir), before); d != "" {
		t.Error(d)
	}
}

// Undoing any record stays in the workspace.
func FuzzRecord(f *testing.F) {
	f.Add(`{"version":1,"changes":[{"name":"a","was":true,"new":"87428fc522803d31065e7bce3cf03fe475096631e5e07bbd7a0fde60c4cf25c7"}],"dirs":["d"]}`)
	f.Add(`{"version":1,"changes":[{"name":"link/a"}],"dirs":["link"]}`)
	f.Fuzz(func(t *testing.T, text string) {
		top := t.TempDir()
		work := filepath.Join(top, "work")
		write(t, top, map[string]string{"outside/a": "a\n", "work/a": "a\n", "work/link": "-> ../outside", "work/.corral-patch-x/record": text, "work/.corral-patch-x/old-0": "old\n"})
		if err := os.Mkdir(filepath.Join(top, "outside/d"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(work, ".corral-patch-x"), 0o700); err != nil {
			t.Fatal(err)
		}
		before := snapshot(t, filepath.Join(top, "outside"))
		_, _ = Recover(context.Background(), Directory{Path: work})
		if d := differs(snapshot(t, filepath.Join(top, "outside")), before); d != "" {
			t.Errorf("%q: %s", text, d)
		}
	})
}

// A call waits for the lock of a workspace until its context ends.
func TestLocked(t *testing.T) {
	dir := t.TempDir()
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_SH); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = Recover(ctx, Directory{Path: dir})
	if !errors.Is(err, corral.ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

// New files belong to the owner of their directory, if this user may change owners.
func TestOwners(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, map[string]string{"theirs/a.txt": "a\n", "theirs/d/keep": "x\n"})
	uid, gid := os.Geteuid(), os.Getegid()
	if uid == 0 {
		uid, gid = 1234, 4321
	}
	for _, name := range []string{"theirs", "theirs/a.txt", "theirs/d"} {
		if err := os.Chown(filepath.Join(dir, name), uid, gid); err != nil {
			t.Fatal(err)
		}
	}
	r := call(t, dir, patchOf("*** Update File: theirs/a.txt", "@@", "-a", "+b", "*** Add File: theirs/new/deep/n.txt", "+n", "*** Update File: theirs/d/keep", "*** Move to: theirs/d/moved", "*** Add File: ours.txt", "+o"))
	if r.Failed() {
		t.Fatalf("%+v", r)
	}
	for name, want := range map[string][2]int{
		"theirs/a.txt": {uid, gid}, "theirs/new": {uid, gid}, "theirs/new/deep": {uid, gid}, "theirs/new/deep/n.txt": {uid, gid},
		"theirs/d/moved": {os.Geteuid(), os.Getegid()}, "ours.txt": {os.Geteuid(), os.Getegid()},
	} {
		info, err := os.Lstat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if st := info.Sys().(*syscall.Stat_t); [2]int{int(st.Uid), int(st.Gid)} != want {
			t.Errorf("%s: %d:%d, want %v", name, st.Uid, st.Gid, want)
		}
	}
}

// A call can be cancelled until it begins to put files in place.
func TestCancelled(t *testing.T) {
	dir, before := makeEveryKind(t)
	ctx, cancel := context.WithCancel(t.Context())
	steps := 0
	f := faulty{Directory{Path: dir}, func(n int) error {
		if n == 5 {
			cancel()
		}
		return nil
	}, &steps, nil}
	r := New(Config{Target: f}).Call(ctx, callArguments(t, everyKindPatch))
	if r.Reason != ReasonCancelled {
		t.Errorf("%+v", r)
	}
	if d := differs(snapshot(t, dir), before); d != "" {
		t.Error(d)
	}
}
