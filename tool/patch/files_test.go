//go:build unix

package patch

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A tree is the content of a directory: content, kind and permissions by name.
type tree map[string]string

func snapshot(t testing.TB, dir string) tree {
	t.Helper()
	all := tree{}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == dir {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		text := info.Mode().String()
		switch info.Mode().Type() {
		case 0:
			content, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			text += "\n" + string(content)
		case fs.ModeSymlink:
			to, err := os.Readlink(name)
			if err != nil {
				return err
			}
			text += "\n" + to
		}
		rel, err := filepath.Rel(dir, name)
		all[rel] = text
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// differs says how two trees differ; empty if they do not.
func differs(got, want tree) string {
	var lines []string
	names := maps.Clone(got)
	maps.Copy(names, want)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		g, there := got[name]
		w, wanted := want[name]
		if g != w || there != wanted {
			lines = append(lines, fmt.Sprintf("%s: %q (%t), want %q (%t)", name, g, there, w, wanted))
		}
	}
	return strings.Join(lines, "\n")
}

// write makes files of a directory. "-> to" is a symbolic link.
func write(t testing.TB, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		full := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if to, ok := strings.CutPrefix(content, "-> "); ok {
			if err := os.Symlink(to, full); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := os.WriteFile(full, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func callArguments(t testing.TB, input string) json.RawMessage {
	t.Helper()
	args, err := json.Marshal(map[string]string{"input": input})
	if err != nil {
		t.Fatal(err)
	}
	return args
}

// call applies a patch to a directory.
func call(t testing.TB, dir, input string) Result {
	t.Helper()
	return New(Config{Target: Directory{Path: dir}}).Call(context.Background(), callArguments(t, input))
}
