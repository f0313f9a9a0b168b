package sandbox_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/hostexec"
	"github.com/corral-exec/corral/runner"
	"github.com/corral-exec/corral/sandbox"
	"github.com/corral-exec/corral/sandbox/engines"
)

// A router over a sandbox and this machine. The container is made when it is
// first needed, from an image that is got by then, and stays.
//
// The README has the same lines.
func Example() {
	ctx := context.Background()
	box, err := engines.OpenSandbox(ctx, sandbox.Config{Workspace: sandbox.Workspace{Dir: ".", Access: sandbox.AccessReadWrite}, Log: slog.Default()})
	if err != nil {
		log.Fatal(err)
	}
	host, err := hostexec.Open(hostexec.Config{})
	if err != nil {
		log.Fatal(err)
	}
	router := corral.NewRouter(corral.RouterOptions{SandboxOn: true, Sandbox: box, Gateway: host})
	defer router.Close() // and what it is made of; commands go on

	cmd := corral.Command{Shell: "uname -a; ls", Timeout: time.Minute} // in the sandbox; with Elevated, on this machine
	result, err := runner.Run(ctx, router, cmd, runner.Options{})
	if err != nil {
		log.Fatal(err, "; ", corral.Hint(err))
	}
	fmt.Println(result.Exit, result.Output)
}
