package reach

import (
	"context"
	"errors"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/client"
)

// AwayLimit is how long a gateway may be away that has answered before. It is long
// enough for a machine under load to start it again, and for an upgrade.
const AwayLimit = 2 * time.Minute

// How long a gateway may take to say whether it is ready before the caller is told,
// and before it is asked again; and the pause before that.
const (
	silentLimit = 3 * time.Second
	readyLimit  = 20 * time.Second
	retryPause  = 50 * time.Millisecond
)

// PastHint is the one way around a gateway.
const PastHint = "--local runs the command from here, past the gateway and its policy"

// Ready returns when a gateway takes commands. One that is not ready is asked again if
// wait is true. Silent is called if it takes long.
func Ready(ctx context.Context, c *client.Client, wait bool, silent func()) error {
	defer time.AfterFunc(silentLimit, silent).Stop()
	for deadline := time.Now().Add(AwayLimit); ; {
		once, cancel := context.WithTimeout(ctx, readyLimit)
		err := c.Ready(once)
		late := once.Err() != nil && ctx.Err() == nil
		cancel()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case late:
			err = corral.Errorf(corral.ErrUnavailable, "corral gateway status says more; "+PastHint, "the gateway is there and does not answer")
		}
		if !wait || !errors.Is(err, corral.ErrUnavailable) || time.Now().After(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(retryPause):
		}
	}
}
