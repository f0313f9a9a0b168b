//go:build !linux

// Command bench measures what Corral costs, on Linux only.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "bench: this program runs on Linux only")
	os.Exit(2)
}
