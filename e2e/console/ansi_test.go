//go:build e2e

package console_test

import (
	"context"
	"os/exec"
	"testing"
)

func TestScripts(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "node", "--test", "ansi.test.mjs").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
