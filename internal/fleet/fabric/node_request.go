package fabric

import (
	"github.com/corral-exec/corral"
)

// request checks a request, and executes it if it is valid.
func (n *node) request(data []byte) {
	e, err := ParseEnvelope(data)
	if err != nil {
		n.warn("refused a request that is none", "error", err)
		return
	}
	if !n.signed(e) {
		return
	}
	n.mu.Lock()
	err = n.timelyLocked(e, n.now())
	n.mu.Unlock()
	if err != nil {
		n.refuse(e, RefusedEpoch, err)
		return
	}
	if e.InParts() {
		n.assemble(e)
		return
	}
	n.execute(e)
}

// signed reports whether a gateway of this node signed the request for this life of the
// node. It refuses other requests.
func (n *node) signed(e *Envelope) bool {
	key, known := n.keys[e.Key]
	switch {
	case e.Node != n.id:
		n.warn("refused a request to another node", "node", e.Node)
		return false
	case e.Version != Version:
		n.refuse(e, RefusedVersion, corral.Errorf(corral.ErrUnavailable, "upgrade Corral where it is older",
			"the request is of version %d of the protocol, and node %s speaks version %d", e.Version, n.id, Version))
		return false
	case !known:
		n.refuse(e, RefusedKey, corral.Errorf(corral.ErrDenied, "pair the node with this gateway",
			"node %s is not paired with the gateway of key %s", n.id, e.Key))
		return false
	}
	if err := e.Verify(key); err != nil {
		n.refuse(e, RefusedKey, n.notGenuine(err))
		return false
	}
	if e.Boot != n.boot {
		n.refuse(e, RefusedBoot, nil)
		return false
	}
	return true
}

func (n *node) notGenuine(err error) error {
	return corral.Errorf(corral.ErrDenied, "look into who can send to the nodes", "node %s refuses a request that the gateway did not sign: %w", n.id, err)
}

// refuse answers a request without acting upon it.
func (n *node) refuse(e *Envelope, why Refusal, err error) {
	a := Answer{Boot: n.boot, Refused: why, Epoch: n.epoch()}
	if err != nil {
		a.Error = EncodeError(err)
	}
	if why != RefusedBoot { // normal after every restart
		n.warn("refused a request", "reason", why, "op", e.Op, "process", e.ID, "gateway", e.Key, "error", err)
	}
	switch {
	case !e.Op.Bulk() || why == RefusedBoot:
		n.publish(ToGateway(e.Life, n.id, KindAnswer, e.Seq), EncodeAnswer(a))
	case why == RefusedEpoch && n.asked.Allow():
		n.requestHello() // with the values of a hello the gateway can sign a new request
	}
}
