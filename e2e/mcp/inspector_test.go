//go:build e2e

package mcp_test

import (
	"encoding/json"
	"net/http"
	"os"
	"testing"

	"github.com/corral-exec/corral/internal/test/testdir"
	"github.com/corral-exec/corral/tool"
)

// A wrapper makes another handler of ours.
type wrapper func(http.Handler) http.Handler

func plain(h http.Handler) http.Handler { return h }

// targets are how the inspector reaches a server.
var targets = map[string]func(*testing.T) []string{
	"stdio": func(t *testing.T) []string {
		return []string{"-e", stateVar + "=" + testdir.New(t), "--transport", "stdio", "--", os.Args[0]}
	},
	"http": func(t *testing.T) []string {
		return []string{"--transport", "http", "--", serveHTTP(t, plain)}
	},
}

// inspect has the inspector do something, and decodes what it printed.
func inspect(t *testing.T, target, args []string, into any) {
	t.Helper()
	out, err := run(t, ".bin/mcp-inspector", append(append([]string{"--cli"}, args...), target...)...)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(out), into); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

type called struct {
	IsError           bool
	Content           []struct{ Type, Text string }
	StructuredContent tool.ExecResult
}

func TestInspector(t *testing.T) {
	for name, target := range targets {
		t.Run(name, func(t *testing.T) {
			to := target(t)
			var list struct{ Tools []struct{ Name string } }
			// strict: fail if a schema is not understood everywhere.
			inspect(t, to, []string{"--strict", "--method", "tools/list"}, &list)
			if len(list.Tools) != 2 || list.Tools[0].Name != "exec" || list.Tools[1].Name != "process" {
				t.Errorf("%+v", list)
			}
			var r called
			inspect(t, to, []string{"--method", "tools/call", "--tool-name", "exec", "--tool-arg", "command=echo hello; exit 3", "timeout=5"}, &r)
			if r.IsError || len(r.Content) != 1 || r.Content[0].Text != "hello\n\n(Command exited with code 3)" ||
				r.StructuredContent.Ended == nil || *r.StructuredContent.ExitCode != 3 || r.StructuredContent.Stdout != "hello\n" {
				t.Errorf("%+v", r)
			}
			r = called{}
			inspect(t, to, []string{"--method", "tools/call", "--tool-name", "exec", "--tool-arg", "command=sleep 30", "background=true"}, &r)
			if r.IsError || r.StructuredContent.Status != tool.StatusRunning || r.StructuredContent.SessionID == "" {
				t.Errorf("%+v", r)
			}
		})
	}
}
