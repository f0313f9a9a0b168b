package fabric

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/corral-exec/corral"
)

// assembly is a request whose body arrives in parts. Its header is genuine.
type assembly struct {
	e    *Envelope
	body []byte
}

func assemblyKey(life string, seq uint64) string { return life + "." + strconv.FormatUint(seq, 10) }

// assemble prepares to receive the body of e.
func (n *node) assemble(e *Envelope) {
	key := assemblyKey(e.Life, e.Seq)
	n.mu.Lock()
	used := n.replays.used(&e.Header)
	_, expected := n.parts[key]
	room := true
	if !used && !expected {
		n.sweepParts(n.now())
		if room = len(n.parts) < maxAssemblies && n.partSize+e.Size <= maxAssembled; room {
			n.parts[key] = &assembly{e: e}
			n.partSize += e.Size
		}
	}
	n.mu.Unlock()
	switch {
	case used:
		n.repeat(e)
	case !room:
		n.refuse(e, RefusedBusy, corral.Errorf(corral.ErrUnavailable, "try again soon", "node %s has too many large requests to read", n.id))
	}
}

// part adds a piece of a body. If a piece is lost, the gateway sends all again.
func (n *node) part(data []byte) {
	p, err := ParsePart(data)
	if err != nil {
		n.warn("refused a part of a request that is none", "error", err)
		return
	}
	key := assemblyKey(p.Life, p.Seq)
	n.mu.Lock()
	n.sweepParts(n.now()) // the last part may have been withheld for long
	a := n.parts[key]
	if a == nil || p.Off != len(a.body) || p.Off+len(p.Data) > a.e.Size {
		foreign := a == nil && !n.replays.usedBy(p.Life, p.Seq)
		n.mu.Unlock()
		if foreign {
			n.warn("refused a part of a request that nobody announced", "life", p.Life, "number", p.Seq)
		}
		return
	}
	a.body = append(a.body, p.Data...)
	complete := len(a.body) == a.e.Size
	if complete {
		n.dropPart(key)
	}
	n.mu.Unlock()
	if !complete {
		return
	}
	e := a.e
	e.Body = a.body
	if err := e.verifyBody(); err != nil {
		n.refuse(e, RefusedKey, n.notGenuine(err))
		return
	}
	n.execute(e)
}

// dropPart forgets an assembly. n.mu is held.
func (n *node) dropPart(key string) {
	if a := n.parts[key]; a != nil {
		n.partSize -= a.e.Size
		delete(n.parts, key)
	}
}

// sweepParts forgets expired assemblies. n.mu is held.
func (n *node) sweepParts(now time.Time) {
	for key, a := range n.parts {
		if n.timelyLocked(a.e, now) != nil {
			n.dropPart(key)
		}
	}
}

// mustJSON encodes values that can always be encoded.
func mustJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

func unmarshal(b []byte, v any) error {
	if err := json.Unmarshal(b, v); err != nil {
		return corral.Errorf(corral.ErrInvalid, "", "the request is no JSON: %w", err)
	}
	return nil
}
