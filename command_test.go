package corral_test

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/decided"
)

func TestCommandValidate(t *testing.T) {
	ok := corral.Command{Shell: "true"}
	big := strings.Repeat("x", corral.MaxCommandBytes)
	for _, tc := range []struct {
		name   string
		change func(*corral.Command)
		want   string // part of the error; empty: valid
	}{
		{"shell", nil, ""},
		{"arguments", func(c *corral.Command) { c.Shell, c.Args = "", []string{"ls", ""} }, ""},
		{"everything", func(c *corral.Command) {
			c.ID, c.Dir, c.Env, c.PathPrepend = "a.b-c_D9", "/tmp", map[string]string{"A": "", "B": "x=y\nz"}, []string{"/opt/bin"}
			c.Timeout, c.Grace, c.TTY = time.Hour, -1, &corral.Size{}
		}, ""},
		{"neither", func(c *corral.Command) { c.Shell = "" }, "the command is empty"},
		{"blank", func(c *corral.Command) { c.Shell = " \t\n\u3000" }, "the command is empty"},
		{"empty argument list", func(c *corral.Command) { c.Shell, c.Args = "", []string{} }, "the command is empty"},
		{"both", func(c *corral.Command) { c.Args = []string{"ls"} }, "both shell text and an argument list"},
		{"nameless program", func(c *corral.Command) { c.Shell, c.Args = "", []string{""} }, "program's name is empty"},
		{"bad ID", func(c *corral.Command) { c.ID = "../x" }, `id "../x" has '.' at position 0`},
		{"negative time-out", func(c *corral.Command) { c.Timeout = -1 }, "time-out -1ns is negative"},
		{"negative log", func(c *corral.Command) { c.Log.Tail = -1 }, "no log can have the limit 0+-1"},
		{"NUL in the text", func(c *corral.Command) { c.Shell = "a\x00b" }, "the command has a NUL byte at position 1"},
		{"NUL in the directory", func(c *corral.Command) { c.Dir = "\x00" }, "the working directory has a NUL"},
		{"NUL in an argument", func(c *corral.Command) { c.Shell, c.Args = "", []string{"ls", "a\x00"} }, "argument 1 has a NUL"},
		{"NUL in a name", func(c *corral.Command) { c.Env = map[string]string{"A\x00": ""} }, "environment variable has a NUL"},
		{"NUL in a value", func(c *corral.Command) { c.Env = map[string]string{"A": "\x00"} }, "environment variable A has a NUL"},
		{"NUL on PATH", func(c *corral.Command) { c.PathPrepend = []string{"/a", "/\x00"} }, "pathPrepend[1] has a NUL"},
		{"nameless variable", func(c *corral.Command) { c.Env = map[string]string{"": "x"} }, `"" is not the name`},
		{"variable with =", func(c *corral.Command) { c.Env = map[string]string{"A=B": "x"} }, `"A=B" is not the name`},
		{"colon on PATH", func(c *corral.Command) { c.PathPrepend = []string{"/a:/b"} }, `pathPrepend[0] is "/a:/b"`},
		{"too big", func(c *corral.Command) { c.Env = map[string]string{"A": big} }, "more than 2097152"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := ok
			if tc.change != nil {
				tc.change(&c)
			}
			err := c.Validate()
			switch {
			case tc.want == "":
				if err != nil {
					t.Error(err)
				}
			case !errors.Is(err, corral.ErrInvalid) || !strings.Contains(err.Error(), tc.want) || corral.Hint(err) == "":
				t.Errorf("error %v, hint %q; want %q", err, corral.Hint(err), tc.want)
			}
		})
	}
}

func TestValidateID(t *testing.T) {
	for _, id := range []string{"a", "9", "_", "A.b-c_0", strings.Repeat("x", 64), "a..", "_.."} {
		if err := corral.ValidateID(id); err != nil {
			t.Error(err)
		}
	}
	for _, id := range []string{"", ".", "..", ".a", "-a", "a/b", "a b", "a\x00", "ä", "a\n", strings.Repeat("x", 65)} {
		if err := corral.ValidateID(id); !errors.Is(err, corral.ErrInvalid) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v", id, err)
		}
	}
}

// An ID is a file name, and one argument that no program takes for a flag.
func TestValidIDIsAFileName(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.String().Draw(t, "id")
		if corral.ValidateID(id) == nil && (strings.ContainsAny(id, "/\\ \x00\n*?") || strings.HasPrefix(id, ".") || strings.HasPrefix(id, "-")) {
			t.Fatalf("%q is valid", id)
		}
	})
}

func TestLogLimit(t *testing.T) {
	const most = 1<<62 - 1
	for _, l := range []corral.LogLimit{{}, {Head: 1}, {Tail: most}, {Head: most, Tail: most}} {
		if err := (corral.Command{Shell: "true", Log: l}).Validate(); err != nil {
			t.Errorf("%+v: %v", l, err)
		}
	}
	for _, l := range []corral.LogLimit{{Head: -1}, {Head: 10, Tail: -5}, {Head: most + 1}, {Tail: math.MaxInt64}} {
		if err := (corral.Command{Shell: "true", Log: l}).Validate(); !errors.Is(err, corral.ErrInvalid) || corral.Hint(err) == "" {
			t.Errorf("%+v: %v", l, err)
		}
	}
}

func TestNewID(t *testing.T) {
	a, b := corral.NewID(), corral.NewID()
	if a == b || corral.ValidateID(a) != nil || len(a) < 26 {
		t.Errorf("%q, %q", a, b)
	}
}

func TestParseHost(t *testing.T) {
	for _, h := range []corral.Host{"", corral.HostSandbox, corral.HostGateway, corral.HostNode} {
		if got, err := corral.ParseHost(string(h)); got != h || err != nil {
			t.Errorf("%q: %q, %v", h, got, err)
		}
	}
	for _, s := range []string{"auto", "Sandbox", " node", "gateway\n"} {
		if got, err := corral.ParseHost(s); got != "" || !errors.Is(err, corral.ErrInvalid) {
			t.Errorf("%q: %q, %v", s, got, err)
		}
	}
}

// Each field that changes the effect of a command is in its digest.
func TestCommandDigest(t *testing.T) {
	plain := corral.Command{Shell: "true"}
	ignored := map[string]bool{"Description": true, "ID": true, "Host": true, "Node": true, "Elevated": true, "Security": true, "Ask": true, "Approval": true, "Domain": true, "Decided": true}
	seen := map[string]string{plain.Digest(): "nothing"}
	add := func(name string, c corral.Command) {
		t.Helper()
		d := c.Digest()
		if other, ok := seen[d]; ok {
			t.Errorf("%s and %s have the same digest", name, other)
		}
		seen[d] = name
	}
	typ := reflect.TypeFor[corral.Command]()
	for i := range typ.NumField() {
		c := plain
		f := reflect.ValueOf(&c).Elem().Field(i)
		name := typ.Field(i).Name
		switch v := f.Addr().Interface().(type) {
		case *string:
			*v = "x"
		case *corral.Host:
			*v = corral.HostNode
		case *[]string:
			*v = []string{"x"}
		case *map[string]string:
			*v = map[string]string{"x": ""}
		case *bool:
			*v = true
		case *time.Duration:
			*v = 1
		case **corral.Size:
			*v = &corral.Size{}
		case **corral.Domain:
			*v = &corral.Domain{}
		case *decided.About:
			v.Exec = []string{"x"}
		case *corral.LogLimit:
			v.Head = 1
		default:
			t.Fatalf("set %s of type %v to something here", name, f.Type())
		}
		if ignored[name] {
			if c.Digest() != plain.Digest() {
				t.Errorf("%s is in the digest", name)
			}
			continue
		}
		add(name, c)
	}
	add("a tail", corral.Command{Shell: "true", Log: corral.LogLimit{Tail: 1}})
	add("rows", corral.Command{Shell: "true", TTY: &corral.Size{Rows: 1}})
	add("columns", corral.Command{Shell: "true", TTY: &corral.Size{Cols: 1}})
	for _, args := range [][]string{{"a b"}, {"a", "b"}, {`a" "b`}, {"\xff"}, {"\xfe"}, {"\ufffd"}} {
		add(fmt.Sprintf("%q", args), corral.Command{Args: args})
	}
	for _, env := range []map[string]string{{"A": "1", "B": "2"}, {"A": "1 B:2"}, {"A": "2", "B": "1"}} {
		add(fmt.Sprintf("%q", env), corral.Command{Shell: "true", Env: env})
	}
}
