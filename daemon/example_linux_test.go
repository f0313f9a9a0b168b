package daemon_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/daemon"
	"github.com/corral-exec/corral/runner"
)

// A gateway from a configuration, in a program of one's own.
func Example() {
	dir, err := os.MkdirTemp("", "corral-example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "corral.json5")
	if err := os.WriteFile(file, []byte(`{ tools: { exec: { host: "gateway", rules: [{ allow: "/usr/bin/printf" }], ask: "off" } } }`), 0o600); err != nil {
		log.Fatal(err)
	}

	ctx := context.Background()
	g, err := daemon.Open(ctx, daemon.Options{Config: file, StateDir: filepath.Join(dir, "state")})
	if err != nil {
		log.Fatal(err)
	}
	defer g.Close()
	for _, text := range []string{"/usr/bin/printf hello", "/usr/bin/printf hello; rm -rf ~"} {
		res, err := runner.Run(ctx, g.Agent("main"), corral.Command{Shell: text}, runner.Options{})
		fmt.Printf("%q, denied: %v\n", res.Stdout, errors.Is(err, corral.ErrDenied))
	}
	// Output:
	// "hello", denied: false
	// "", denied: true
}
