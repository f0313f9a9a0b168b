package broker

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// A guest is a connection that belongs to no node: it has not proved a key yet, or its
// key is not paired. Every machine that reaches the server can open many, so guests
// have places of their own. Between two looks, they may take as many again.
const (
	maxNodes  = 8192 // connections of nodes
	maxGuests = 2048
	lookEvery = 50 * time.Millisecond

	maxOfKey = 16 // connections
)

// hasPlace notes that a connection is no guest.
func (s *Server) hasPlace(c server.ClientAuthentication) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nodes[c.GetID()] = struct{}{}
}

// watch cuts guests until ctx ends.
func (s *Server) watch(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.cutGuests()
		}
	}
}

// cutGuests cuts as many guests as there are too many, of the addresses that have the
// most of them. Which of an address is chance: nodes that all come back at once are
// guests until they have proved their keys, and those that are cut try again.
func (s *Server) cutGuests() {
	if s.server.NumClients() <= s.maxGuests {
		return
	}
	s.mu.Lock()
	for id := range s.nodes {
		if s.server.GetClient(id) == nil {
			delete(s.nodes, id)
		}
	}
	many := s.server.NumClients()-len(s.nodes) > s.maxGuests
	s.mu.Unlock()
	if !many {
		return
	}
	list, err := s.server.Connz(&server.ConnzOptions{Limit: s.server.NumClients() + maxNodes})
	if err != nil {
		return // the options are right
	}
	guests, count := map[string][]uint64{}, 0 // by address
	s.mu.Lock()
	for _, c := range list.Conns {
		if _, node := s.nodes[c.Cid]; !node && c.IP != "" { // this program's own has none
			guests[c.IP] = append(guests[c.IP], c.Cid)
			count++
		}
	}
	s.mu.Unlock()
	for ; count > s.maxGuests; count-- {
		most := ""
		for address, ids := range guests {
			if len(ids) > len(guests[most]) {
				most = address
			}
		}
		i := rand.IntN(len(guests[most]))
		_ = s.server.DisconnectClientByID(guests[most][i]) // if it is gone already, all is well
		guests[most] = slices.Delete(guests[most], i, i+1)
		s.logLimited(slog.LevelWarn, "cut a connection that belongs to no node: there are too many", "from", most, "at_most", s.maxGuests)
	}
}
