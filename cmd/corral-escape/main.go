// Command corral-escape tries to get out of the sandbox that it runs in, and says
// what came of it. It is started in sandboxes, by corral doctor --deep and by the
// tests, and not by people. It is a program of its own, so that corral itself has
// no code that attacks a sandbox.
package main

import (
	"os"

	"github.com/corral-exec/corral/e2e/escape/probes"
)

func main() { os.Exit(probes.Main(os.Args[1:], os.Stdout, os.Stderr)) }
