// Command probe is package escape/probes as a small static program, for the
// tests: they put it into sandboxes and containers. It is not part of the
// product, in which corral itself has the same as a hidden command.
package main

import (
	"os"

	"github.com/corral-exec/corral/internal/escape/probes"
)

func main() { os.Exit(probes.Main(os.Args[1:], os.Stdout, os.Stderr)) }
