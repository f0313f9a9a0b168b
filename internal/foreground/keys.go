package foreground

import (
	"bytes"
	"errors"
	"strings"
)

// Keys are the keys that detach: their bytes, and their notation.
type Keys struct {
	sequence []byte
	text     string
}

const (
	DefaultKeys = "ctrl-p,ctrl-q"
	noKeys      = "none"
	maxKeys     = 8
)

func (k *Keys) Type() string   { return "keys" }
func (k *Keys) String() string { return k.text }

// Set reads "ctrl-p,ctrl-q": characters, and ctrl- with a letter or one of
// @ [ \ ] ^ _.
func (k *Keys) Set(s string) error {
	if s == noKeys {
		k.sequence, k.text = nil, s
		return nil
	}
	var sequence []byte
	for key := range strings.SplitSeq(s, ",") {
		name := strings.ToLower(key)
		ctrl, found := strings.CutPrefix(name, "ctrl-")
		switch {
		case found && len(ctrl) == 1 && ctrl[0] >= 'a' && ctrl[0] <= 'z':
			sequence = append(sequence, ctrl[0]-'a'+1)
		case found && len(ctrl) == 1 && strings.Contains(`@[\]^_`, ctrl):
			sequence = append(sequence, ctrl[0]&0x1f)
		case len(key) == 1 && key[0] > ' ' && key[0] < 0x7f:
			sequence = append(sequence, key[0])
		default:
			return errors.New("use keys such as " + DefaultKeys + ", or " + noKeys)
		}
	}
	if len(sequence) > maxKeys {
		return errors.New("use fewer keys")
	}
	k.sequence, k.text = sequence, s
	return nil
}

// A detacher looks for the keys in typed input. It holds back a possible beginning of
// them until it is certain.
type detacher struct {
	sequence []byte
	held     []byte
}

// pass returns the part of input for the session, and whether the keys came. Input
// after the keys is dropped.
func (d *detacher) pass(input []byte) (out []byte, detach bool) {
	if len(d.sequence) == 0 {
		return input, false
	}
	for _, b := range input {
		d.held = append(d.held, b)
		for !bytes.HasPrefix(d.sequence, d.held) { // release the oldest bytes until the rest may begin the keys
			out = append(out, d.held[0])
			d.held = d.held[1:]
		}
		if len(d.held) == len(d.sequence) {
			return out, true
		}
	}
	return out, false
}
