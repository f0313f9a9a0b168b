package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/hostexec"
	"github.com/corral-exec/corral/runner"
	"github.com/corral-exec/corral/sandbox"
	"github.com/corral-exec/corral/sandbox/engines"
)

func main() {
	ctx := context.Background()
	box, err := engines.OpenSandbox(ctx, sandbox.Config{Image: os.Args[1], Ephemeral: true})
	if err != nil {
		log.Fatal(err)
	}
	host, err := hostexec.Open(hostexec.Config{})
	if err != nil {
		log.Fatal(err)
	}
	router := corral.NewRouter(corral.RouterOptions{SandboxOn: true, Sandbox: box, Gateway: host})
	defer router.Close()
	for _, elevated := range []bool{true, false} {
		r, err := runner.Run(ctx, router, corral.Command{Shell: "uname", Elevated: elevated}, runner.Options{})
		if err != nil {
			log.Fatal(err, "; ", corral.Hint(err))
		}
		fmt.Printf("%s: %v: %s", r.Info.Host, r.Exit, r.Output)
	}
}
