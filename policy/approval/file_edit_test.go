package approval

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/corral-exec/corral/policy"
)

// What a person writes to the file while Corral changes it is not lost.
func TestEditedMeanwhile(t *testing.T) {
	const edited = `{"version": 1, "agents": {"*": {"denylist": ["rm"]}}}`
	for _, before := range []string{"", `{"version": 1}`} {
		f := newFile(t, before)
		meanwhile := func() {
			if before != edited {
				ok(t, os.WriteFile(f.Path(), []byte(edited), 0o600))
			}
			before = edited
		}
		ok(t, f.edit(func(d *document) error {
			meanwhile()
			list, err := d.listOf("main", policy.Allow)
			if err == nil {
				list.items = append(list.items, newNode("/bin/ls"))
			}
			return err
		}))
		h, err := f.Rules("")
		if err != nil || len(h.Rules) != 2 || h.Rules[0].Pattern != "rm" || h.Rules[1].Pattern != "/bin/ls" {
			t.Errorf("%+v, %v", h.Rules, err)
		}
	}
}

// A change that changes nothing writes nothing.
func TestNothingToChange(t *testing.T) {
	const text = `{"version": 1, "agents": {"main": {"allowlist": ["/bin/ls"]}}}`
	f := newFile(t, text)
	if n, err := f.Remove("mian", policy.Deny, "rm"); n != 0 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if now, err := os.ReadFile(f.Path()); err != nil || string(now) != text {
		t.Errorf("a rule that is not there was removed: %s, %v", now, err)
	}
	// The use of a rule of a file that is gone makes no new file.
	h, err := f.Rules("")
	ok(t, err)
	f.Used("ls", policy.Decision{Segments: []policy.Segment{{Rule: &h.Rules[0], Path: "/bin/ls"}}})
	ok(t, os.Remove(f.Path()))
	ok(t, f.Flush())
	if n, err := f.Remove("main", policy.Allow, "/bin/ls"); n != 0 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if _, err := os.Stat(f.Path()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("there is a file again: %v", err)
	}
}

// The time to read a file grows with its size, and not with the square of it.
func TestLargeFile(t *testing.T) {
	names, rules := make([]string, 100_000), make([]string, 50_000)
	for i := range names {
		names[i] = fmt.Sprintf("%q:0", fmt.Sprint("x", i))
	}
	for i := range rules {
		rules[i] = fmt.Sprintf("%q", fmt.Sprint("/opt/bin/tool-", i))
	}
	for what, text := range map[string]string{
		"names": `{"version": 1, "extra": {` + strings.Join(names, ",\n") + `}}`,
		"rules": `{"version": 1, "agents": {"main": {"allowlist": [` + strings.Join(rules, ",\n") + `]}}}`,
	} {
		begun := time.Now()
		if _, err := read("file", []byte(text)); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if took := time.Since(begun); took > 10*time.Second {
			t.Errorf("%s: %d bytes take %v", what, len(text), took)
		}
	}
}
