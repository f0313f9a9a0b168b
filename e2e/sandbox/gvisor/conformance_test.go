//go:build e2e

// Package gvisor_test runs the conformance suite on sandboxes of Docker's in gVisor, by
// each driver. A Router in front is tested where commands start faster.
package gvisor_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/corral-exec/corral/internal/test/sandboxtest"
	"github.com/corral-exec/corral/sandbox"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	(&sandboxtest.Place{Name: "sandbox gvisor", Config: sandbox.Config{Runtime: sandboxtest.GVisor}}).Run(t)
}

func TestConformanceFDs(t *testing.T) {
	(&sandboxtest.Place{Name: "sandbox gvisor fds", Config: sandbox.Config{Runtime: sandboxtest.GVisorUDS, Driver: sandbox.DriverFDs}}).Run(t)
}
