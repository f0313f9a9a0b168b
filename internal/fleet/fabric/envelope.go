package fabric

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nkeys"

	"github.com/corral-exec/corral"
)

// Bounds, in bytes.
const (
	// MaxData is how much output, input or body one message carries. Servers
	// take messages of at least 64 KiB, and smaller ones are interleaved.
	MaxData = 31_000
	// MaxBody bounds the body of a request. It holds the largest command of
	// the contract (2 MiB) at its least favourable encoding.
	MaxBody = 14 << 20
	// MaxAnswer bounds an answer, a hello and an error.
	MaxAnswer = 60 << 10
	// MaxOffset bounds offsets in a log, so that it is safe to add to them.
	MaxOffset = 1 << 62

	maxSeq    = 1 << 62 // likewise
	maxHeader = 2 << 10
	sigLen    = 64
	digestLen = sha256.Size
)

// Lifetime is the time in which a gateway repeats a request unchanged. Later it signs a
// new one, in a newer epoch.
const Lifetime = 45 * time.Second

// ErrMalformed is the error of every parser here.
var ErrMalformed = errors.New("malformed message")

// Op is the operation that a request asks for.
type Op string

const (
	OpStart  Op = "start"  // body Start; answers Info
	OpDecide Op = "decide" // body Start; answers Decision; starts nothing
	OpAttach Op = "attach" // answers Info; never starts anything
	OpWait   Op = "wait"   // answers Exit, or Pending after WaitStep
	OpStat   Op = "stat"   // answers Stat
	OpSignal Op = "signal" // body Signal
	OpResize Op = "resize" // body corral.Size
	OpEOF    Op = "eof"    // closes standard input
	OpRemove Op = "remove"
	OpOpen   Op = "open" // body Input at offset 0: begins a write
	OpDial   Op = "dial" // body Dial; answers Info: a connection to a port, which is used as a process is

	// Bulk requests have no answer. Errors about them go to their reader or write.
	OpRead  Op = "read"  // body Grant
	OpWrite Op = "write" // body Input
)

// Bulk reports whether op has no answer, and a number sequence of its own.
func (op Op) Bulk() bool { return op == OpRead || op == OpWrite }

// A Header is the signed part of a request: the node and the gateway, the epoch, and
// the digest of the body.
type Header struct {
	Version int    `json:"v"`
	Node    string `json:"node"`
	Boot    string `json:"boot"`  // the life of the node's program
	Key     string `json:"key"`   // the gateway's public nkey
	Life    string `json:"life"`  // the life of the gateway: where answers go
	Seq     uint64 `json:"seq"`   // with Life and Bulk, the nonce
	Epoch   uint64 `json:"epoch"` // the node's epoch at the time of the request; 0: not known
	Op      Op     `json:"op"`
	ID      string `json:"id"` // the process
	Size    int    `json:"size"`
	Digest  []byte `json:"sum"` // SHA-256 of the body
}

// answered reports whether h is of a request with an answer of its own.
func (h *Header) answered() bool { return !h.Op.Bulk() && h.Op != OpOpen }

// domain makes the signatures invalid for any other purpose.
const domain = "corral fabric request\n"

// A Signer is a gateway's key, decoded once: nkeys would decode it for each signature.
type Signer struct {
	public  string
	private ed25519.PrivateKey
}

// NewSigner decodes a key.
func NewSigner(key nkeys.KeyPair) (*Signer, error) {
	public, err := key.PublicKey()
	if err != nil {
		return nil, fmt.Errorf("cannot use the key of the gateway: %w", err)
	}
	seed, err := key.Seed()
	if err != nil {
		return nil, fmt.Errorf("cannot use the key of the gateway: %w", err)
	}
	_, raw, err := nkeys.DecodeSeed(seed)
	if err != nil {
		return nil, fmt.Errorf("cannot use the key of the gateway: %w", err)
	}
	return &Signer{public, ed25519.NewKeyFromSeed(raw)}, nil
}

// Public is the public nkey.
func (s *Signer) Public() string { return s.public }

// Seal signs a request. The first message goes to RequestSubject; if there are
// more, the body goes to PartSubject, in that order. h.Key, h.Size and h.Digest
// are filled in.
func (s *Signer) Seal(h Header, body []byte) (messages [][]byte, err error) {
	if len(body) > MaxBody {
		return nil, corral.Errorf(corral.ErrInvalid, "pass large data on standard input or in a file", "the request has %d bytes, more than %d", len(body), MaxBody)
	}
	sum := sha256.Sum256(body)
	h.Key, h.Size, h.Digest = s.public, len(body), sum[:]
	head, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	if len(head) > maxHeader {
		return nil, fmt.Errorf("%w: a header of %d bytes", ErrMalformed, len(head))
	}
	sig := ed25519.Sign(s.private, signed(head))
	m := make([]byte, 0, 2+len(head)+sigLen+min(len(body), MaxData))
	m = binary.BigEndian.AppendUint16(m, uint16(len(head)))
	m = append(append(m, head...), sig...)
	if len(body) <= MaxData {
		return [][]byte{append(m, body...)}, nil
	}
	messages = append(messages, m)
	for off := 0; off < len(body); off += MaxData {
		messages = append(messages, Part{h.Life, h.Seq, off, body[off:min(off+MaxData, len(body))]}.append(nil))
	}
	return messages, nil
}

func signed(head []byte) []byte { return append([]byte(domain), head...) }

// An Envelope is a request as it arrived. Do not trust any of it before Verify.
type Envelope struct {
	Header
	Ref  Ref    // the process; ID is that of the Ref
	Body []byte // nil if it follows in parts

	head, sig []byte
}

// InParts reports whether the body follows.
func (e *Envelope) InParts() bool { return e.Size > MaxData }

// ParseEnvelope reads a message of RequestSubject. It keeps b.
func ParseEnvelope(b []byte) (*Envelope, error) {
	if len(b) < 2 {
		return nil, fmt.Errorf("%w: %d bytes", ErrMalformed, len(b))
	}
	n := int(binary.BigEndian.Uint16(b))
	b = b[2:]
	if n > maxHeader || len(b) < n+sigLen {
		return nil, fmt.Errorf("%w: a header of %d bytes in %d", ErrMalformed, n, len(b))
	}
	e := &Envelope{head: b[:n], sig: b[n : n+sigLen], Body: b[n+sigLen:]}
	if err := json.Unmarshal(e.head, &e.Header); err != nil {
		return nil, fmt.Errorf("%w: the header: %w", ErrMalformed, err)
	}
	switch {
	case validateToken(e.Node) != nil, validateToken(e.Life) != nil, validateToken(e.Key) != nil, validateToken(e.Boot) != nil:
		return nil, fmt.Errorf("%w: a name in the header", ErrMalformed)
	case e.Seq > maxSeq:
		return nil, fmt.Errorf("%w: the number %d", ErrMalformed, e.Seq)
	case len(e.Digest) != digestLen, e.Size < 0, e.Size > MaxBody:
		return nil, fmt.Errorf("%w: a body of %d bytes", ErrMalformed, e.Size)
	case !e.InParts() && len(e.Body) != e.Size, e.InParts() && len(e.Body) != 0, e.InParts() && e.Op.Bulk():
		return nil, fmt.Errorf("%w: %d bytes of a body of %d", ErrMalformed, len(e.Body), e.Size)
	}
	if e.InParts() {
		e.Body = nil
	}
	e.Ref = parseRef(e.ID)
	e.ID = e.Ref.ID
	return e, nil
}

// Verify reports whether the named key signed the header, and whether the body matches
// the header. The caller looks up the owner of the key.
func (e *Envelope) Verify(key nkeys.KeyPair) error {
	if err := key.Verify(signed(e.head), e.sig); err != nil {
		return fmt.Errorf("the signature: %w", err)
	}
	if e.InParts() && e.Body == nil {
		return nil
	}
	return e.verifyBody()
}

func (e *Envelope) verifyBody() error {
	if sum := sha256.Sum256(e.Body); !bytes.Equal(sum[:], e.Digest) {
		return errors.New("the body is not the one that was signed")
	}
	return nil
}

// A Part is a piece of a body that does not fit into one message.
type Part struct {
	Life string
	Seq  uint64
	Off  int
	Data []byte
}

func (p Part) append(b []byte) []byte {
	b = append(append(b, byte(len(p.Life))), p.Life...)
	b = binary.BigEndian.AppendUint64(b, p.Seq)
	b = binary.BigEndian.AppendUint32(b, uint32(p.Off))
	return append(b, p.Data...)
}

// ParsePart reads a message of PartSubject. It keeps b.
func ParsePart(b []byte) (Part, error) {
	if len(b) < 1 || len(b) < 1+int(b[0])+12 {
		return Part{}, fmt.Errorf("%w: a part of %d bytes", ErrMalformed, len(b))
	}
	n := int(b[0])
	p := Part{Life: string(b[1 : 1+n])}
	b = b[1+n:]
	p.Seq = binary.BigEndian.Uint64(b)
	off := binary.BigEndian.Uint32(b[8:])
	p.Data = b[12:]
	if validateToken(p.Life) != nil || off > MaxBody || len(p.Data) == 0 || len(p.Data) > MaxData {
		return Part{}, fmt.Errorf("%w: a part of %d bytes at %d", ErrMalformed, len(p.Data), off)
	}
	p.Off = int(off)
	return p, nil
}
