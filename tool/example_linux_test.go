package tool_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/config"
	"github.com/corral-exec/corral/hostexec"
	"github.com/corral-exec/corral/policy/approval"
	"github.com/corral-exec/corral/policy/guard"
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

	// A call with JSON, as over a wire.
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

// A function of the platform answers for commands that need an approval: here
// the policy allows nothing by itself.
func Example_approve() {
	ctx := context.Background()
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
	settings, err := config.Parse("config.json5", []byte(`{tools: {exec: {security: "allowlist", ask: "on-miss"}}}`))
	if err != nil {
		panic(err)
	}
	desk, err := approval.OpenDesk(approval.Options{Dir: filepath.Join(state, "approvals")})
	if err != nil {
		panic(err)
	}
	defer closing(desk)
	policies := guard.New(guard.Config{Settings: func() *config.Config { return settings }, Desk: desk, Plan: host.Plan})
	router := corral.NewRouter(corral.RouterOptions{Host: corral.HostGateway, Gateway: host, Guard: policies.For("main")})
	sessions, err := session.Open(ctx, session.Config{
		Dir:      filepath.Join(state, "sessions"),
		Executor: func(context.Context, string) (corral.Executor, error) { return router, nil },
	})
	if err != nil {
		panic(err)
	}
	defer closing(sessions)

	tools := tool.New(tool.Config{
		Agent: sessions.Agent("main"), Guard: policies,
		Approve: func(_ context.Context, rec approval.Record) (approval.Answer, error) {
			fmt.Println("asked about:", rec.Text())
			if rec.Command == "printf hello" {
				return approval.Answer{Decision: approval.AllowOnce, By: "the example"}, nil
			}
			return approval.Answer{Decision: approval.Deny, By: "the example"}, nil
		},
	})
	fmt.Println(tools.Exec(ctx, tool.ExecRequest{Command: "printf hello"}).Text())
	fmt.Println(tools.Exec(ctx, tool.ExecRequest{Command: "printf bye"}).Status)
	// Output:
	// asked about: printf hello
	// hello
	// asked about: printf bye
	// denied
}
