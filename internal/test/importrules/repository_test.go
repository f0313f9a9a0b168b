package importrules

import (
	"bytes"
	"encoding/json"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// What is built is what go.mod names, from where everybody gets it.
func TestModule(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "go", "mod", "edit", "-json")
	cmd.Dir = top
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v", cmd, err)
	}
	var mod struct {
		Module  struct{ Path string }
		Replace []struct{ Old, New struct{ Path string } }
	}
	if err := json.Unmarshal(out, &mod); err != nil {
		t.Fatal(err)
	}
	if mod.Module.Path != module {
		t.Errorf("the module is %s, want %s", mod.Module.Path, module)
	}
	for _, r := range mod.Replace {
		t.Errorf("go.mod replaces %s by %s", r.Old.Path, r.New.Path)
	}
}

// No dependency is copied in, and no file is too long to read in one go.
func TestFiles(t *testing.T) {
	seen := 0
	lines := map[string]int{} // by directory
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == "vendor":
			t.Errorf("%s is vendored", path)
			return fs.SkipDir
		case d.IsDir() && path != top && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".go":
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		seen++
		if bytes.HasPrefix(data, []byte("// Code generated ")) {
			return nil // nobody reads it
		}
		n := bytes.Count(data, []byte("\n"))
		if n > maxLines {
			t.Errorf("%s has %d lines, more than %d", path, n, maxLines)
		}
		dir, err := filepath.Rel(top, filepath.Dir(path))
		if err != nil {
			return err
		}
		if dir = filepath.ToSlash(dir); !strings.HasSuffix(path, "_test.go") {
			lines[dir] += n
			for above := range maxPackage {
				if below, ok := strings.CutSuffix(above, "..."); ok && strings.HasPrefix(dir+"/", below) {
					lines[above] += n
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for dir, n := range lines {
		most, own := maxPackage[dir]
		if !own {
			most = maxPackage[""]
		}
		if n > most {
			t.Errorf("%s has %d lines without tests, more than %d: a part of it is a package of its own", dir, n, most)
		}
	}
	if seen < 10 {
		t.Errorf("only %d Go files were found below %s", seen, top)
	}
}

func TestPackageDocs(t *testing.T) {
	for _, p := range list(t) {
		files := slices.Concat(p.GoFiles, p.CgoFiles)
		if len(files) == 0 { // of tests alone, or for another system
			files = slices.Concat(p.IgnoredGoFiles, p.TestGoFiles, p.XTestGoFiles)
		}
		documented := false
		for _, name := range files {
			f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.PackageClauseOnly|parser.ParseComments)
			if err != nil {
				t.Errorf("%s: %v", p.ImportPath, err)
				continue
			}
			if f.Doc == nil || f.Doc.Text() == "" { // directives alone are no text
				continue
			}
			documented = true
			if text := f.Doc.Text(); !introduces(text, f.Name.Name, filepath.Base(p.Dir)) {
				t.Errorf("%s: the package doc in %s begins with %.40q", p.ImportPath, name, text)
			}
		}
		if !documented {
			t.Errorf("%s has no package doc", p.ImportPath)
		}
	}
}

// introduces reports whether doc begins as go doc expects it: "Package x …",
// and of a command "Command x …" or "X …".
func introduces(doc, pkg, dir string) bool {
	if pkg == "main" {
		return strings.HasPrefix(doc, "Command "+dir+" ") || strings.HasPrefix(doc, strings.ToUpper(dir[:1])+dir[1:]+" ")
	}
	return strings.HasPrefix(doc, "Package "+strings.TrimSuffix(pkg, "_test")+" ")
}
