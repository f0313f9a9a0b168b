//go:build e2e && linux

package sandbox_test

import (
	"testing"

	"github.com/corral-exec/corral/internal/test/enginetest"
)

func TestStatsContainerd(t *testing.T) { testStats(t, enginetest.Containerd(t)) }
