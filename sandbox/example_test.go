package sandbox_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/sandbox"
	"github.com/corral-exec/corral/sandbox/docker"
)

// A command in a container that is made when it is first needed, and stays.
func Example() {
	engine, err := docker.New(docker.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer engine.Close()
	box, err := sandbox.New(sandbox.Config{
		Engine: engine, StateDir: "/var/lib/my-agent", Name: "agent-1",
		Workspace: "/srv/checkout", WorkspaceAccess: sandbox.AccessReadWrite,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer box.Close()

	ctx := context.Background()
	result, err := corral.Run(ctx, box, corral.Command{Shell: "python3 -m unittest", Timeout: time.Minute}, corral.RunOptions{})
	if err != nil {
		log.Fatal(err, "; ", corral.Hint(err))
	}
	fmt.Println(result.Exit, result.Output)
}
