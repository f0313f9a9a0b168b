package foreground

import (
	"context"
	"sync"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/client"
)

// Answers tells a gateway that a real terminal shows a command's terminal. Then the
// real terminal answers the command's queries, such as for the cursor's position, and
// the gateway does not.
type Answers struct {
	cancel context.CancelFunc
	owned  sync.WaitGroup
}

// Begin tells the gateway about a process.
func (t *Answers) Begin(ctx context.Context, p corral.Process) {
	session, ok := p.(*client.Process)
	if !ok {
		return
	}
	ctx, t.cancel = context.WithCancel(ctx)
	// Attach beyond the output, which is read elsewhere.
	term, err := session.Attach(ctx, 1<<62)
	if err != nil {
		return // then both answer, which does little harm
	}
	t.owned.Go(func() {
		defer term.Close()
		for {
			m, err := term.Next(ctx) // it reconnects after a restart of the gateway
			if err != nil || m.Exit != nil {
				return
			}
		}
	})
}

// Stop ends the work of Begin.
func (t *Answers) Stop() {
	if t.cancel != nil {
		t.cancel()
	}
	t.owned.Wait()
}
