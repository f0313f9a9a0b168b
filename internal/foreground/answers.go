package foreground

import (
	"context"
	"math"
	"sync"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/client"
)

// Answers has a gateway know that a command's terminal is shown by a real
// one, as long as it is: that answers what the command asks its terminal, such
// as where the cursor is, and the gateway does not.
type Answers struct {
	cancel context.CancelFunc
	owned  sync.WaitGroup
}

// Begin tells the gateway of a process.
func (t *Answers) Begin(ctx context.Context, p corral.Process) {
	session, ok := p.(*client.Process)
	if !ok {
		return
	}
	ctx, t.cancel = context.WithCancel(ctx)
	// It is attached to where there is no output, which is read elsewhere.
	term, err := session.Attach(ctx, math.MaxInt64)
	if err != nil {
		return // then both answer, which costs more than it harms
	}
	t.owned.Go(func() {
		defer term.Close()
		for {
			m, err := term.Next(ctx) // it comes back after a restart of the gateway
			if err != nil || m.Exit != nil {
				return
			}
		}
	})
}

// Stop ends what Begin began.
func (t *Answers) Stop() {
	if t.cancel != nil {
		t.cancel()
	}
	t.owned.Wait()
}
