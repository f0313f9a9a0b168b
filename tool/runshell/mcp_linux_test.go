package runshell_test

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"sync"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/corral-exec/corral/internal/test/fakeexec"
	"github.com/corral-exec/corral/pathenv"
	"github.com/corral-exec/corral/tool/mcp"
	"github.com/corral-exec/corral/tool/runshell"
)

// The tool is served over MCP like those of package tool.
func TestMCP(t *testing.T) {
	ex := &fakeexec.Executor{Programs: map[string]fakeexec.Program{"bash -c ls": func(*fakeexec.IO) int { return 3 }}}
	defer ex.Close()
	run, err := runshell.New(runshell.Config{Executor: ex, Profile: pathenv.ProfileQwen, Root: t.TempDir(), ExcludeTools: []string{"run_shell_command(rm)"}})
	if err != nil {
		t.Fatal(err)
	}
	toServer, fromClient := io.Pipe()
	toClient, fromServer := io.Pipe()
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := mcp.New(mcp.Config{Tools: run}).Serve(context.Background(), toServer, fromServer); err != nil {
			t.Error(err)
		}
	})
	defer serving.Wait()
	client, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "0"}, nil).Connect(t.Context(), &sdk.IOTransport{Reader: toClient, Writer: fromClient}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	list, err := client.ListTools(t.Context(), nil)
	if err != nil || len(list.Tools) != 1 || list.Tools[0].Name != runshell.Name {
		t.Fatalf("%+v, %v", list, err)
	}
	for command, want := range map[string]struct {
		text   string
		failed bool
	}{
		"ls":   {"Command: ls\nDirectory: (root)\nStdout: (empty)\nStderr: (empty)\nError: (none)\nExit Code: 3\n", false},
		"rm x": {"Command: rm x\nDirectory: (root)\nStdout: (empty)\nStderr: (empty)\nError: Command 'rm x' is blocked by configuration", true},
	} {
		r, err := client.CallTool(t.Context(), &sdk.CallToolParams{Name: runshell.Name, Arguments: map[string]any{"command": command, "is_background": false}})
		if err != nil {
			t.Fatal(err)
		}
		structured, err := json.Marshal(r.StructuredContent)
		if got := r.Content[0].(*sdk.TextContent).Text; err != nil || !strings.HasPrefix(got, want.text) || r.IsError != want.failed || !strings.Contains(string(structured), `"signal":null`) {
			t.Errorf("%s: %s, %s, %v", command, got, structured, err)
		}
	}
}
