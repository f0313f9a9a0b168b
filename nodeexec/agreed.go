package nodeexec

import (
	"bytes"
	"time"

	"github.com/corral-exec/corral/internal/fleet/fabric"
)

// agreed is what was agreed with one life of a node's program, so that not every
// request has to be signed.
type agreed struct {
	boot      string
	share     []byte            // of the node
	agreement *fabric.Agreement // nil: there can be none with that share
	known     bool              // the node has answered a signed request that asked to agree
	used      time.Time
}

// agreedIdle is after how long an agreement is not relied upon: a node that
// speaks with many gateways forgets those that were silent for longer.
const agreedIdle = 4 * time.Minute

// proof is what proves a request to the node: an agreement or, if that is nil, a
// signature. Into the header it puts the epoch and, if they are to agree, the
// shares.
func (p *peer) proof(h *fabric.Header) *fabric.Agreement {
	p.mu.Lock()
	defer p.mu.Unlock()
	if h.Boot != p.told.Boot {
		return nil
	}
	h.Epoch = p.told.Epoch
	if p.told.Share == nil || h.Epoch == 0 {
		return nil
	}
	a := &p.agreed
	if a.boot != h.Boot || !bytes.Equal(a.share, p.told.Share) {
		*a = agreed{boot: h.Boot, share: p.told.Share}
		mine := p.f.share.Public()
		agreement, err := p.f.share.Agree(a.share, fabric.Parties{
			Node: p.id, Boot: a.boot, Key: p.f.signer.Public(), Life: p.f.life, NodeShare: a.share, GatewayShare: mine,
		})
		if err != nil {
			p.f.warn("refused to agree with a node", "node", p.id, "error", err)
		}
		a.agreement = agreement
	}
	if a.agreement == nil {
		return nil
	}
	now := time.Now()
	idle := now.Sub(a.used)
	a.used = now
	if a.known && idle < agreedIdle {
		return a.agreement
	}
	a.known = false
	h.Share, h.To = p.f.share.Public(), a.share
	return nil
}

// agree takes notice that the node has taken a request.
func (p *peer) agree(s *sealed) {
	if !s.agrees {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.agreed.boot == s.boot {
		p.agreed.known = true
	}
}

// disagree takes notice that the node does not know of an agreement.
func (p *peer) disagree(boot string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.agreed.boot == boot {
		p.agreed.known = false
	}
}

// another takes notice of another epoch.
func (p *peer) another(boot string, epoch uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.told.Boot == boot && epoch != 0 {
		p.told.Epoch = epoch
	}
}
