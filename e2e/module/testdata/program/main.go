package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/hostexec"
	"github.com/corral-exec/corral/sandbox"
	"github.com/corral-exec/corral/sandbox/docker"
)

func main() {
	ctx := context.Background()
	engine, err := docker.New(docker.Options{})
	if err != nil {
		log.Fatal(err)
	}
	state, err := os.MkdirTemp("", "agent-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(state)
	host, err := hostexec.New(hostexec.Config{StateDir: state})
	if err != nil {
		log.Fatal(err)
	}
	box, err := sandbox.New(sandbox.Config{Engine: engine, StateDir: state, Image: os.Args[1], Ephemeral: true})
	if err != nil {
		log.Fatal(err)
	}
	router := corral.NewRouter(corral.RouterOptions{SandboxOn: true, Sandbox: box, Gateway: host})
	defer router.Close()
	for _, elevated := range []bool{true, false} {
		r, err := corral.Run(ctx, router, corral.Command{Shell: "uname", Elevated: elevated}, corral.RunOptions{})
		if err != nil {
			log.Fatal(err, "; ", corral.Hint(err))
		}
		fmt.Printf("%s: %v: %s", r.Info.Host, r.Exit, r.Output)
	}
}
