package importrules

import (
	"bytes"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

var (
	linkTarget = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	codeSpan   = regexp.MustCompile("`[^`\n]*`")
	docsPath   = regexp.MustCompile(`\bdocs/(?:[\w-]+/)*[\w-]+\.(?:md|json)\b`)
)

// pages are the documents for people: those at the root, and all of docs.
func pages(t *testing.T) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(top, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	if err := filepath.WalkDir(filepath.Join(top, "docs"), func(path string, _ fs.DirEntry, err error) error {
		if filepath.Ext(path) == ".md" {
			all = append(all, path)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// prose is a document's text without its blocks of code.
func prose(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	fenced := false
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
		} else if !fenced {
			lines = append(lines, strings.TrimRight(line, "\n"))
		}
	}
	return lines
}

// anchors are the fragments of a document's headings, as GitHub makes them.
func anchors(t *testing.T, file string) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for _, line := range prose(t, file) {
		text, ok := strings.CutPrefix(strings.TrimLeft(line, "#"), " ")
		if !ok || !strings.HasPrefix(line, "#") {
			continue
		}
		base := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, strings.TrimSpace(text))
		name := base
		for n := 1; found[name]; n++ {
			name = base + "-" + strconv.Itoa(n)
		}
		found[name] = true
	}
	return found
}

// Every relative link leads to a file of the repository, and to a heading of it.
func TestLinks(t *testing.T) {
	seen := 0
	for _, page := range pages(t) {
		for _, line := range prose(t, page) {
			for _, m := range linkTarget.FindAllStringSubmatch(codeSpan.ReplaceAllString(line, ""), -1) {
				link, err := url.Parse(m[1])
				if err != nil {
					t.Errorf("%s: %v", page, err)
					continue
				}
				if link.Scheme != "" {
					continue
				}
				seen++
				target := page
				if link.Path != "" {
					target = filepath.Join(filepath.Dir(page), filepath.FromSlash(link.Path))
				}
				if _, err := os.Stat(target); err != nil {
					t.Errorf("%s: the link to %s leads to no file", page, m[1])
				} else if link.Fragment != "" && !anchors(t, target)[link.Fragment] {
					t.Errorf("%s: the link to %s leads to no heading", page, m[1])
				}
			}
		}
	}
	if seen < 100 {
		t.Errorf("only %d links were found", seen)
	}
}

// The index of docs has a line for each page.
func TestIndex(t *testing.T) {
	docs := filepath.Join(top, "docs")
	index, err := os.ReadFile(filepath.Join(docs, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages(t) {
		name, err := filepath.Rel(docs, page)
		if err != nil {
			t.Fatal(err)
		}
		if name = filepath.ToSlash(name); name == "README.md" || strings.HasPrefix(name, "../") {
			continue
		}
		if n := bytes.Count(index, []byte("]("+name+")")); n != 1 {
			t.Errorf("docs/README.md lists %s %d times, want once", name, n)
		}
	}
}

// Pages that sources, scripts and messages name are there.
func TestPathsOfDocs(t *testing.T) {
	err := filepath.WalkDir(top, func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && file != top && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "bin"):
			return fs.SkipDir
		case d.IsDir() || !slices.Contains([]string{".go", ".sh", ".yml", ".json", ".md", ""}, filepath.Ext(file)):
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for _, path := range docsPath.FindAllString(string(text), -1) {
			if path == "docs/hello.md" { // which a patch of an example makes
				continue
			}
			if _, err := os.Stat(filepath.Join(top, filepath.FromSlash(path))); err != nil {
				t.Errorf("%s names %s, which is not there", file, path)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
