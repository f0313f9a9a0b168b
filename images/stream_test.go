package images

import (
	"errors"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestReadStream(t *testing.T) {
	long := strings.Repeat("x", maxLine)
	for _, tt := range []struct {
		name, in string
		messages int
		err      string
	}{
		{"nothing", "", 0, ""},
		{"empty lines", "\r\n\n \n", 0, ""},
		{"messages", "{\"status\":\"a\"}\r\n{\"status\":\"b\"}", 2, ""},
		{"failure after a message", "{\"status\":\"a\"}\n{\"error\":\"no\"}\n{\"status\":\"b\"}", 1, "no"},
		{"failure without a word", "{\"errorDetail\":{}}", 0, "does not say why"},
		{"detail beats summary", `{"errorDetail":{"message":"detail"},"error":"summary"}`, 0, "detail"},
		{"no object", "[1]", 0, "something else"},
		{"cut short", `{"status":"a`, 0, "something else"},
		{"too long", `{"status":"` + long + `"}`, 0, "a line of more than"},
	} {
		n := 0
		err := readStream(strings.NewReader(tt.in), func(message) { n++ })
		if n != tt.messages || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: %d messages, %v", tt.name, n, err)
		}
	}
}

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"plain":                                    "plain",
		" two\t lines\r\n":                         "two lines",
		"\x1b[31mred\x1b[0m\a":                     "[31mred[0m",
		"a\u202eb\x00c\xff":                        "abc",
		"Get http://me:secret@host/x failed":       "Get http://***@host/x failed",
		"\x1bhttp:/\x1b/me:secret@host":            "http://***@host",
		"0123456789012345678901234567890123456789": "01234567890123456789012345678901234567…",
	} {
		if got := clean(in, 39); got != want {
			t.Errorf("clean(%q) = %q, want %q", in, got, want)
		}
	}
}

func FuzzReadStream(f *testing.F) {
	f.Add([]byte("{\"status\":\"Downloading\",\"id\":\"a\",\"progressDetail\":{\"current\":-1,\"total\":5}}\r\n{\"error\":\"x\"}"))
	f.Add([]byte(`{"status":"\u001b[2J http://a:b@c","progressDetail":{"current":9,"total":5}}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		check := func(what, s string, limit int) {
			if !utf8.ValidString(s) || utf8.RuneCountInString(s) > limit || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
				t.Errorf("%s %q", what, s)
			}
		}
		n := 0
		err := readStream(strings.NewReader(string(in)), func(m message) {
			n++
			check("status", m.Status, maxText)
			check("item", m.Item, maxItem)
			if m.Current < 0 || m.Total < 0 || m.Total > 0 && m.Current > m.Total {
				t.Errorf("%d of %d", m.Current, m.Total)
			}
		})
		if failure := (*streamError)(nil); errors.As(err, &failure) {
			check("error", failure.text, maxText)
			if failure.text == "" {
				t.Error("a failure without a text")
			}
		}
		if lines := strings.Count(string(in), "\n") + 1; n > lines {
			t.Errorf("%d messages in %d lines", n, lines)
		}
	})
}
