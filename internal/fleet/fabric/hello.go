package fabric

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/corral-exec/corral"
)

// Version of the protocol that this program speaks. It speaks no other.
const Version = 1

// Heartbeat is the time between two hellos of a node, unless its hello says otherwise.
// A node that is silent for two and a half heartbeats is offline.
const Heartbeat = 5 * time.Second

// A Hello is a node's description of itself, at every connection and heartbeat. It is a
// claim: pairing decides the name of a node.
type Hello struct {
	Min      int      `json:"min"` // versions of the protocol
	Max      int      `json:"max"`
	Boot     string   `json:"boot"` // this life of the node's program
	Link     uint64   `json:"link"` // counts its connections
	Every    int64    `json:"every,omitempty"`
	Leaving  bool     `json:"leaving,omitempty"`
	Program  string   `json:"program,omitempty"` // version of Corral
	OS       string   `json:"os,omitempty"`
	Arch     string   `json:"arch,omitempty"`
	Host     string   `json:"host,omitempty"`
	Features []string `json:"features,omitempty"`
	Load     Load     `json:"load,omitzero"`
	// Epoch is the epoch that requests have to name.
	Epoch uint64 `json:"epoch,omitempty"`
	// Clock is the node's time, in Unix ms. 0: unknown.
	Clock int64 `json:"clock,omitempty"`
}

// Interval is the time between two heartbeats.
func (h Hello) Interval() time.Duration {
	if h.Every <= 0 {
		return Heartbeat
	}
	return min(max(time.Duration(h.Every)*time.Millisecond, 10*time.Millisecond), time.Minute)
}

// ParseHelloBody reads a Hello and bounds it.
func ParseHelloBody(b []byte) (Hello, error) {
	var h Hello
	if len(b) > 8<<10 {
		return h, fmt.Errorf("%w: a hello of %d bytes", ErrMalformed, len(b))
	}
	if err := json.Unmarshal(b, &h); err != nil {
		return Hello{}, fmt.Errorf("%w: the hello: %w", ErrMalformed, err)
	}
	if validateToken(h.Boot) != nil || h.Min > h.Max || len(h.Features) > 64 {
		return Hello{}, fmt.Errorf("%w: the hello", ErrMalformed)
	}
	long := func(s string) bool {
		return len(s) > 255 || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' })
	}
	if long(h.Program) || long(h.OS) || long(h.Arch) || long(h.Host) || slices.ContainsFunc(h.Features, long) {
		return Hello{}, fmt.Errorf("%w: text in the hello", ErrMalformed)
	}
	h.Load = h.Load.bound()
	return h, nil
}

// Negotiate reports why a gateway cannot speak with a node that said h.
func Negotiate(node string, h Hello) error {
	switch {
	case h.Max < Version:
		return corral.Errorf(corral.ErrUnavailable, "upgrade Corral on the node",
			"node %s speaks versions %d to %d of the protocol, and this gateway version %d", node, h.Min, h.Max, Version)
	case h.Min > Version:
		return corral.Errorf(corral.ErrUnavailable, "upgrade Corral on the gateway",
			"node %s speaks versions %d to %d of the protocol, and this gateway version %d", node, h.Min, h.Max, Version)
	}
	return nil
}
