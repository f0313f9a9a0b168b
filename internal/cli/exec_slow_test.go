package cli

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/cli/app"
)

// Who waits for a start that takes long hears why.
func TestStartSlowly(t *testing.T) {
	for _, tt := range []struct {
		takes time.Duration
		quiet bool
		says  bool
	}{{slow - 1, false, false}, {slow + 1, false, true}, {time.Minute, true, false}} {
		synctest.Test(t, func(t *testing.T) {
			var stderr bytes.Buffer
			a := &app.App{Stderr: &stderr, Quiet: tt.quiet}
			got, err := startApproved(t.Context(), commands{a}, &execFlags{}, nil, corral.Command{}, func(context.Context, corral.Command) (string, error) {
				time.Sleep(tt.takes)
				return "begun", nil
			})
			if err != nil || got != "begun" {
				t.Fatalf("%q, %v", got, err)
			}
			if says := strings.HasPrefix(stderr.String(), "The gateway has not started it yet. "); says != tt.says {
				t.Errorf("after %v, quiet %v: %q", tt.takes, tt.quiet, &stderr)
			}
		})
	}
}
