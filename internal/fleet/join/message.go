package join

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nkeys"

	"github.com/corral-exec/corral/api"
	"github.com/corral-exec/corral/internal/fleet/pairing"
)

// Version of the messages.
const Version = 1

// maxMessage bounds a message, in bytes.
const maxMessage = 8 << 10

const sigLen = 64

// errMalformed is the error of every parser here.
var errMalformed = errors.New("malformed message")

// An Ask is a machine's request to be a node.
type Ask struct {
	Version int           `json:"v"`
	Nonce   string        `json:"nonce"` // names this ask; at most 64 characters
	Hello   pairing.Hello `json:"hello"`
	// Proof that it has a setup token, see [pairing.Proof]. Empty: an operator decides.
	Proof string `json:"proof,omitempty"`
}

func parseAsk(b []byte) (Ask, error) {
	var a Ask
	if len(b) > maxMessage {
		return a, fmt.Errorf("%w: %d bytes", errMalformed, len(b))
	}
	if err := json.Unmarshal(b, &a); err != nil {
		return Ask{}, fmt.Errorf("%w: %w", errMalformed, err)
	}
	if a.Nonce == "" || len(a.Nonce) > 64 || len(a.Proof) > 256 {
		return Ask{}, fmt.Errorf("%w: the nonce or the proof", errMalformed)
	}
	return a, nil
}

// A Verdict is the gateway's current answer.
type Verdict struct {
	Version int           `json:"v"`
	Nonce   string        `json:"nonce,omitempty"`
	State   pairing.State `json:"state,omitempty"`
	Code    string        `json:"code,omitempty"` // to compare, while it is pending
	ID      string        `json:"id,omitempty"`   // of the node
	Name    string        `json:"name,omitempty"`
	Expires time.Time     `json:"expires,omitzero"` // of a request without an answer
	// Error: the ask is not accepted, and State is empty.
	Error *api.ErrorBody `json:"error,omitempty"`
}

const domain = "corral pairing verdict\n"

func signed(node string, text []byte) []byte {
	return append([]byte(domain+node+"\n"), text...)
}

func (v Verdict) encode(key nkeys.KeyPair, node string) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	sig, err := key.Sign(signed(node, text))
	if err != nil {
		return nil, fmt.Errorf("cannot sign a verdict: %w", err)
	}
	return append(sig, text...), nil
}

// parseVerdict reads a verdict from the gateway with that key for the node with that
// key.
func parseVerdict(b []byte, gateway, node string) (Verdict, error) {
	var v Verdict
	if len(b) < sigLen || len(b) > maxMessage {
		return v, fmt.Errorf("%w: %d bytes", errMalformed, len(b))
	}
	key, err := nkeys.FromPublicKey(gateway)
	if err != nil {
		return v, err
	}
	if err := key.Verify(signed(node, b[sigLen:]), b[:sigLen]); err != nil {
		return v, fmt.Errorf("%w: it is not signed by the gateway: %w", errMalformed, err)
	}
	if err := json.Unmarshal(b[sigLen:], &v); err != nil {
		return Verdict{}, fmt.Errorf("%w: %w", errMalformed, err)
	}
	return v, nil
}
