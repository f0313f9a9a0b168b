// Corral runs commands in a sandbox, on this machine or on another. See
// docs/reference/cli.md.
package main

import (
	"os"

	"github.com/corral-exec/corral/internal/cli"
)

// version is set by the linker.
var version string

func main() { os.Exit(cli.Main(version)) }
