//go:build unix

package patch

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/corral-exec/corral/internal/test/moments"
)

// A refused patch changes nothing, and the text says why.
func TestRefused(t *testing.T) {
	files := map[string]string{
		"work/a.txt": "a\n", "work/dir/b.txt": "b\n", "outside/o.txt": "o\n", "outside/sub/s.txt": "s\n",
		"work/in": "-> a.txt", "work/out": "-> ../outside/o.txt", "work/outdir": "-> ../outside", "work/indir": "-> dir",
		"work/dangling": "-> nothing", "work/abs": "-> /etc/passwd",
	}
	update := func(name string) string { return patchOf("*** Update File: "+name, "@@", "-a", "+x") }
	add := func(name string) string { return patchOf("*** Add File: "+name, "+x") }
	for name, c := range map[string]struct{ patch, want string }{
		"up":                           {add("../x"), "Path escapes sandbox root (WORK): ../x"},
		"up and down":                  {add("dir/../../work/x"), "Path escapes sandbox root (WORK): dir/../../work/x"},
		"absolute outside":             {add("/tmp/x"), "Path escapes sandbox root (WORK): /tmp/x"},
		"a sibling that begins alike":  {add("WORKX/x"), "Path escapes sandbox root (WORK): WORKX/x"},
		"absolute and up":              {add("WORK/../outside/x"), "Path escapes sandbox root (WORK)"},
		"the home directory":           {add("~/x"), "Path escapes sandbox root (WORK): ~/x"},
		"move up":                      {patchOf("*** Update File: a.txt", "*** Move to: ../x", "@@", "-a", "+x"), "Path escapes sandbox root (WORK): ../x"},
		"the workspace":                {patchOf("*** Delete File: ."), "is the workspace itself"},
		"a directory's path":           {add("new/"), "is that of a directory"},
		"a journal":                    {add(".corral-patch-x/record"), "is kept for patches that are being applied"},
		"update of a link inside":      {update("in"), "Failed to read file to update in: it is a symbolic link"},
		"update of a link outside":     {update("out"), "it is a symbolic link"},
		"update of an absolute link":   {update("abs"), "it is a symbolic link"},
		"add at a dangling link":       {add("dangling"), "Failed to add dangling: it exists, as a symbolic link"},
		"move to a dangling link":      {patchOf("*** Update File: a.txt", "*** Move to: dangling", "@@", "-a", "+x"), "Failed to move a.txt to dangling: that exists, as a symbolic link"},
		"through a link outside":       {add("outdir/x"), "Symlink escapes sandbox root (WORK): outdir/x: outdir is a symbolic link"},
		"delete through a link":        {patchOf("*** Delete File: outdir/o.txt"), "Symlink escapes sandbox root"},
		"deep through a link":          {patchOf("*** Delete File: outdir/sub/s.txt"), "Symlink escapes sandbox root"},
		"through a link inside":        {patchOf("*** Update File: indir/b.txt", "@@", "-b", "+x"), "Symlink escapes sandbox root"},
		"a hard link":                  {patchOf("*** Update File: hard", "@@", "-o", "+x"), "Failed to read file to update hard: it has 2 names (hard links)"},
		"add where a file is":          {add("a.txt"), "Failed to add a.txt: it exists, as a file"},
		"add where a directory is":     {add("dir"), "Failed to add dir: it exists, as a directory"},
		"add below a file":             {add("a.txt/x"), "a.txt is a file, not a directory"},
		"add below a new file":         {patchOf("*** Add File: n", "+x", "*** Add File: n/x", "+x", "*** Delete File: n"), "n is a file, not a directory"},
		"add where a new directory is": {patchOf("*** Add File: n/x", "+x", "*** Add File: n", "+x", "*** Delete File: n/x"), "it is the directory of n/x"},
		"move below a new file":        {patchOf("*** Update File: a.txt", "*** Move to: n", "@@", "-a", "+x", "*** Update File: dir/b.txt", "*** Move to: n/b", "@@", "-b", "+x"), "n is a file, not a directory"},
		"move to a file":               {patchOf("*** Update File: a.txt", "*** Move to: dir/b.txt", "@@", "-a", "+x"), "that exists, as a file"},
		"delete of a directory":        {patchOf("*** Delete File: dir"), "Failed to delete dir: it is a directory"},
		"delete of nothing":            {patchOf("*** Delete File: none"), "Failed to delete none: it does not exist"},
		"update of nothing":            {update("none"), "Failed to read file to update none: it does not exist"},
		"update of a directory":        {update("dir"), "it is a directory, not a file"},
		"update of a FIFO":             {update("fifo"), "it is a special file"},
		"delete of a FIFO":             {patchOf("*** Delete File: fifo"), "it is a special file"},
		"a long name":                  {add(strings.Repeat("x", 300)), "has a name of 300 bytes"},
		"the last of several":          {patchOf("*** Add File: x/y/z", "+x", "*** Delete File: a.txt", "*** Update File: dir/b.txt", "@@", "-none", "+x"), "Failed to find expected lines in dir/b.txt: chunk 1, at line 6 of the patch"},
		"a file that was deleted":      {patchOf("*** Delete File: a.txt", "*** Update File: a.txt", "@@", "-a", "+x"), "it does not exist"},
		"no hunks":                     {beginPatch + "\n" + endPatch, "No files were modified."},
	} {
		for kind, target := range targets {
			t.Run(name+"/"+kind, func(t *testing.T) {
				top := t.TempDir()
				work := filepath.Join(top, "work")
				write(t, top, files)
				if err := os.Link(filepath.Join(top, "outside/o.txt"), filepath.Join(work, "hard")); err != nil {
					t.Fatal(err)
				}
				if err := syscall.Mkfifo(filepath.Join(work, "fifo"), 0o644); err != nil {
					t.Fatal(err)
				}
				before := snapshot(t, top)
				in := func(text string) string { return strings.ReplaceAll(text, "WORK", work) }
				r := New(Config{Target: target(t, work)}).Call(t.Context(), callArguments(t, in(c.patch)))
				if !r.Failed() || !strings.Contains(r.Text(), in(c.want)) || !strings.Contains(r.Text(), "No file was changed.") {
					t.Errorf("%+v", r)
				}
				if d := differs(snapshot(t, top), before); d != "" {
					t.Error(d)
				}
			})
		}
	}
}

func TestAllowed(t *testing.T) {
	for name, c := range map[string]struct {
		patch string
		want  map[string]string // the files afterwards; "": deleted
		text  string
	}{
		"an absolute path inside":      {patchOf("*** Add File: WORK/x", "+x"), map[string]string{"x": "x\n"}, "A x"},
		"up and down":                  {patchOf("*** Add File: dir/../x", "+x"), map[string]string{"x": "x\n"}, "A x"},
		"deletion of a link":           {patchOf("*** Delete File: out"), map[string]string{"out": ""}, "D out"},
		"a link replaced":              {patchOf("*** Delete File: out", "*** Add File: out", "+x"), map[string]string{"out": "x\n"}, "M out"},
		"a link to a directory":        {patchOf("*** Delete File: outdir", "*** Add File: outdir", "+x"), map[string]string{"outdir": "x\n"}, "M outdir"},
		"parents":                      {patchOf("*** Add File: p/q/r/x", "+x", "*** Add File: p/q/y", "+y"), map[string]string{"p/q/r/x": "x\n", "p/q/y": "y\n"}, "A p/q/r/x\nA p/q/y"},
		"several hunks of a file":      {patchOf("*** Update File: a.txt", "@@", "-a", "+b", "*** Update File: a.txt", "@@", "-b", "+c"), map[string]string{"a.txt": "c\n"}, "M a.txt"},
		"add, then update":             {patchOf("*** Add File: x", "+1", "*** Update File: x", "@@", "-1", "+2"), map[string]string{"x": "2\n"}, "A x"},
		"move, then update":            {patchOf("*** Update File: a.txt", "*** Move to: x", "*** Update File: x", "@@", "-a", "+b"), map[string]string{"a.txt": "", "x": "b\n"}, "M x"},
		"move, then add":               {patchOf("*** Update File: a.txt", "*** Move to: x", "*** Add File: a.txt", "+new"), map[string]string{"a.txt": "new\n", "x": "a\n"}, "A a.txt\nM x"},
		"two files exchanged":          {patchOf("*** Update File: a.txt", "*** Move to: x", "*** Update File: dir/b.txt", "*** Move to: a.txt", "*** Update File: x", "*** Move to: dir/b.txt"), map[string]string{"a.txt": "b\n", "dir/b.txt": "a\n"}, ""},
		"add, then delete":             {patchOf("*** Add File: n/x", "+1", "*** Delete File: n/x"), map[string]string{}, ""},
		"nothing changes":              {patchOf("*** Update File: a.txt", "@@", "-a", "+a"), map[string]string{}, "M a.txt"},
		"emptied":                      {patchOf("*** Update File: a.txt", "@@", "-a"), map[string]string{"a.txt": "EMPTY"}, "M a.txt"},
		"emptied and moved":            {patchOf("*** Update File: a.txt", "*** Move to: x", "@@", "-a"), map[string]string{"a.txt": "", "x": "EMPTY"}, "M x"},
		"an empty file":                {patchOf("*** Add File: x"), map[string]string{"x": "EMPTY"}, "A x"},
		"names that look like options": {patchOf("*** Add File: -rf", "+x", "*** Add File: $(id) 'q' \"r\"", "+y"), map[string]string{"-rf": "x\n", "$(id) 'q' \"r\"": "y\n"}, "A -rf\nA $(id) 'q' \"r\""},
		"deletion of a binary file":    {patchOf("*** Delete File: binary"), map[string]string{"binary": ""}, "D binary"},
		"move of a binary file":        {patchOf("*** Update File: binary", "*** Move to: moved"), map[string]string{"binary": "", "moved": "\x00\n\xff"}, "M moved"},
	} {
		for kind, target := range targets {
			t.Run(name+"/"+kind, func(t *testing.T) {
				top := t.TempDir()
				work := filepath.Join(top, "work")
				write(t, top, map[string]string{"work/a.txt": "a\n", "work/dir/b.txt": "b\n", "work/binary": "\x00\n\xff", "outside/o": "o\n", "work/out": "-> ../outside/o", "work/outdir": "-> ../outside"})
				if err := os.Chmod(filepath.Join(work, "a.txt"), 0o750); err != nil {
					t.Fatal(err)
				}
				want := snapshot(t, top)
				for name, content := range c.want {
					mode := "-rw-r--r--"
					if content == "a\n" || name == "a.txt" && !strings.Contains(c.patch, "Add File: a.txt") && content != "b\n" || name == "x" && strings.Contains(c.patch, "Move to: x") {
						mode = "-rwxr-x---"
					}
					want["work/"+name] = mode + "\n" + strings.TrimPrefix(content, "EMPTY")
					if content == "" {
						delete(want, "work/"+name)
						continue
					}
					for dir := filepath.Dir(name); dir != "."; dir = filepath.Dir(dir) {
						want["work/"+dir] = "drwxr-xr-x"
					}
				}
				tool := Config{Target: target(t, work), DryRun: true}
				args := callArguments(t, strings.ReplaceAll(c.patch, "WORK", work))
				before := snapshot(t, top)
				dry := New(tool).Call(t.Context(), args)
				if d := differs(snapshot(t, top), before); d != "" {
					t.Errorf("a dry run changed %s", d)
				}
				tool.DryRun = false
				r := New(tool).Call(t.Context(), args)
				if r.Failed() || c.text != "" && r.Text() != "Success. Updated the following files:\n"+c.text {
					t.Errorf("%+v", r)
				}
				if dry.Failed() || strings.Join(dry.Summary.Modified, "\n") != strings.Join(r.Summary.Modified, "\n") || !strings.HasPrefix(dry.Text(), "The patch fits.") {
					t.Errorf("%+v", dry)
				}
				if d := differs(snapshot(t, top), want); d != "" {
					t.Error(d)
				}
			})
		}
	}
}

// attack calls do in a loop, until the test calls stop.
func attack(do func()) (stop func() (times int)) {
	done, times := make(chan struct{}), 0
	var attacker sync.WaitGroup
	attacker.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				do()
				times++
			}
		}
	})
	return func() int {
		close(done)
		attacker.Wait()
		return times
	}
}

// Directories become links to the outside, and back, all the time: nothing
// outside is ever touched.
func TestExchangedDirectories(t *testing.T) {
	top := t.TempDir()
	work := filepath.Join(top, "work")
	write(t, top, map[string]string{
		"outside/a.txt": "a\n", "outside/d.txt": "d\n", "outside/sub/x.txt": "a\n", "work/link": "-> ../outside",
		"work/dir/a.txt": "a\n", "work/dir/d.txt": "d\n", "work/dir/sub/x.txt": "a\n",
	})
	before := snapshot(t, filepath.Join(top, "outside"))
	join := func(name string) string { return filepath.Join(work, name) }
	stop := attack(func() {
		// An error means that a patch has created something with that name.
		_ = os.Rename(join("dir"), join("aside"))
		_ = os.Rename(join("link"), join("dir"))
		_ = os.Rename(join("dir"), join("link"))
		_ = os.Rename(join("aside"), join("dir"))
		time.Sleep(200 * time.Microsecond)
	})
	outcomes, last := map[Status]int{}, "dir/a.txt"
	refused := func() int { return outcomes[StatusDenied] + outcomes[StatusFailed] }
	for i := 0; i < 500 || refused() < 20 && i < 20_000; i++ {
		n := strconv.Itoa(i)
		r := call(t, work, patchOf("*** Add File: dir/new"+n+"/n.txt", "+n", "*** Add File: dir/m"+n, "+x"))
		if outcomes[r.Status]++; r.Status == StatusCompleted {
			r := call(t, work, patchOf("*** Update File: dir/m"+n, "*** Move to: dir/moved"+n, "@@", "-x", "+y", "*** Delete File: "+last))
			if outcomes[r.Status]++; r.Status == StatusCompleted {
				last = "dir/moved" + n
			}
		}
	}
	exchanges := stop()
	if d := differs(snapshot(t, filepath.Join(top, "outside")), before); d != "" {
		t.Errorf("outside was changed:\n%s", d)
	}
	// The counts depend on the machine, but each must be larger than this.
	if exchanges < 100 || outcomes[StatusCompleted] == 0 || refused() < 20 {
		t.Errorf("%d exchanges, %v: this is no attack", exchanges, outcomes)
	}
	t.Logf("%d exchanges: %v", exchanges, outcomes)
}

// The owner of the workspace can exchange the journal in the same way.
func TestExchangedJournal(t *testing.T) {
	top := inMemory(t)
	write(t, top, map[string]string{"outside/new-0": "theirs\n", "outside/old-0": "theirs\n", "outside/record": "{}"})
	before := snapshot(t, filepath.Join(top, "outside"))
	moved := 0
	for i := range 300 {
		work := filepath.Join(top, "work"+strconv.Itoa(i))
		write(t, work, map[string]string{"a.txt": "a\n", "d.txt": "d\n"})
		stop := attack(func() {
			journals, _ := filepath.Glob(filepath.Join(work, journalPrefix+"*"))
			for _, j := range journals {
				if !strings.HasSuffix(j, "x") && os.Rename(j, j+"x") == nil {
					moved++
					if err := os.Symlink("../outside", j); err != nil {
						t.Error(err)
					}
				}
			}
		})
		call(t, work, patchOf("*** Update File: a.txt", "@@", "-a", "+b", "*** Add File: n/n.txt", "+n", "*** Delete File: d.txt"))
		stop()
		if _, err := Recover(t.Context(), Directory{Path: work}); err != nil {
			t.Logf("%v", err) // the owner may break their own workspace
		}
	}
	if d := differs(snapshot(t, filepath.Join(top, "outside")), before); d != "" {
		t.Errorf("outside was changed:\n%s", d)
	}
	if moved < 30 {
		t.Errorf("%d journals were exchanged: this is no attack", moved)
	}
}

// Programs that patch at the same time wait for each other, and do not overwrite changes
// that another program makes in between.
func TestConcurrent(t *testing.T) {
	for kind, target := range targets {
		t.Run(kind, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, map[string]string{"list": "first\n"})
			tg := target(t, dir)
			n := 8
			var wg sync.WaitGroup
			for i := range n {
				wg.Go(func() {
					tg := tg
					if kind == "directory" {
						tg = Directory{Path: dir} // as in another program
					}
					r := New(Config{Target: tg}).Call(t.Context(), callArguments(t, patchOf("*** Update File: list", "@@ first", "+"+strings.Repeat("x", i+1))))
					if r.Failed() {
						t.Errorf("%+v", r)
					}
				})
			}
			wg.Wait()
			content, err := os.ReadFile(filepath.Join(dir, "list"))
			if err != nil || strings.Count(string(content), "\n") != n+1 {
				t.Errorf("%q, %v", content, err)
			}
		})
	}
}

// If another program writes to a file while a patch is applied, its change stays and the
// patch is undone.
func TestChangedMeanwhile(t *testing.T) {
	rng := moments.Seeded(t, "CORRAL_PATCH_SEED")
	for kind, times := range map[string]int{"directory": 60, "commands": 12} {
		failed := 0
		for range times {
			dir, before := makeEveryKind(t)
			at, steps, target := rng.IntN(25)+1, 0, ""
			name := []string{"change.txt", "dir/deep.txt", "run.sh", "new/added.txt"}[rng.IntN(4)]
			wrote := false
			f := faulty{targets[kind](t, dir), func(n int) error {
				// Between the last check of a file and the call that replaces it,
				// there is no protection.
				if n == at && target != name {
					err := os.WriteFile(filepath.Join(dir, name+".part"), []byte("theirs\n"), 0o644)
					if err == nil {
						err = os.Rename(filepath.Join(dir, name+".part"), filepath.Join(dir, name))
					}
					wrote = err == nil
				}
				return nil
			}, &steps, &target}
			r := New(Config{Target: f}).Call(t.Context(), callArguments(t, everyKindPatch))
			if !wrote {
				continue
			}
			got := snapshot(t, dir)
			if !strings.Contains(got[name], "theirs") {
				t.Errorf("%s, step %d, %s: %+v: %q", kind, at, name, r, got[name])
			}
			if !r.Failed() {
				continue // the other program wrote after the patch
			}
			failed++
			if r.Reason != ReasonUnavailable || !strings.Contains(r.Text(), name+" was changed by another program") {
				t.Errorf("%s, step %d, %s: %+v", kind, at, name, r)
			}
			delete(got, name)
			delete(before, name)
			delete(got, "new") // it holds the other program's file
			if d := differs(got, before); d != "" {
				t.Errorf("%s, step %d, %s (%v):\n%s", kind, at, name, r.Status, d)
			}
		}
		if failed == 0 {
			t.Errorf("%s: nobody wrote in between", kind)
		}
	}
}
