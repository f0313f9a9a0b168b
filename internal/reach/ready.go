package reach

import (
	"context"
	"errors"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/client"
)

// AwayLimit is how long a gateway that has answered before may be away. It is long
// enough for a restart on a machine under load, and for an upgrade.
const AwayLimit = 2 * time.Minute

// Time for a gateway's answer whether it is ready, before the caller is informed, and
// before the question is repeated; and the pause before that.
const (
	silentLimit = 3 * time.Second
	readyLimit  = 20 * time.Second
	retryPause  = 50 * time.Millisecond
)

// PastHint names the one way around a gateway.
const PastHint = "--local runs the command from here, past the gateway and its policy"

// Ready returns when a gateway accepts commands. If wait is true, it waits until the
// gateway is ready. It calls silent if that takes long.
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
