// Command image makes sure that the engine has the images that the tour and
// the tests run on, and says what it does while that takes time. It is for the
// Makefile: a sandbox gets its own image when it starts.
//
//	image [NAME...]    default: Corral's own sandbox image
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/docker/docker/client"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/images"
)

func main() {
	names := os.Args[1:]
	if len(names) == 0 {
		names = []string{images.Default}
	}
	if err := run(names); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		if hint := corral.Hint(err); hint != "" {
			fmt.Fprintln(os.Stderr, "hint:", hint)
		}
		os.Exit(1)
	}
}

func run(names []string) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	engine, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	if err != nil {
		return fmt.Errorf("cannot reach the engine: %w", err)
	}
	defer engine.Close()
	store := images.Store{Engine: images.Docker(engine)}
	for _, name := range names {
		if _, err := store.Ensure(ctx, name, steps()); err != nil {
			return err
		}
	}
	return nil
}

// steps prints the first event of each phase, and every warning: a log wants
// no progress bar.
func steps() images.Progress {
	var phase images.Phase
	return func(e images.Event) {
		if e.Phase != phase || e.Warning {
			phase = e.Phase
			fmt.Fprintf(os.Stderr, "image %s: %s\n", e.Image, e.Message)
		}
	}
}
