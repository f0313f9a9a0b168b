package sandbox_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/hostexec"
	"github.com/corral-exec/corral/images"
	"github.com/corral-exec/corral/nodeexec"
	"github.com/corral-exec/corral/pathenv"
	"github.com/corral-exec/corral/sandbox"
	"github.com/corral-exec/corral/sandbox/docker"
)

// A router over a sandbox and this machine. The container is made when it is
// first needed, from an image that is got by then, and stays.
//
// The README has the same lines.
func Example() {
	engine, err := docker.New(docker.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer engine.Close()
	store := images.Store{Engine: engine.Images()}
	box, err := sandbox.New(sandbox.Config{
		Engine: engine, StateDir: "/var/lib/my-agent", Name: "agent-1",
		Workspace: "/srv/checkout", WorkspaceAccess: sandbox.AccessReadWrite,
		EnsureImage: func(ctx context.Context, image string) error {
			_, err := store.Ensure(ctx, image, nil) // builds Corral's own, pulls any other
			return err
		},
	})
	if err != nil {
		log.Fatal(err)
	}

	login := pathenv.NewLoginProbe(pathenv.ProbeOptions{Environ: os.Environ()})
	defer login.Close()
	host, err := hostexec.New(hostexec.Config{
		StateDir: "/var/lib/my-agent", Workspace: "/srv/checkout", LoginPath: login.PATH,
	})
	if err != nil {
		log.Fatal(err)
	}

	router := corral.NewRouter(corral.RouterOptions{
		SandboxOn: true, Sandbox: box, Gateway: host, Nodes: nodeexec.None{},
	})
	defer router.Close() // and what it is made of; commands go on

	ctx := context.Background()
	result, err := corral.Run(ctx, router, corral.Command{Shell: "python3 -m unittest", Timeout: time.Minute}, corral.RunOptions{})
	if err != nil {
		log.Fatal(err, "; ", corral.Hint(err))
	}
	fmt.Println(result.Exit, result.Output)
}
