package pairing

import (
	"cmp"
	"encoding/hex"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/corral-exec/corral"
)

// Bounds of a setup token.
const (
	MaxUses     = 1000
	MaxTokenAge = 90 * 24 * time.Hour
)

// NewToken makes a setup token that is valid for ttl and pairs a number of nodes. All
// of them get the labels. The secret is not stored: it is returned only here.
func (r *Registry) NewToken(ttl time.Duration, uses int, labels map[string]string, by string) (secret string, t Token, err error) {
	if err := cmp.Or(validateWho(by), validateLabels(labels)); err != nil {
		return "", Token{}, err
	}
	if ttl < time.Second || ttl > MaxTokenAge || uses < 1 || uses > MaxUses {
		return "", Token{}, corral.Errorf(corral.ErrInvalid, "use 1 s to 90 days, and 1 to 1000 uses", "cannot make a setup token for %s and %d uses", ttl, uses)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.store == nil {
		return "", Token{}, errClosed
	}
	now := wall(time.Now())
	var made *Token
	err = r.update(func(st *state) (*state, error) {
		next := st.clone()
		for id, t := range next.tokens {
			if !t.ExpiresAt.After(now) {
				delete(next.tokens, id)
			}
		}
		if len(next.tokens) >= maxTokens {
			return nil, corral.Errorf(corral.ErrUnavailable, "withdraw those that are not needed", "there are %d setup tokens, of at most %d", len(next.tokens), maxTokens)
		}
		var id string
		secret, id = newSecret()
		for next.tokens[id] != nil {
			secret, id = newSecret()
		}
		hash := tokenHash(secret)
		made = &Token{
			ID: id, Hash: hex.EncodeToString(hash[:]), Left: uses, Labels: cloneLabels(labels), By: by,
			CreatedAt: now, ExpiresAt: wall(now.Add(ttl)),
		}
		next.tokens[id] = made
		return next, nil
	})
	if err != nil {
		return "", Token{}, err
	}
	return secret, made.public(), nil
}

func (t *Token) clone() Token {
	c := *t
	c.Labels = cloneLabels(t.Labels)
	return c
}

// public returns a copy of a token without its hash.
func (t *Token) public() Token {
	c := t.clone()
	c.Hash = ""
	return c
}

// Tokens returns the valid setup tokens, the oldest first.
func (r *Registry) Tokens() []Token {
	now := time.Now()
	list := []Token{}
	for _, t := range r.now.Load().tokens {
		if t.ExpiresAt.After(now) {
			list = append(list, t.public())
		}
	}
	slices.SortFunc(list, func(a, b Token) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), strings.Compare(a.ID, b.ID))
	})
	return list
}

// Withdraw makes a setup token, named by its id, invalid. Nodes that it paired stay.
func (r *Registry) Withdraw(id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.store == nil {
		return errClosed
	}
	return r.update(func(st *state) (*state, error) {
		if st.tokens[id] == nil {
			return nil, corral.Errorf(corral.ErrNotFound, "see which there are: corral nodes tokens ls", "there is no setup token %s", quote(id))
		}
		next := st.clone()
		delete(next.tokens, id)
		return next, nil
	})
}

// Redeem makes a key a node if it proves to have a setup token. For the key of a node
// it returns that node, and uses no token. An invalid proof is an ErrDenied, and so is
// a revoked key.
func (r *Registry) Redeem(proof, key string, from netip.Addr, h Hello) (Node, error) {
	if err := cmp.Or(ValidateKey(key), h.validate()); err != nil {
		return Node{}, err
	}
	id, mac, wellFormed := parseProof(proof)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.store == nil {
		return Node{}, errClosed
	}
	var n *Node
	err := r.update(func(st *state) (*state, error) {
		old := st.nodes[ID(key)]
		if old != nil && old.Key == key && old.active() {
			n = old
			return nil, errPaired
		}
		t := st.tokens[id]
		if !wellFormed || t == nil || !proves(mac, t.Hash, key, r.opts.GatewayKey) || !t.ExpiresAt.After(time.Now()) {
			return nil, corral.Errorf(corral.ErrDenied, "corral nodes tokens new prints a new one on the gateway; or run corral node without --token-file, and have it approved",
				"the setup token is not one of this gateway, was used, withdrawn, or has expired")
		}
		if old != nil && !old.active() {
			return nil, corral.Errorf(corral.ErrDenied, "run corral node without --token-file, and have it approved", "the key of node %s was revoked, and no setup token can pair it", old.Name)
		}
		next := st.clone()
		var err error
		if n, err = next.pair(key, suggested(h.Name), false); err != nil {
			return nil, err
		}
		n.Labels = cloneLabels(t.Labels)
		n.ApprovedBy = approvedBy(t)
		n.note(from, h)
		if used := t.clone(); used.Left > 1 {
			used.Left--
			next.tokens[id] = &used
		} else {
			delete(next.tokens, id)
		}
		return next, nil
	})
	switch {
	case errors.Is(err, errPaired):
		return n.clone(), nil
	case err != nil:
		return Node{}, err
	}
	delete(r.requests, key)
	r.tell(Change{Event: EventPaired, Key: key, Node: n.clone()})
	return n.clone(), nil
}

// errPaired ends an update when nothing is left to do.
var errPaired = errors.New("it is a node")

func approvedBy(t *Token) string {
	who := "token " + t.ID
	if t.By != "" {
		who += " of " + t.By
	}
	for len(who) > maxText {
		r := []rune(who)
		who = string(r[:len(r)-1])
	}
	return who
}
