//go:build linux

// Corral-warden supervises commands: as PID 1 of a sandbox, and beside the
// gateway for the commands of this machine. It is started by corral, not by
// people.
package main

import (
	"os"

	"github.com/corral-exec/corral/internal/warden"
)

func main() { os.Exit(warden.Main(os.Args[1:], os.Stderr)) }
