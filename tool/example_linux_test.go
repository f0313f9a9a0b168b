package tool_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/hostexec"
	"github.com/corral-exec/corral/session"
	"github.com/corral-exec/corral/tool"
)

func closing(c io.Closer) {
	if err := c.Close(); err != nil {
		panic(err)
	}
}

// Commands on this machine, for one agent.
func Example() {
	state, err := os.MkdirTemp("", "corral-example-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(state)
	host, err := hostexec.New(hostexec.Config{InProcess: true, StateDir: filepath.Join(state, "host"), Environ: []string{"PATH=/usr/bin:/bin"}})
	if err != nil {
		panic(err)
	}
	defer closing(host)
	ctx := context.Background()
	sessions, err := session.Open(ctx, session.Config{
		Dir:      filepath.Join(state, "sessions"),
		Executor: func(context.Context, string) (corral.Executor, error) { return host, nil },
	})
	if err != nil {
		panic(err)
	}
	defer closing(sessions)

	tools := tool.New(tool.Config{Agent: sessions.Agent("main")})
	r := tools.Exec(ctx, tool.ExecRequest{Command: "echo hello; exit 3"})
	fmt.Println(r.Status, *r.ExitCode)
	fmt.Println(r.Text())

	// As it comes over a wire.
	called, err := tools.Call(ctx, "process", json.RawMessage(`{"action": "list"}`))
	if err != nil {
		panic(err)
	}
	fmt.Println(called.Text())
	// Output:
	// completed 3
	// hello
	//
	// (Command exited with code 3)
	// No running or recent sessions.
}
