package natskv

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/corral-exec/corral"
)

const (
	version       = 1
	signatureSize = 64
	maxHead       = 1 << 10
	partPrefix    = "part."
	partSize      = 32 << 10 // bytes; servers take messages of at least 64 KiB
)

// head describes the text of an entry.
type head struct {
	Version int    `json:"version"`
	Size    int    `json:"size"` // in bytes
	Sum     string `json:"sha256"`
	Parts   string `json:"parts,omitempty"` // the text is in part.KEY.PARTS.0 and so on; empty: here
	Nonce   string `json:"nonce"`           // makes each entry unique, so that its author recognises it
}

// Large reports whether a text is stored in parts.
func Large(text []byte) bool { return len(text) > partSize }

func newHead(text []byte) head {
	sum := sha256.Sum256(text)
	return head{Version: version, Size: len(text), Sum: hex.EncodeToString(sum[:]), Nonce: corral.NewID()}
}

// signed returns the bytes that the signature of an entry covers.
func (b *Bucket) signed(key string, value []byte) []byte {
	return append([]byte("corral bucket "+b.cfg.Name+"\n"+key+"\n"), value...)
}

// seal returns the value of an entry.
func (b *Bucket) seal(key string, h head, text []byte) ([]byte, error) {
	value, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	value = append(value, '\n')
	if h.Parts == "" {
		value = append(value, text...)
	}
	sig, err := b.cfg.Key.Sign(b.signed(key, value))
	if err != nil {
		return nil, fmt.Errorf("cannot sign %s: %w", b.cfg.Holds, err)
	}
	return append(sig, value...), nil
}

// unseal reads the value of an entry. The text is nil if it is in parts.
func (b *Bucket) unseal(key string, value []byte) (h head, text []byte, err error) {
	if len(value) < signatureSize {
		return head{}, nil, b.distrust("it is cut short")
	}
	public, err := nkeys.FromPublicKey(b.public)
	if err != nil {
		return head{}, nil, err
	}
	if public.Verify(b.signed(key, value[signatureSize:]), value[:signatureSize]) != nil {
		return head{}, nil, b.distrust("it is not signed with the key of this gateway")
	}
	line, text, found := bytes.Cut(value[signatureSize:], []byte{'\n'})
	if !found || len(line) > maxHead || json.Unmarshal(line, &h) != nil || h.Size < 0 || h.Size > b.cfg.MaxText {
		return head{}, nil, b.distrust("its head cannot be read")
	}
	if h.Version != version {
		return head{}, nil, b.distrust(fmt.Sprintf("it has version %d, and this program knows %d", h.Version, version))
	}
	if h.Parts != "" {
		text = nil
	}
	return h, text, nil
}

// distrust returns the error for an entry that no gateway made.
func (b *Bucket) distrust(why string) error {
	return corral.Errorf(corral.ErrDenied, "give all gateways the same gateway.seed; if they have it, see who else can write to the message server",
		"cannot trust %s at the message server: %s", b.cfg.Holds, why)
}

// errReplaced: the parts of an entry were purged while it was read.
var errReplaced = corral.Errorf(corral.ErrUnavailable, "try again", "what is at the message server was replaced while it was read")

// Replaced reports whether an entry was purged while it was read.
func Replaced(err error) bool { return errors.Is(err, errReplaced) }

// unsealed returns a stored entry. The error is about reading it; e.Err about trust.
func (b *Bucket) unsealed(ctx context.Context, key string, revision uint64, value []byte) (Entry, error) {
	e := Entry{Key: key, Revision: revision}
	h, text, err := b.unseal(key, value)
	if err != nil {
		e.Err = err
		return e, nil
	}
	if h.Parts != "" {
		if text, err = b.readParts(ctx, key, h); err != nil {
			return e, err
		}
	}
	if sum := sha256.Sum256(text); len(text) != h.Size || hex.EncodeToString(sum[:]) != h.Sum {
		e.Err = b.distrust("its text is another one than was signed")
		return e, nil
	}
	e.Text = text
	return e, nil
}

func partKey(key string, h head, i int) string {
	return partPrefix + key + "." + h.Parts + "." + strconv.Itoa(i)
}

func (b *Bucket) putParts(ctx context.Context, key string, h *head, text []byte) error {
	h.Parts = corral.NewID()
	for i := 0; i*partSize < len(text); i++ {
		part := text[i*partSize : min((i+1)*partSize, len(text))]
		err := b.try(ctx, func(ctx context.Context) error {
			_, err := b.publish(ctx, &nats.Msg{Subject: b.pattern + partKey(key, *h, i), Data: part})
			if says(err, wrongLast) { // an unanswered attempt made it
				err = nil
			}
			return err
		})
		if err != nil {
			b.Purge(partPrefix+key+"."+h.Parts+".>", 0)
			return err
		}
	}
	return nil
}

func (b *Bucket) readParts(ctx context.Context, key string, h head) ([]byte, error) {
	text := make([]byte, 0, h.Size)
	for i := 0; i*partSize < h.Size; i++ {
		part, err := b.get(ctx, request{Last: b.pattern + partKey(key, h, i)})
		if errors.Is(err, ErrNone) {
			return nil, errReplaced
		}
		if err != nil {
			return nil, err
		}
		if len(part.Data) > partSize {
			break // it is not the signed text
		}
		text = append(text, part.Data...)
	}
	return text, nil
}
