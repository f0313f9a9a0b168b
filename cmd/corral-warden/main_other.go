//go:build !linux

// Corral-warden runs on Linux only.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "corral-warden: this program runs on Linux only")
	os.Exit(2)
}
