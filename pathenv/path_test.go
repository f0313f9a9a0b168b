package pathenv

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/corral-exec/corral"
)

func TestSplit(t *testing.T) {
	tests := []struct {
		path string
		want []string
	}{
		{"", nil},
		{" ", nil},
		{"::", nil},
		{"/a", []string{"/a"}},
		{"/a:/b:/a", []string{"/a", "/b", "/a"}},
		{":/a::/b:", []string{"/a", "/b"}},
		{" /a :\t/b\n", []string{"/a", "/b"}},
		{"/a b:.:bin", []string{"/a b", ".", "bin"}},
	}
	for _, test := range tests {
		if got := split(test.path, ":"); !slices.Equal(got, test.want) {
			t.Errorf("split(%q) = %q, want %q", test.path, got, test.want)
		}
	}
	if got := split(`C:\a; D:\b;;`, ";"); !slices.Equal(got, []string{`C:\a`, `D:\b`}) {
		t.Errorf("split of a Windows PATH = %q", got)
	}
}

func TestMerge(t *testing.T) {
	got := Merge([]string{"/a", "", "/b "}, nil, []string{"/b", "/a", " ", "/c"})
	if want := []string{"/a", "/b ", "/b", "/c"}; !slices.Equal(got, want) {
		t.Errorf("Merge = %q, want %q", got, want)
	}
}

func TestMergeProperties(t *testing.T) {
	dir := rapid.SampledFrom([]string{"", " ", "/a", "/b", "/c", "/d", "/a "})
	rapid.Check(t, func(t *rapid.T) {
		lists := rapid.SliceOf(rapid.SliceOf(dir)).Draw(t, "lists")
		merged := Merge(lists...)
		if again := Merge(merged); !slices.Equal(again, merged) {
			t.Errorf("merged again: %q, want %q", again, merged)
		}
		var all []string
		for _, list := range lists {
			all = append(all, list...)
		}
		last := -1
		for _, dir := range merged {
			i := slices.Index(all, dir)
			if i <= last {
				t.Errorf("%q is out of order in %q", dir, merged)
			}
			last = i
		}
		for _, dir := range all {
			if (strings.TrimSpace(dir) != "") != slices.Contains(merged, dir) {
				t.Errorf("Merge(%q) = %q, wrong about %q", lists, merged, dir)
			}
		}
	})
}

func TestPrependDirs(t *testing.T) {
	tests := []struct {
		entries []string
		home    string
		want    []string
		wrong   string
	}{
		{entries: nil, home: "/h"},
		{entries: []string{"~/bin", " /opt/bin ", "", "~", "/opt/bin"}, home: "/h", want: []string{"/h/bin", "/opt/bin", "/h"}},
		{entries: []string{"~/bin"}, home: "/h/", want: []string{"/h/bin"}},
		{entries: []string{"~", "~/bin"}, home: "/", want: []string{"/", "/bin"}},
		{entries: []string{"/a/~/b", "a~"}, home: "/h", want: []string{"/a/~/b", "a~"}},
		{entries: []string{"~root/bin"}, home: "/h", wrong: `"~root/bin"`},
		{entries: []string{"~/bin"}, wrong: "home directory is not known"},
		{entries: []string{"/a", "/b:/c"}, home: "/h", wrong: `pathPrepend[1] is "/b:/c"`},
		{entries: []string{"/a\x00b"}, home: "/h", wrong: "NUL"},
	}
	for _, test := range tests {
		got, err := PrependDirs(test.entries, test.home)
		switch {
		case test.wrong == "" && (err != nil || !slices.Equal(got, test.want)):
			t.Errorf("PrependDirs(%q, %q) = %q, %v; want %q", test.entries, test.home, got, err, test.want)
		case test.wrong != "" && (!errors.Is(err, corral.ErrInvalid) || !strings.Contains(err.Error(), test.wrong)):
			t.Errorf("PrependDirs(%q, %q) = %q, %v; want ErrInvalid with %s", test.entries, test.home, got, err, test.wrong)
		}
	}
}

func TestDefaultPath(t *testing.T) {
	for goos, want := range map[string]string{
		"linux":   "/usr/local/bin:/usr/bin:/bin",
		"freebsd": "/usr/local/bin:/usr/bin:/bin",
		"darwin":  "/opt/homebrew/bin:/usr/local/bin:/usr/bin:/bin",
	} {
		if got := DefaultPath(goos); got != want {
			t.Errorf("DefaultPath(%s) = %s, want %s", goos, got, want)
		}
	}
}
