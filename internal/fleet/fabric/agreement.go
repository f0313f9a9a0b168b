package fabric

import (
	"bytes"
	"crypto/ecdh"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/corral-exec/corral"
)

// Lengths of what agreements are made of, in bytes.
const (
	ShareLen    = 32 // of the public half of a Share
	agreementID = 16
	macLen      = sha256.Size
)

// agreedMark begins requests under an agreement. The length of a signed header
// never does.
const agreedMark = 0x80

// A Share is what one life of a program brings to agreements: a key for X25519
// that is kept nowhere.
type Share struct {
	private *ecdh.PrivateKey
	public  []byte
}

// NewShare makes a share.
func NewShare() (*Share, error) {
	private, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("cannot make a key for this life of the program: %w", err)
	}
	return &Share{private, private.PublicKey().Bytes()}, nil
}

// Public is the half that the other side is told.
func (s *Share) Public() []byte { return s.public }

// Parties are who agrees: one life of a node's program and one of a gateway's.
type Parties struct {
	Node, Boot string
	Key, Life  string // of the gateway
	// NodeShare and GatewayShare are the public halves.
	NodeShare, GatewayShare []byte
}

// An Agreement is a secret that one life of a gateway and one of a node share,
// with which the gateway proves what it asks.
type Agreement struct {
	Parties
	id  [agreementID]byte
	key []byte
}

// Agree makes an agreement of p, of which the share is one and theirs the other.
// Both come to the same, and nobody else does. All of p is part of it.
func (s *Share) Agree(theirs []byte, p Parties) (*Agreement, error) {
	public, err := ecdh.X25519().NewPublicKey(theirs)
	if err != nil {
		return nil, fmt.Errorf("%w: the share: %w", ErrMalformed, err)
	}
	secret, err := s.private.ECDH(public)
	if err != nil { // it is one with which everybody knows the secret
		return nil, fmt.Errorf("%w: the share: %w", ErrMalformed, err)
	}
	info := strings.Join([]string{"corral fabric agreement", p.Node, p.Boot, p.Key, p.Life, string(p.NodeShare) + string(p.GatewayShare)}, "\n")
	made, err := hkdf.Key(sha256.New, secret, nil, info, agreementID+sha256.Size)
	if err != nil {
		return nil, fmt.Errorf("cannot agree: %w", err)
	}
	a := &Agreement{Parties: p, key: made[agreementID:]}
	copy(a.id[:], made)
	return a, nil
}

// Seal proves a request that fits into one message, for RequestSubject. Of the
// header it takes Seq, Epoch, Op and ID.
func (a *Agreement) Seal(h Header, body []byte) ([]byte, error) {
	if len(body) > MaxData || len(h.ID) > 255 || len(h.Op) > 255 {
		return nil, fmt.Errorf("%w: a request of %d bytes under an agreement", ErrMalformed, len(body))
	}
	m := make([]byte, 0, 1+agreementID+5*8+len(a.Boot)+len(a.Life)+len(h.Op)+len(h.ID)+len(body)+macLen)
	m = append(append(m, agreedMark), a.id[:]...)
	m = binary.BigEndian.AppendUint64(m, h.Seq)
	m = binary.BigEndian.AppendUint64(m, h.Epoch)
	for _, s := range []string{a.Boot, a.Life, string(h.Op), h.ID} {
		m = append(append(m, byte(len(s))), s...)
	}
	m = append(m, body...)
	return a.mac(m, m), nil
}

// mac appends the proof of m to b.
func (a *Agreement) mac(b, m []byte) []byte {
	mac := hmac.New(sha256.New, a.key)
	mac.Write(m) // a hash takes everything
	return mac.Sum(b)
}

// verify reports whether e was made under a, and fills in what that says about
// it.
func (a *Agreement) verify(e *Envelope) error {
	if e.Boot != a.Boot || e.Life != a.Life || !hmac.Equal(a.mac(nil, e.head), e.sig) {
		return errors.New("the proof of the request is wrong")
	}
	e.Version, e.Node, e.Key = Version, a.Node, a.Key
	return nil
}

// parseAgreed reads a request under an agreement, which is not complete before
// it is verified. It keeps b.
func parseAgreed(b []byte) (*Envelope, error) {
	short := fmt.Errorf("%w: %d bytes under an agreement", ErrMalformed, len(b))
	const fixed = 1 + agreementID + 2*8
	if len(b) < fixed+macLen {
		return nil, short
	}
	e := &Envelope{head: b[:len(b)-macLen], sig: b[len(b)-macLen:], Agreed: true}
	copy(e.agreement[:], b[1:])
	e.Seq, e.Epoch = binary.BigEndian.Uint64(b[1+agreementID:]), binary.BigEndian.Uint64(b[1+agreementID+8:])
	rest := e.head[fixed:]
	var op string
	for _, s := range []*string{&e.Boot, &e.Life, &op, &e.ID} {
		if len(rest) < 1 || len(rest) < 1+int(rest[0]) {
			return nil, short
		}
		*s, rest = string(rest[1:1+rest[0]]), rest[1+rest[0]:]
	}
	e.Op, e.Body, e.Size = Op(op), rest, len(rest)
	switch {
	case validateToken(e.Life) != nil, validateToken(e.Boot) != nil:
		return nil, fmt.Errorf("%w: a name under an agreement", ErrMalformed)
	case e.Seq > maxSeq:
		return nil, fmt.Errorf("%w: the number %d", ErrMalformed, e.Seq)
	case e.Size > MaxData:
		return nil, fmt.Errorf("%w: a body of %d bytes under an agreement", ErrMalformed, e.Size)
	}
	e.refer()
	return e, nil
}

// agree makes the agreement that a signed request asks for.
func (n *node) agree(e *Envelope) (*Agreement, error) {
	if !bytes.Equal(e.To, n.share.public) {
		return nil, corral.Errorf(corral.ErrDenied, "look into who can send to the nodes",
			"somebody told the gateway of another share than that of node %s", n.id)
	}
	return n.share.Agree(e.Share, Parties{Node: n.id, Boot: n.boot, Key: e.Key, Life: e.Life, NodeShare: n.share.public, GatewayShare: e.Share})
}
