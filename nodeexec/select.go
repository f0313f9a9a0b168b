package nodeexec

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/fabric"
)

const (
	pairHint = "corral nodes join says how to pair one; or use host sandbox or gateway"
	nameHint = "name one of them: node=ID, or tools.exec.node"
)

// A Status is what is known of a node.
type Status struct {
	Paired
	Online bool
	Heard  time.Time // zero if never
	// What the node says of itself.
	Program, OS, Arch, Host string
	Features                []string
}

// List is the nodes that are paired, by id.
func (f *Fabric) List(ctx context.Context) []Status {
	var list []Status
	for _, c := range f.candidates(ctx) {
		h, heard, online := c.peer.about()
		list = append(list, Status{
			Paired: c.Paired, Online: online, Heard: heard,
			Program: h.Program, OS: h.OS, Arch: h.Arch, Host: h.Host, Features: h.Features,
		})
	}
	return list
}

// candidate is a paired node and what it is called: by its name, if no other
// is.
type candidate struct {
	Paired
	full   string
	peer   *peer
	online bool
}

// candidates are the paired nodes by id, each asked whether it is there if it
// never was.
func (f *Fabric) candidates(ctx context.Context) []candidate {
	var list []candidate
	names := map[string]int{}
	for _, p := range f.paired() {
		if fabric.ValidateNodeID(p.ID) != nil {
			continue // the registry's mistake; it could not be spoken to
		}
		names[p.ID]++
		if p.Name != p.ID {
			names[p.Name]++
		}
		list = append(list, candidate{Paired: p, peer: f.peer(p.ID)})
	}
	slices.SortFunc(list, func(a, b candidate) int { return strings.Compare(a.ID, b.ID) })
	var asking sync.WaitGroup
	for i := range list {
		c := &list[i]
		c.full = c.ID
		if c.Name != "" && names[c.Name] == 1 {
			c.full = c.Name
		}
		if _, _, c.online = c.peer.about(); !c.online {
			asking.Go(func() { c.online = c.peer.online(ctx) })
		}
	}
	asking.Wait()
	return list
}

// Select implements corral.Nodes. Nodes that are offline do not count.
func (f *Fabric) Select(ctx context.Context, name string) (corral.Executor, string, error) {
	all := f.candidates(ctx)
	if err := ctx.Err(); err != nil {
		return nil, "", err
	}
	c, err := choose(all, name)
	if err != nil {
		return nil, "", err
	}
	h, _, _ := c.peer.about()
	if err := fabric.Negotiate(c.full, h); err != nil {
		return nil, "", err
	}
	return &Node{link{f, c.peer, c.full}}, c.full, nil
}

// choose finds the one node that a name means. A name, an id or an address
// that fits exactly goes before the prefix of an id, also if that node is
// offline: else a command would go to another machine than the one named.
func choose(all []candidate, name string) (candidate, error) {
	for _, fits := range []func(candidate) bool{
		func(c candidate) bool { return name == "" || c.ID == name || c.Name == name },
		func(c candidate) bool { return hasAddress(c.Addresses, name) },
		func(c candidate) bool { return strings.HasPrefix(c.ID, name) },
	} {
		var online, offline []candidate
		for _, c := range all {
			switch {
			case !fits(c):
			case c.online:
				online = append(online, c)
			default:
				offline = append(offline, c)
			}
		}
		switch {
		case len(online) == 1:
			return online[0], nil
		case len(online) > 1 && name == "":
			return candidate{}, corral.Errorf(corral.ErrInvalid, nameHint, "%d nodes are online, and none is chosen: %s", len(online), describe(online))
		case len(online) > 1:
			return candidate{}, corral.Errorf(corral.ErrInvalid, "name one of them by its whole id", "%q could be any of %d nodes: %s", name, len(online), describe(online))
		case len(offline) > 0 && name == "":
			return candidate{}, corral.Errorf(corral.ErrUnavailable, "start corral node on one of them", "no node is online; paired are %s", describe(offline))
		case len(offline) > 0:
			return candidate{}, corral.Errorf(corral.ErrUnavailable, "start corral node there, or choose another node", "cannot use node %q: %s", name, describe(offline))
		}
	}
	if len(all) == 0 {
		if name == "" {
			return candidate{}, corral.Errorf(corral.ErrUnavailable, pairHint, "no node is paired")
		}
		return candidate{}, corral.Errorf(corral.ErrUnavailable, pairHint, "cannot use node %q: no node is paired", name)
	}
	return candidate{}, corral.Errorf(corral.ErrUnavailable, "name one of them, or pair this one", "no node answers to %q; paired are %s", name, describe(all))
}

func hasAddress(addresses []string, name string) bool {
	want, err := netip.ParseAddr(name)
	return err == nil && slices.ContainsFunc(addresses, func(a string) bool {
		got, err := netip.ParseAddr(a)
		return err == nil && got.Unmap() == want.Unmap()
	})
}

// describe lists nodes, for people.
func describe(list []candidate) string {
	const most = 20
	var b strings.Builder
	for i, c := range list {
		if i > 0 {
			b.WriteString(", ")
		}
		if i == most {
			fmt.Fprintf(&b, "and %d more", len(list)-most)
			break
		}
		b.WriteString(c.ID)
		if c.Name != "" && c.Name != c.ID {
			fmt.Fprintf(&b, " (%s)", c.Name)
		}
		if !c.online {
			b.WriteString(" is offline")
			if _, heard, _ := c.peer.about(); !heard.IsZero() {
				fmt.Fprintf(&b, " since %s", heard.UTC().Format(time.RFC3339))
			}
		}
	}
	return b.String()
}

// Attach implements corral.Nodes. The error is ErrNotFound only if every node
// says so.
func (f *Fabric) Attach(ctx context.Context, id string) (corral.Process, error) {
	if err := corral.ValidateID(id); err != nil {
		return nil, corral.Errorf(corral.ErrNotFound, corral.Hint(err), "no process can have that id: %w", err)
	}
	all := f.candidates(ctx)
	f.mu.Lock()
	last := f.seen[id]
	f.mu.Unlock()
	for _, c := range all {
		if c.ID != last {
			continue
		}
		if p, err := f.attachAt(ctx, c, id); !errors.Is(err, corral.ErrNotFound) {
			return p, err
		}
	}
	found := make([]corral.Process, len(all))
	errs := make([]error, len(all))
	var asking sync.WaitGroup
	for i, c := range all {
		asking.Go(func() { found[i], errs[i] = f.attachAt(ctx, c, id) })
	}
	asking.Wait()
	var unknown error
	for i := range all {
		switch {
		case errs[i] == nil:
			return found[i], nil
		case !errors.Is(errs[i], corral.ErrNotFound) && unknown == nil:
			unknown = errs[i]
		}
	}
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case unknown != nil:
		return nil, corral.Errorf(corral.ErrUnavailable, corral.Hint(unknown), "cannot tell whether process %s exists: %w", id, unknown)
	}
	return nil, corral.Errorf(corral.ErrNotFound, "", "no node knows a process %s", id)
}

func (f *Fabric) attachAt(ctx context.Context, c candidate, id string) (corral.Process, error) {
	if !c.online {
		return nil, corral.Errorf(corral.ErrUnavailable, "start corral node there", "%s", describe([]candidate{c}))
	}
	return (&Node{link{f, c.peer, c.full}}).Attach(ctx, id)
}
