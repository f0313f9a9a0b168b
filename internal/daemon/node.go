package daemon

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/corral-exec/corral/pathenv"
	"github.com/corral-exec/corral/policy"
	"github.com/corral-exec/corral/policy/approval"
	"github.com/corral-exec/corral/policy/guard"
)

// A NodeHost is what a node's commands run on, behind the policy of this machine.
type NodeHost struct {
	*guard.Node
	places *nodePlaces
}

// OpenNodeHost opens it, in the directory of the node. The approvals file is the
// one of the machine, which has also the rules of a gateway that runs here.
func OpenNodeHost(opt Options, dir string) (_ *NodeHost, err error) {
	o, log := &opt, opt.Log
	keeper, err := o.Backends.Host(KeeperOptions{
		HostOptions: HostOptions{Workspace: o.Settings.Workspace.Dir, Environ: o.Environ},
		StateDir:    filepath.Join(dir, HostDir), Node: pathenv.NodeHeadless, Log: log,
	})
	if err != nil {
		return nil, err
	}
	p := &policies{log: log}
	hosts := newHosts(o, dir, keeper)
	hosts.policies = p
	h := &NodeHost{places: newNodePlaces(hosts)}
	defer func() {
		if err != nil {
			err = errors.Join(err, h.Close())
		}
	}()
	if p.live, err = o.liveConfig(); err != nil {
		return nil, err
	}
	p.file = p.approvals(filepath.Dir(dir), log)
	p.desk, err = approval.OpenDesk(approval.Options{
		Dir: filepath.Join(dir, DeskDir), Expiry: p.expiry, Log: log,
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
	p.owned.Go(func() { h.places.tidy(ctx) })
	return h, nil
}

// Close lets go of everything; commands go on.
func (h *NodeHost) Close() error {
	h.places.policies.stop()
	return h.places.Close()
}
