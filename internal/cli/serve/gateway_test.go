package serve

import (
	"testing"
	"time"

	"github.com/corral-exec/corral/internal/cmdline"
)

func TestKeepFor(t *testing.T) {
	for d, want := range map[time.Duration]bool{time.Second: true, maxKeep: true, maxKeep + 1: false, 0: false} {
		o := gatewayFlags{maxSessions: 1, keep: 1, keepFor: cmdline.Seconds(d)}
		if err := o.check(); (err == nil) != want {
			t.Errorf("--keep-for %v: %v", d, err)
		}
	}
}
