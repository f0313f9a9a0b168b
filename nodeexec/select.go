package nodeexec

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/corral-exec/corral"
	"github.com/corral-exec/corral/internal/fleet/fabric"
	"github.com/corral-exec/corral/internal/located"
	"github.com/corral-exec/corral/internal/words"
)

const (
	pairHint = "corral nodes join says how to pair one; or use host sandbox or gateway"
	nameHint = "name one of them: node=ID, or tools.exec.node; or a pool of them: node=pool:NAME"
)

// A Status is the known state of a node.
type Status struct {
	Paired
	Online bool
	Heard  time.Time // zero if never
	// Problem says why this gateway cannot use it as it should. Empty: there is none.
	Problem string
	// The node's description of itself.
	Program, OS, Arch, Host string
	Features                []string
	Load                    fabric.Load
}

// List returns the paired nodes, by id.
func (f *Fabric) List(ctx context.Context) []Status {
	var list []Status
	for _, c := range f.candidates(ctx, nil) {
		h, heard, online := c.peer.about()
		list = append(list, Status{
			Paired: c.Paired, Online: online, Heard: heard, Problem: c.peer.problem(c.misfit),
			Program: h.Program, OS: h.OS, Arch: h.Arch, Host: h.Host, Features: h.Features,
			Load: h.Load,
		})
	}
	return list
}

// candidate is a paired node with its full name: its name, if that is unique.
type candidate struct {
	Paired
	full   string
	peer   *peer
	online bool
	misfit error // why it cannot be used although it is online
}

// counts reports whether the node can be used. A node that cannot be used never makes a
// name ambiguous.
func (c candidate) counts() bool { return c.online && c.misfit == nil }

// roster is the list of paired nodes, prepared for lookups until the list changes.
type roster struct {
	of    []Paired
	all   []candidate         // by id; the fixed parts of each
	exact map[string][]string // ids by exact name: an id or a node's name
	byID  map[string]int      // in all
}

// roster returns the roster of the nodes that are paired now.
func (f *Fabric) roster() *roster {
	paired := f.paired()
	if r := f.listed.Load(); r != nil && len(r.of) == len(paired) && (len(paired) == 0 || &r.of[0] == &paired[0]) {
		return r
	}
	r := &roster{of: paired, exact: make(map[string][]string, 2*len(paired)), byID: make(map[string]int, len(paired))}
	for _, p := range paired {
		if fabric.ValidateNodeID(p.ID) != nil {
			continue // an invalid id in the registry; no subject could reach it
		}
		r.exact[p.ID] = append(r.exact[p.ID], p.ID)
		if p.Name != p.ID && p.Name != "" {
			r.exact[p.Name] = append(r.exact[p.Name], p.ID)
		}
		r.all = append(r.all, candidate{Paired: p, peer: f.peer(p.ID)})
	}
	slices.SortFunc(r.all, func(a, b candidate) int { return strings.Compare(a.ID, b.ID) })
	for i := range r.all {
		c := &r.all[i]
		r.byID[c.ID] = i
		c.full = c.ID
		if c.Name != "" && len(r.exact[c.Name]) == 1 {
			c.full = c.Name
		}
	}
	f.listed.Store(r)
	return r
}

// named returns the nodes that a name can mean: the nodes with exactly that id or name
// if there are any, else all.
func (r *roster) named(name string) []candidate {
	var list []candidate
	for _, id := range r.exact[name] {
		list = append(list, r.all[r.byID[id]])
	}
	if list == nil {
		return slices.Clone(r.all)
	}
	return list
}

// candidates returns the paired nodes by id, with their present state. It asks nodes
// whose state is unknown, but only those that matter; nil: all.
func (f *Fabric) candidates(ctx context.Context, matters func(candidate) bool) []candidate {
	return f.present(ctx, slices.Clone(f.roster().all), matters)
}

// present fills in the present state of candidates.
func (f *Fabric) present(ctx context.Context, list []candidate, matters func(candidate) bool) []candidate {
	var asking sync.WaitGroup
	for i := range list {
		c := &list[i]
		if _, _, c.online = c.peer.about(); !c.online && (matters == nil || matters(*c)) {
			asking.Go(func() { c.online = c.peer.online(ctx) })
		}
	}
	asking.Wait()
	for i := range list {
		if c := &list[i]; c.online {
			h, _, _ := c.peer.about()
			c.misfit = fabric.Negotiate(c.full, h)
		}
	}
	return list
}

// Select implements corral.Nodes. It ignores nodes that are offline or speak another
// version of the protocol.
func (f *Fabric) Select(ctx context.Context, name string) (corral.Executor, string, error) {
	return f.selectNode(ctx, name, nil)
}

// selectNode is Select, but skips the tried nodes of a pool.
func (f *Fabric) selectNode(ctx context.Context, name string, tried []string) (corral.Executor, string, error) {
	all := f.present(ctx, f.roster().named(name), func(c candidate) bool { return couldBe(c, name) })
	if err := ctx.Err(); err != nil {
		return nil, "", err
	}
	c, err := pick(all, name, tried, rand.IntN)
	if err != nil {
		return nil, "", f.mindful(err, len(all) == 0)
	}
	n := &Node{link: link{f, c.peer, c.full}}
	if isPool(name) {
		n.pool, n.tried = name, append(slices.Clone(tried), c.ID)
	}
	return n, c.full, nil
}

// mindful extends the error of a command without a node: if machines ask to be nodes,
// the user should look at them first.
func (f *Fabric) mindful(err error, none bool) error {
	if !none || f.asking == nil || !errors.Is(err, corral.ErrNoNode) {
		return err
	}
	n := f.asking()
	switch {
	case n == 0:
		return err
	case n == 1:
		return corral.Errorf(corral.ErrUnavailable, "corral nodes pending shows it; corral nodes approve CODE makes it a node", "%w; 1 machine asks to be one", err)
	}
	return corral.Errorf(corral.ErrUnavailable, "corral nodes pending shows them; corral nodes approve CODE makes one a node", "%w; %d machines ask to be nodes", err, n)
}

// pick chooses the node for a command that names it so. The table in
// docs/reference/nodes-selection.md is its whole specification.
func pick(all []candidate, name string, tried []string, draw func(n int) int) (candidate, error) {
	if isPool(name) {
		return pickMember(all, name, tried, draw)
	}
	return choose(all, name)
}

// ways are the ways in which a name can mean a node, the first one first.
var ways = []func(c candidate, name string) bool{
	func(c candidate, name string) bool { return name == "" || c.ID == name || c.Name == name },
	func(c candidate, name string) bool { return hasAddress(c.Addresses, name) },
	func(c candidate, name string) bool { return strings.HasPrefix(c.ID, name) },
}

// couldBe reports whether a name can mean that node. Only such nodes are asked whether
// they are online: there may be hundreds that are offline.
func couldBe(c candidate, name string) bool {
	if isPool(name) {
		key, value, err := parsePool(name)
		return err == nil && c.in(key, value)
	}
	return slices.ContainsFunc(ways, func(fits func(candidate, string) bool) bool { return fits(c, name) })
}

// choose finds the one node that a name means. An exact name, id or address goes before
// the prefix of an id, even if that node is offline: otherwise a command could go to
// another machine than the named one.
func choose(all []candidate, name string) (candidate, error) {
	for _, fits := range ways {
		meant := filter(all, func(c candidate) bool { return fits(c, name) })
		counting := filter(meant, candidate.counts)
		switch {
		case len(meant) == 0:
		case len(counting) == 1:
			return counting[0], nil
		case len(counting) > 1 && name == "":
			return candidate{}, corral.Errorf(corral.ErrInvalid, nameHint, "%d nodes are online, and none is chosen: %s", len(counting), describe(counting))
		case len(counting) > 1:
			return candidate{}, corral.Errorf(corral.ErrInvalid, "name one of them by its whole id", "%s could be any of %d nodes: %s", quote(name), len(counting), describe(counting))
		default:
			return candidate{}, useless(name, meant)
		}
	}
	return candidate{}, unknown(all, name, "no node answers to "+quote(name), "name one of them, or pair this one", candidate.called)
}

// useless explains why none of the nodes with a name can be used.
func useless(name string, meant []candidate) error {
	offline := func(c candidate) bool { return !c.online }
	hint := "start corral node there"
	switch {
	case !slices.ContainsFunc(meant, offline):
		hint = corral.Hint(meant[0].misfit)
	case len(meant) > 1:
		hint = "start corral node on one of them"
	}
	switch {
	case name != "":
		return corral.Errorf(corral.ErrUnavailable, hint+", or choose another node", "cannot use node %s: %s", quote(name), describe(meant))
	case len(filter(meant, offline)) == len(meant):
		return corral.Errorf(corral.ErrUnavailable, hint, "no node is online: %s", describe(meant))
	}
	return corral.Errorf(corral.ErrUnavailable, hint, "no node can be used: %s", describe(meant))
}

// unknown returns the error for a name that no node has.
func unknown(all []candidate, name, text, hint string, say func(candidate) string) error {
	var err *corral.Error
	switch {
	case len(all) > 0:
		err = corral.Errorf(corral.ErrUnavailable, hint, "%s; paired are %s", text, listed(all, say))
	case name == "":
		err = corral.Errorf(corral.ErrUnavailable, pairHint, "no node is paired")
	default:
		err = corral.Errorf(corral.ErrUnavailable, pairHint, "cannot use node %s: no node is paired", quote(name))
	}
	err.Err = corral.ErrNoNode
	return err
}

func filter(list []candidate, keep func(candidate) bool) (kept []candidate) {
	for _, c := range list {
		if keep(c) {
			kept = append(kept, c)
		}
	}
	return kept
}

// quote quotes the beginning of a caller's name for a node.
func quote(name string) string { return words.QuoteStart(name, 200) }

func hasAddress(addresses []string, name string) bool {
	want, err := netip.ParseAddr(name)
	return err == nil && slices.ContainsFunc(addresses, func(a string) bool {
		got, err := netip.ParseAddr(a)
		return err == nil && got.Unmap() == want.Unmap()
	})
}

// describe lists nodes for people, with their faults.
func describe(list []candidate) string { return listed(list, candidate.String) }

// listed lists nodes, up to a readable number.
func listed(list []candidate, say func(candidate) string) string {
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
		b.WriteString(say(c))
	}
	return b.String()
}

// called returns a node's id, and its name if that differs.
func (c candidate) called() string {
	if c.Name != "" && c.Name != c.ID {
		return c.ID + " (" + c.Name + ")"
	}
	return c.ID
}

func (c candidate) String() string {
	switch h, heard, _ := c.peer.about(); {
	case c.online && c.misfit != nil:
		return fmt.Sprintf("%s speaks versions %d to %d of the protocol, and this gateway version %d", c.called(), h.Min, h.Max, fabric.Version)
	case c.online:
		return c.called()
	case heard.IsZero():
		return c.called() + " is offline"
	default:
		return c.called() + " is offline since " + heard.UTC().Format(time.RFC3339)
	}
}

// Attach implements corral.Nodes. The error is ErrNotFound only if every node
// says so. If the caller knows the node (package located), that node alone is asked. A
// process that two nodes claim is ErrUnavailable: one of them lies.
func (f *Fabric) Attach(ctx context.Context, id string) (corral.Process, error) {
	if err := corral.ValidateID(id); err != nil {
		return nil, corral.Errorf(corral.ErrNotFound, corral.Hint(err), "no process can have that id: %w", err)
	}
	if at := located.From(ctx).Node; at != "" {
		is := func(c candidate) bool { return c.ID == at || c.full == at } // no node's full name is the id of another
		if found := filter(f.candidates(ctx, is), is); len(found) > 0 {
			return f.attachAt(ctx, found[0], id)
		}
		return nil, corral.Errorf(corral.ErrNotFound, "", "node %s is not paired any more, and had process %s", at, id)
	}
	f.mu.Lock()
	last, seen := f.seen[id]
	f.mu.Unlock()
	if seen { // ask that node alone first
		is := func(c candidate) bool { return c.ID == last }
		for _, c := range filter(f.candidates(ctx, is), is) {
			if p, err := f.attachAt(ctx, c, id); !errors.Is(err, corral.ErrNotFound) {
				return p, err
			}
		}
	}
	all := f.candidates(ctx, nil)
	found := make([]corral.Process, len(all))
	errs := make([]error, len(all))
	var asking sync.WaitGroup
	for i, c := range all {
		asking.Go(func() { found[i], errs[i] = f.attachAt(ctx, c, id) })
	}
	asking.Wait()
	var claims []candidate
	var p corral.Process
	var unknown error
	for i, c := range all {
		switch {
		case errs[i] == nil:
			claims, p = append(claims, c), found[i]
		case !errors.Is(errs[i], corral.ErrNotFound) && unknown == nil:
			unknown = errs[i]
		}
	}
	switch {
	case len(claims) == 1:
		return p, nil
	case len(claims) > 1:
		f.forgetNodeOf(id)
		f.warn("several nodes claim to have the same process", "process", id, "nodes", describe(claims))
		return nil, corral.Errorf(corral.ErrUnavailable, "find out which of them lies, and take it away with corral nodes revoke", "%d nodes claim to have process %s: %s", len(claims), id, describe(claims))
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case unknown != nil:
		return nil, corral.Errorf(corral.ErrUnavailable, corral.Hint(unknown), "not every node can be asked: %w", unknown)
	}
	return nil, corral.Errorf(corral.ErrNotFound, "", "no node knows a process %s", id)
}

func (f *Fabric) attachAt(ctx context.Context, c candidate, id string) (corral.Process, error) {
	if !c.online {
		return nil, corral.Errorf(corral.ErrUnavailable, "start corral node there", "%s", c)
	}
	return (&Node{link: link{f, c.peer, c.full}}).Attach(ctx, id)
}
