package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/corral-exec/corral/internal/state/atomicfile"
)

// Every bit of a signed line that flips is seen, or changes nothing but whether the
// line is signed.
func TestCheck(t *testing.T) {
	content := []byte(`E a-1 {"id":"a-1","exit":{"code":3}`)
	line := Sign(append(bytes.Clone(content), '}'))
	if signed, err := Check(line); !signed || err != nil {
		t.Fatalf("%s: %v, %v", line, signed, err)
	}
	if _, rest, _ := strings.Cut(string(line), " a-1 "); !json.Valid([]byte(rest)) {
		t.Fatalf("%s is no JSON", rest)
	}
	if signed, err := Check(append(bytes.Clone(content), '}')); signed || err != nil {
		t.Fatalf("an unsigned line: %v, %v", signed, err)
	}
	for i := range line {
		for bit := range 8 {
			damaged := bytes.Clone(line)
			damaged[i] ^= 1 << bit
			if signed, err := Check(damaged); err == nil && (signed || !bytes.HasPrefix(damaged, content)) {
				t.Errorf("%s passes", damaged)
			}
		}
	}
	for i := range line { // unsigned, and no JSON
		if _, err := Check(line[:i]); err == nil && json.Valid(line[min(i, len("E a-1 ")):i]) {
			t.Errorf("%s passes", line[:i])
		}
	}
}

// Files kept aside are never overwritten.
func TestKeep(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	seen := map[string]bool{}
	for range 20 {
		var d Damage
		d.Add([]byte(`S tall-owl 7`))
		d.Add([]byte(`{"op":"end","id":"glad-fox","x`))
		if ids := d.IDs(); len(ids) != 2 || ids[0] != "tall-owl" || ids[1] != "glad-fox" || d.Size() != 42 {
			t.Errorf("%v, %d", ids, d.Size())
		}
		file, err := d.Keep(root, "journal")
		if err != nil {
			t.Fatal(err)
		}
		if seen[file] || !strings.HasPrefix(filepath.Base(file), "journal"+Infix) {
			t.Fatalf("%s again", file)
		}
		seen[file] = true
		if got, err := os.ReadFile(file); err != nil || !strings.HasPrefix(string(got), "S tall-owl 7\n{") {
			t.Errorf("%s, %v", got, err)
		}
	}
}

func TestFileOfOneObject(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.json")
	type object struct{ Text string }
	if err := ReadFile(path, 100, new(object)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	if err := WriteFile(path, object{"abc"}, atomicfile.Options{}); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		content string
		limit   int64
		fails   string // what is in the error
	}{
		{"as written", string(content), int64(len(content)), ""},
		{"too long", string(content), int64(len(content)) - 1, "more than"},
		{"another text", strings.Replace(string(content), "abc", "abd", 1), 100, ErrSum.Error()},
		{"without a checksum", `{"Text":"abc"}`, 100, ""},
		{"cut", string(content[:len(content)/2]), 100, "unexpected end"},
		{"empty", "", 100, "unexpected end"},
	} {
		if err := os.WriteFile(path, []byte(c.content), 0o600); err != nil {
			t.Fatal(err)
		}
		var got object
		err := ReadFile(path, c.limit, &got)
		if c.fails == "" && (err != nil || got.Text != "abc") || c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)) {
			t.Errorf("%s: %+v, %v", c.name, got, err)
		}
	}
}

func FuzzCheck(f *testing.F) {
	f.Add([]byte(`{"op":"start"}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		_, _ = Check(line)
		d := Damage{Pieces: [][]byte{line}}
		_ = d.IDs()
		if signed, err := Check(Sign(line)); !signed || err != nil {
			t.Errorf("%q: %v, %v", line, signed, err)
		}
	})
}
