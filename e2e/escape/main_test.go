//go:build e2e && linux

// Package escape_test tries to get out of sandboxes, on every engine, in every
// way of package e2e/escape/probes, and shows that each try would have been
// seen: it is made again in the same container with one protection taken away,
// where it must succeed. The outcome is the table in docs/reference/escape.md.
//
// Weakened containers are made by the tests alone, from what the engine says of
// the product's own container; no code of the product can make one.
//
// Bombs are run beside a neighbour, whose commands must hardly become slower.
package escape_test

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

var update = flag.Bool("update", false, "write the tables of docs/reference/escape.md")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
