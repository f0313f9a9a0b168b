//go:build unix

package patch

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/corral-exec/corral/internal/test/moments"
)

// A model is the expected files, with their lines. All lines differ.
type model map[string]modelFile

type modelFile struct {
	lines []string
	crlf  bool
	open  bool // the last line has no end
}

func (f modelFile) String() string {
	end := "\n"
	if f.crlf {
		end = "\r\n"
	}
	text := strings.Join(f.lines, end)
	if len(f.lines) > 0 && !f.open {
		text += end
	}
	return text
}

// A writer makes random patches for a model, and applies them to the model.
type writer struct {
	*rand.Rand
	files model
	lines []string // of the patch
	count int
}

// line is a text that no other line has.
func (w *writer) line() string {
	w.count++
	return strings.Repeat(" ", w.IntN(3)) + []string{"x", "- ", "+", "@@ ", "*** Add File: ", "é – “", ""}[w.IntN(7)] + fmt.Sprint("line ", w.count)
}

func (w *writer) name(exists bool) (string, bool) {
	var names []string
	for _, n := range []string{"a", "b b", "c.txt", "d/a", "d/b", "e/f/g", "e/f/h", "e/i", "-j", "k/l/m/n", "o", "p", "q/r"} {
		if _, ok := w.files[n]; ok == exists {
			names = append(names, n)
		}
	}
	if len(names) == 0 {
		return "", false
	}
	return names[w.IntN(len(names))], true
}

func (w *writer) put(lines ...string) { w.lines = append(w.lines, lines...) }

// hunk writes a hunk that fits.
func (w *writer) hunk() {
	switch w.IntN(6) {
	case 0, 1:
		if name, ok := w.name(false); ok {
			var f modelFile
			w.put("*** Add File: " + name)
			for range w.IntN(12) {
				f.lines = append(f.lines, w.line())
				w.put("+" + f.lines[len(f.lines)-1])
			}
			w.files[name] = f
		}
	case 2:
		if name, ok := w.name(true); ok {
			w.put("*** Delete File: " + name)
			delete(w.files, name)
		}
	default:
		w.update()
	}
}

// update writes changes of a file, in its order.
func (w *writer) update() {
	name, ok := w.name(true)
	to, free := w.name(false)
	if !ok {
		return
	}
	f := w.files[name]
	w.put("*** Update File: " + name)
	target := name
	if free && w.IntN(4) == 0 {
		w.put("*** Move to: " + to)
		target = to
	}
	start := len(w.lines)
	var out []string
	at := 0
	for at < len(f.lines) && w.IntN(4) > 0 {
		from := at + w.IntN(len(f.lines)-at)
		before, removed, after := w.IntN(min(from-at, 3)+1), 0, 0
		if rest := len(f.lines) - from; rest > 0 {
			removed = w.IntN(min(rest, 3) + 1)
			after = w.IntN(min(rest-removed, 3) + 1)
		}
		if before+removed+after == 0 {
			continue
		}
		out = append(out, f.lines[at:from]...)
		mark := "@@"
		if c := from - before; c > at && w.IntN(3) == 0 {
			mark += " " + f.lines[at+w.IntN(c-at)]
		}
		w.put(mark)
		for _, l := range f.lines[from-before : from] {
			w.put(" " + l)
		}
		for _, l := range f.lines[from : from+removed] {
			w.put("-" + l)
		}
		for range w.IntN(3) {
			out = append(out, w.line())
			w.put("+" + out[len(out)-1])
		}
		at = from + removed + after
		for _, l := range f.lines[from+removed : at] {
			w.put(" " + l)
		}
		out = append(out, f.lines[from+removed:at]...)
		if at == len(f.lines) && w.IntN(2) == 0 {
			w.put("*** End of File")
		}
	}
	out = append(out, f.lines[at:]...)
	switch {
	case len(w.lines) == start && target == name:
		added := w.line()
		w.put("@@", "+"+added)
		out = append(out, added)
	case len(w.lines) == start: // only moved
		w.files[target] = f
		delete(w.files, name)
		return
	}
	f.lines, f.open = out, false
	f.crlf = f.crlf && len(out) > 0
	delete(w.files, name)
	w.files[target] = f
}

// spoil adds something to the patch that does not fit.
func (w *writer) spoil() {
	bad := [][]string{
		{"*** Delete File: none"},
		{"*** Update File: none", "@@", "+x"},
		{"*** Add File: ../x", "+x"},
		{"*** Add File: a/b/c/\x01", "+x"},
		{"*** Rename File: a"},
	}
	if name, ok := w.name(true); ok {
		bad = append(bad,
			[]string{"*** Add File: " + name, "+x"},
			[]string{"*** Update File: " + name, "@@", "-no such line", "+x"},
			[]string{"*** Update File: " + name, "@@ no such context", "+x"},
			[]string{"*** Add File: " + name + "/below", "+x"},
			[]string{"*** Delete File: d"})
	}
	w.put(bad[w.IntN(len(bad))]...)
	for range w.IntN(2) {
		w.hunk()
	}
}

// inMemory is a directory in memory, if the machine has one.
func inMemory(t *testing.T) string {
	const shm = "/dev/shm"
	if info, err := os.Stat(shm); err != nil || !info.IsDir() {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp(shm, "corral-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func onlyFiles(t tree) tree {
	files := tree{}
	for name, text := range t {
		if !strings.HasPrefix(text, "d") {
			_, files[name], _ = strings.Cut(text, "\n")
		}
	}
	return files
}

func (m model) tree() tree {
	all := tree{}
	for name, f := range m {
		all[name] = f.String()
	}
	return all
}

// Random patches do what the model says. If a patch does not fit, or its program dies,
// all of it is applied or none.
func TestRandomPatches(t *testing.T) {
	patches := 10_000
	if testing.Short() {
		patches = 1000
	}
	dir := inMemory(t)
	w := &writer{Rand: moments.Seeded(t, "CORRAL_PATCH_SEED"), files: model{}}
	seen := map[string]int{}
	for range patches {
		if w.IntN(40) == 0 {
			w.foreign(t, dir)
		}
		old := maps.Clone(w.files)
		before := snapshot(t, dir)
		w.lines = nil
		for range 1 + w.IntN(4) {
			w.hunk()
		}
		if len(w.lines) == 0 {
			continue
		}
		kind := []string{"fits", "spoilt", "dies", "dry"}[max(0, w.IntN(10)-6)]
		steps, death := 0, w.IntN(40)
		cfg := Config{Target: Directory{Path: dir}, DryRun: kind == "dry"}
		switch kind {
		case "spoilt":
			w.spoil()
		case "dies":
			cfg.Target = faulty{cfg.Target, func(n int) error {
				if n > death {
					return errDead
				}
				return nil
			}, &steps, nil}
		}
		text := patchOf(w.lines...)
		r := New(cfg).Call(t.Context(), callArguments(t, text))
		if kind == "dies" {
			if _, err := Recover(t.Context(), Directory{Path: dir}); err != nil {
				t.Fatal(err)
			}
		}
		after := snapshot(t, dir)
		want := onlyFiles(after)
		switch {
		case kind == "spoilt" && !r.Failed(), kind == "fits" && r.Failed(), kind == "dry" && r.Failed():
			t.Fatalf("%s: %+v\n%s", kind, r, text)
		case kind == "spoilt", kind == "dry", kind == "dies" && differs(want, w.files.tree()) != "":
			w.files = old
			if d := differs(after, before); d != "" {
				t.Fatalf("%s: %v\n%s\n%s", kind, r.Text(), d, text)
			}
			kind += ", nothing"
		default:
			if d := differs(want, w.files.tree()); d != "" {
				t.Fatalf("%s: %v\n%s\n%s", kind, r.Text(), d, text)
			}
		}
		seen[kind]++
	}
	t.Log(seen)
	if len(seen) < 5 {
		t.Errorf("%v: not everything was tried", seen)
	}
}

// foreign gives a file properties that other programs leave, such as other line ends.
func (w *writer) foreign(t *testing.T, dir string) {
	names := slices.Sorted(maps.Keys(w.files))
	if len(names) == 0 {
		return
	}
	name := names[w.IntN(len(names))]
	f := w.files[name]
	f.crlf, f.open = w.IntN(2) == 0, len(f.lines) > 0 && w.IntN(2) == 0
	if len(f.lines) == 0 || len(f.lines) == 1 && f.open {
		f.crlf = false // without lines, the line end is not known
	}
	w.files[name] = f
	if err := os.WriteFile(filepath.Join(dir, name), []byte(f.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}
