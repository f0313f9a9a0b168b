package filestest

import (
	"errors"
	"maps"
	"strings"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/sandbox/files"
)

func attributes(s *suite) {
	want := map[string]string{"one.tag": "a value, ü", "empty": ""}
	tag := files.WriteOptions{Attributes: want}
	if !s.Attributes {
		_, err := s.FS.Write(s.Context(), s.path("f"), strings.NewReader("x"), tag)
		s.is(err, errors.ErrUnsupported, s.path("f"))
		if got := s.in("ls -A"); got != "" {
			s.Errorf("%q was written all the same", got)
		}
		return
	}
	has := func(name string, want map[string]string, i files.Info) {
		s.Helper()
		if !maps.Equal(i.Attributes, want) {
			s.Errorf("%s has the attributes %q, want %q", name, i.Attributes, want)
		}
	}
	describe := func(name string, want map[string]string) {
		s.Helper()
		i, err := s.FS.Stat(s.Context(), s.path(name))
		if err != nil {
			s.Fatal(err)
		}
		has(name, want, i)
	}
	has("f", want, s.write("f", "x", tag))
	describe("f", want)
	s.in("mv f g && ln -s g link && mkdir d")
	page, err := s.FS.List(s.Context(), s.Root, files.ListOptions{})
	if err != nil || len(page.Entries) != 3 {
		s.Fatalf("%+v, %v", page, err)
	}
	has("d", nil, page.Entries[0])
	has("g", want, page.Entries[1])
	has("link", nil, page.Entries[2])
	s.write("read-only", "x", files.WriteOptions{Mode: 0o400, Attributes: want})
	describe("read-only", want)

	if _, err := files.Copy(s.Context(), s.FS, s.path("g"), s.FS, s.path("copy"), files.Limits{}); err != nil {
		s.Fatal(err)
	}
	describe("copy", want)
	has("g", nil, s.write("g", "again", files.WriteOptions{}))
	describe("g", nil)

	for _, bad := range []map[string]string{
		{"": "x"}, {"a=b": "x"}, {"a\x00b": "x"}, {strings.Repeat("a", 251): "x"}, {"a": "\xff"}, {"a": strings.Repeat("x", files.MaxAttributes)},
	} {
		_, err := s.FS.Write(s.Context(), s.path("bad"), strings.NewReader("x"), files.WriteOptions{Attributes: bad})
		s.is(err, corral.ErrInvalid, "")
	}
	if got := s.in("ls -A; cat g copy"); got != "copy\nd\ng\nlink\nread-only\nagainx" {
		s.Errorf("there is %q", got)
	}
}
