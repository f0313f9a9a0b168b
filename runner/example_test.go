package runner_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/test/fakeexec"
	"github.com/corral-exec/corral/nodeexec"
	"github.com/corral-exec/corral/runner"
)

// exampleRouter stands for what a program makes of packages sandbox, hostexec
// and nodeexec; here nothing real runs.
func exampleRouter() *corral.Router {
	programs := map[string]fakeexec.Program{"make test": fakeexec.Print("ok\n", "", 0), "cat": fakeexec.Cat}
	return corral.NewRouter(corral.RouterOptions{
		SandboxOn: true,
		Sandbox:   &fakeexec.Executor{Info: corral.Info{Host: corral.HostSandbox, Sandboxed: true}, Programs: programs},
		Gateway:   &fakeexec.Executor{Info: corral.Info{Host: corral.HostGateway}, Programs: programs},
		Nodes:     nodeexec.None{},
	})
}

// Run is for callers that only need the result.
func ExampleRun() {
	router := exampleRouter()
	res, err := runner.Run(context.Background(), router, corral.Command{Shell: "make test"}, runner.Options{})
	if err != nil {
		panic(err)
	}
	fmt.Printf("%s: %v: %s", res.Info.Host, res.Exit, res.Output)
	// Output: sandbox: exit code 0: ok
}

// Start hands back a process to talk to.
func ExampleRouter_Start() {
	router := exampleRouter()
	ctx := context.Background()

	p, err := router.Start(ctx, corral.Command{Shell: "cat", Stdin: true})
	if err != nil {
		panic(err)
	}
	if _, err := p.Write(ctx, []byte("hello")); err != nil {
		panic(err)
	}
	chunk, err := p.Log().Read(ctx, 0, make([]byte, 80))
	if err != nil {
		panic(err)
	}
	fmt.Printf("%s at offset %d: %s\n", chunk.Stream, chunk.Offset, chunk.Data)

	if err := p.CloseStdin(ctx); err != nil {
		panic(err)
	}
	exit, err := p.Wait(ctx)
	if err != nil {
		panic(err)
	}
	fmt.Println(exit)
	// Output:
	// stdout at offset 0: hello
	// exit code 0
}

// An error says what may be done next, for a program and for a person.
func ExampleHint() {
	router := exampleRouter()
	_, err := router.Start(context.Background(), corral.Command{Shell: "make test", Host: corral.HostGateway})
	fmt.Println(errors.Is(err, corral.ErrDenied), err)
	fmt.Println("hint:", corral.Hint(err))
	// Output:
	// true host not allowed (requested gateway; configured host is unset)
	// hint: set tools.exec.host=gateway, or ask for elevated
}
