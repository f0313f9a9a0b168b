package json5

import (
	"strings"
	"testing"
)

func mustPath(t *testing.T, text string) Path {
	t.Helper()
	p, err := ParsePath(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Only what is meant changes; what is new looks like what is there.
func TestSet(t *testing.T) {
	for _, tc := range []struct{ name, text, path, value, want string }{
		{"replace", "{ // c\n  a: 1, // one\n}\n", "a", "[2]", "{ // c\n  a: [2], // one\n}\n"},
		{"replace all", " 1 // c\n", "", "{}", " {} // c\n"},
		{"replace element", "[1, /*b*/ 2]", "[1]", "3", "[1, /*b*/ 3]"},
		{"add to lines", "{\n  a: 1, // one\n}\n", "b", "2", "{\n  a: 1, // one\n  b: 2,\n}\n"},
		{"add to lines without a comma", "{\n  a: 1 // one\n  // end\n}\n", "b", "2", "{\n  a: 1, // one\n  b: 2\n  // end\n}\n"},
		{"add with a comma after a comment", "{\n  a: 1 /*x*/ , // one\n}", "b", "2", "{\n  a: 1 /*x*/ , // one\n  b: 2,\n}"},
		{"add after a long comment", "{\n  a: 1, /* one\n two */\n}", "b", "2", "{\n  a: 1,\n  b: 2, /* one\n two */\n}"},
		{"add to a line", "{a: 1}", "b", "2", "{a: 1, b: 2}"},
		{"add to a line with a comma", "{a: 1,}", "b", "2", "{a: 1, b: 2}"},
		{"add to JSON", "{\n\t\"a\": 1\n}", "b", "2", "{\n\t\"a\": 1,\n\t\"b\": 2\n}"},
		{"add to nothing", "{}", "a.b", "1", "{\n  a: { b: 1 },\n}"},
		{"add to nothing inside", "{a: {}}", "a.b", "1", "{a: { b: 1 }}"},
		{"add to comments", "{\n  // a: 1,\n}\n", "b", "2", "{\n  // a: 1,\n  b: 2,\n}\n"},
		{"add to comments inside", "{\n  a: {\n    // x\n  },\n}\n", "a.b", "2", "{\n  a: {\n    // x\n    b: 2,\n  },\n}\n"},
		{"add objects between", "{\n  a: 1,\n}", "tools.exec.node", "'n'", "{\n  a: 1,\n  tools: { exec: { node: 'n' } },\n}"},
		{"add a list between", "{\n  a: 1,\n}", "l[0].x", "1", "{\n  a: 1,\n  l: [{ x: 1 }],\n}"},
		{"append", "[1, 2]", "[2]", "3", "[1, 2, 3]"},
		{"append to nothing", "{a: []}", "a[0]", "3", "{a: [3]}"},
		{"append to lines", "{\n  a: [\n    1,\n    2\n  ]\n}", "a[2]", "3", "{\n  a: [\n    1,\n    2,\n    3\n  ]\n}"},
		{"two on a line", "{\n  a: 1, b: 2\n}", "c", "3", "{\n  a: 1, b: 2, c: 3\n}"},
		{"CR LF", "{\r\n  a: 1,\r\n}\r\n", "b", "2", "{\r\n  a: 1,\r\n  b: 2,\r\n}\r\n"},
		{"odd key", "{a: 1}", `["b.c"]`, "2", `{a: 1, "b.c": 2}`},
		{"value with a comment at its end", "{a: 1}", "b", "2 // two", "{a: 1, b: 2 // two\n}"},
		{"value that is no comment", "{a: 1}", "a", "'http://b'", "{a: 'http://b'}"},
		{"value of several lines", "{a: 1}", "a", "\n[\n 1,\n]\n", "{a: [\n 1,\n]}"},
	} {
		d, err := Parse([]byte(tc.text))
		if err != nil {
			t.Fatal(err)
		}
		got, err := d.Set(mustPath(t, tc.path), tc.value)
		if err != nil || string(got) != tc.want {
			t.Errorf("%s:\n%s\n%v; want\n%s", tc.name, got, err, tc.want)
		}
		if string(d.Data) != tc.text {
			t.Errorf("%s: the document has changed", tc.name)
		}
	}
}

func TestSetRefuses(t *testing.T) {
	d, err := Parse([]byte("{a: 'x', l: [1], n: null}"))
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ path, value, says string }{
		{"a", "y z", "the value is not JSON5: 1:1"}, {"a", "", "not JSON5"}, {"a", "1, b: 2", "not JSON5"}, {"a", "1 /*", "not JSON5"},
		{"a.b", "1", "a: it is a string and has no keys"}, {"a[0]", "1", "a: it is a string and has no elements"}, {"[0]", "1", "the document: it is an object and has no elements"},
		{"l[2]", "1", "l: it has 1 elements; [1] would be the next one"}, {"l.x", "1", "l: it is an array and has no keys"}, {"n.x", "1", "n: it is null"},
		{"m[3]", "1", "m: it is not there; [0] would be its first element"}, {"m[0].x[1]", "1", "m[0].x: it is not there"}, {"l[1][2]", "1", "l[1]: it is not there"},
	} {
		if got, err := d.Set(mustPath(t, tc.path), tc.value); err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s = %s: %s, %v", tc.path, tc.value, got, err)
		}
	}
}

func TestRemove(t *testing.T) {
	for _, tc := range []struct{ text, path, want string }{
		{"{\n  a: 1, // one\n  b: 2,\n}", "b", "{\n  a: 1, // one\n}"},
		{"{\n  a: 1,\n  b: 2,\n}", "a", "{\n  b: 2,\n}"},
		{"{\n  \"a\": 1,\n  \"b\": 2\n}", "b", "{\n  \"a\": 1\n}"},
		{"{a: 1, b: 2}", "b", "{a: 1}"}, {"{a: 1, b: 2}", "a", "{ b: 2}"}, {"[1, 2, 3]", "[1]", "[1, 3]"}, {"{a: 1}", "a", "{}"}, {"{a: 1 , }", "a", "{ }"},
		{"{a: 1}", "b", "{a: 1}"}, {"{a: 1}", "b.c", "{a: 1}"}, {"{a: 1}", "[0]", "{a: 1}"}, {"[1]", "[1]", "[1]"}, {"[1]", "a", "[1]"},
	} {
		d, err := Parse([]byte(tc.text))
		if err != nil {
			t.Fatal(err)
		}
		got, err := d.Remove(mustPath(t, tc.path))
		if err != nil || string(got) != tc.want {
			t.Errorf("%q without %s: %q, %v; want %q", tc.text, tc.path, got, err, tc.want)
		}
	}
	d, err := Parse([]byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Remove(nil); err == nil {
		t.Error("the whole document was removed")
	}
}

func TestPaths(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "a": "a", "agents.list[0].tools": "agents.list[0].tools", "[1][2]": "[1][2]", `a["b.c"].d`: `a["b.c"].d`, `["x"]`: "x", `a["q\"]"]`: `a["q\"]"]`, "a[007]": "a[7]",
	} {
		p, err := ParsePath(text)
		if err != nil || p.String() != want {
			t.Errorf("%s: %v, %v", text, p, err)
		}
	}
	for _, text := range []string{".", "a.", ".a", "a..b", "a[", "a[]", "a[x]", "a[-1]", "a[1", "a[1]b", `a["b]`, `a["b"`, `a[""]`, `a['b']`, "a[9999999]", "a[1e3]", strings.Repeat("a.", MaxDepth) + "a"} {
		if p, err := ParsePath(text); err == nil {
			t.Errorf("%.40s is %v", text, p)
		}
	}
}
