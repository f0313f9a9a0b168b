package cli

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"

	"github.com/corral-exec/corral/pathenv"
	"github.com/corral-exec/corral/policy"
	"github.com/corral-exec/corral/policy/approval"
	"github.com/corral-exec/corral/policy/guard"
)

// A nodeHost is what a node's commands run on, behind the policy of this machine.
type nodeHost struct {
	*guard.Node
	places *nodePlaces
}

// openNodeHost opens it, in the directory of the node. The approvals file is the
// one of the machine, of which a gateway that runs here has rules too.
func (a *app) openNodeHost(dir string, log *slog.Logger) (_ *nodeHost, err error) {
	environ := slices.DeleteFunc(slices.Clone(a.environ), func(kv string) bool { return strings.HasPrefix(kv, tokenVariable+"=") })
	keeper, err := a.backends.keeper(keeperOptions{
		gatewayOptions: gatewayOptions{workspace: a.settings.Workspace, environ: environ},
		stateDir:       filepath.Join(dir, hostDir), node: pathenv.NodeHeadless, log: log,
	})
	if err != nil {
		return nil, err
	}
	p := &policies{log: log}
	h := &nodeHost{places: newNodePlaces(&hosts{app: a, stateDir: dir, log: log, gateway: keeper, policies: p, agents: map[string]*agentHosts{}, boxes: map[string]*lazySandbox{}})}
	defer func() {
		if err != nil {
			err = errors.Join(err, h.Close())
		}
	}()
	if p.live, err = a.liveConfig(); err != nil {
		return nil, err
	}
	p.file = p.approvals(filepath.Dir(dir), log)
	p.desk, err = approval.OpenDesk(approval.Options{
		Dir: filepath.Join(dir, deskDir), Expiry: p.expiry, Log: log,
		Remember: func(_ context.Context, rec approval.Record, rules []policy.Rule) error {
			return p.file.Add(rec.Agent, rec.Scope, rules...)
		},
	})
	if err != nil {
		return nil, err
	}
	p.decide(keeper, nil)
	h.Node = guard.NewNode(h.places, p.guard)
	var ctx context.Context
	ctx, p.cancel = context.WithCancel(context.Background())
	p.owned.Go(func() {
		if err := p.desk.Collect(ctx); err != nil {
			log.Error("corral node approvals cannot be answered", "error", err)
		}
	})
	return h, nil
}

// Close lets go of everything; commands go on.
func (h *nodeHost) Close() error { return h.places.Close() }
